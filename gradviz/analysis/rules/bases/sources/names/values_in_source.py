"""What the source of a program gives to a variable, to a parameter of a function, or to a field of a configuration.

>>> lines = '''@dataclass
... class Config:
...     frozen: tuple = ("embed", "blocks.1")
...     depth: int = 12
... def freeze(model, words, mark="."):
...     pass
... freeze(model, cfg.frozen)
... made = Config(depth=6)
... settings = {"skip": ["bias"]}
... pairs = (words, mark, cfg.depth, settings["skip"])'''.splitlines()
>>> tree = SourceTree(dict(enumerate(lines, start=1)))
>>> [[ast.unparse(each) for each in values_in_source(tree, part)] for part in tree.module.body[-1].value.elts]
[[], [], ['6'], ["['bias']"]]
>>> [ast.unparse(each) for each in values_in_source(tree, tree.module.body[2].value.args[1])]
["('embed', 'blocks.1')"]
"""

from __future__ import annotations

import ast

from gradviz.analysis.sources.parsed_lines import FUNCTIONS
from gradviz.analysis.sources.source_tree import (
    Key,
    SourceTree,
    called_name,
    defaults_of,
    given_to,
    parameters_of,
    set_in_class,
)


def values_in_source(tree: SourceTree, variable: ast.expr) -> list[ast.expr]:
    """What a variable holds that is given one value, or all that calls give to a parameter or field; else nothing."""
    key = tree.key_of(variable)
    values = tree.values_of(key)
    if len(values) == 1 and key is not None and tree.times_bound(key) == 1:
        return values
    if isinstance(variable, ast.Name):
        return given_by_calls(tree, variable)
    if isinstance(variable, ast.Attribute) and not values:
        return _of_module(tree, variable) or _of_field(tree, variable.attr) or _of_option(tree, variable.attr)
    if isinstance(variable, ast.Subscript) and isinstance(variable.slice, ast.Constant):
        return _of_entry(tree, variable.slice.value)
    return []


def _of_module(tree: SourceTree, variable: ast.Attribute) -> list[ast.expr]:
    """What a module gives to a name that is read as ``settings.FROZEN``, if no other module gives one to it."""
    imports = (node for node in tree.nodes if isinstance(node, (ast.Import, ast.ImportFrom)))
    modules = {each.asname or each.name for node in imports for each in node.names}
    key = Key(0, variable.attr)
    is_one = isinstance(variable.value, ast.Name) and variable.value.id in modules and tree.times_bound(key) == 1
    return tree.values_of(key) if is_one else []


def given_by_calls(tree: SourceTree, name: ast.Name) -> list[ast.expr]:
    """What the calls in the source give to a parameter of the function around a name; else its default."""
    function = next((each for each in tree.around(name) if isinstance(each, FUNCTIONS)), None)
    if function is None or name.id not in parameters_of(function):
        return []
    called = _names_of(tree, _class_around(tree, function) if function.name == "__init__" else function.name)
    calls = (each for each in tree.nodes if isinstance(each, ast.Call) and called_name(each) in called)
    found = [value for call in calls for parameter, value in given_to(function, call) if parameter == name.id]
    return found or [value for parameter, value in defaults_of(function) if parameter == name.id]


def _names_of(tree: SourceTree, name: str) -> set[str]:
    """The name of a function or class, and those that other files import it under."""
    imports = (node for node in tree.nodes if isinstance(node, ast.ImportFrom))
    return {name, *(each.asname for node in imports for each in node.names if each.name == name and each.asname)}


def _class_around(tree: SourceTree, function: ast.AST) -> str:
    parent = tree.parent(function)
    return parent.name if isinstance(parent, ast.ClassDef) else ""


def _of_field(tree: SourceTree, name: str) -> list[ast.expr]:
    """Of a class that gives a field its default: what the calls of the class give to it, else the default."""
    classes = [node for node in tree.nodes if isinstance(node, ast.ClassDef)]
    defaults = [(each, value) for each in classes for own, value in set_in_class(each) if own == name]
    if len(defaults) != 1 or name in tree.foreign:
        return []
    (owner, default), *_ = defaults
    calls = [node for node in tree.nodes if isinstance(node, ast.Call) and called_name(node) == owner.name]
    return [each.value for call in calls for each in call.keywords if each.arg == name] or [_made_by_field(default)]


def _made_by_field(value: ast.expr) -> ast.expr:
    """``field(default_factory=lambda: ["bias"])`` of a dataclass stands for the list."""
    for each in value.keywords if isinstance(value, ast.Call) and called_name(value) == "field" else ():
        if each.arg in ("default", "default_factory"):
            return each.value.body if isinstance(each.value, ast.Lambda) else each.value
    return value


def _of_option(tree: SourceTree, name: str) -> list[ast.expr]:
    """The default of ``--name`` of a command line."""
    options = [node for node in tree.nodes if isinstance(node, ast.Call) and called_name(node) == "add_argument"]
    texts = {f"--{name}", f"--{name.replace('_', '-')}"}
    return [
        each.value
        for call in options
        if any(isinstance(given, ast.Constant) and given.value in texts for given in call.args)
        for each in call.keywords
        if each.arg == "default"
    ]


def _of_entry(tree: SourceTree, key: object) -> list[ast.expr]:
    """The value of a key that one dict of the file is written with."""
    dicts = [node for node in tree.nodes if isinstance(node, ast.Dict)]
    found = [
        value
        for node in dicts
        for each, value in zip(node.keys, node.values, strict=True)
        if isinstance(each, ast.Constant) and each.value == key
    ]
    return found if len(found) == 1 and isinstance(key, str) else []
