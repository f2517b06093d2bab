"""Modules that a loop over ``children()`` is to switch, and does not reach: they lie deeper in the model."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.layer_calls import is_training
from gradviz.analysis.rules.bases.sources.loops.switches_of_children import MODES, Switch, switches_of_children
from gradviz.analysis.rules.bases.sources.own_files import own_files
from gradviz.analysis.sources.parsed_lines import FUNCTIONS
from gradviz.analysis.sources.source_tree import (
    SourceTree,
    called_name,
    given_to,
    last_line,
    last_name,
    names_in,
    parameters_of,
)

_OF_TORCH = {
    "_BatchNorm": ("BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "SyncBatchNorm"),
    "_DropoutNd": ("Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "AlphaDropout", "FeatureAlphaDropout"),
    "_InstanceNorm": ("InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d"),
}
"""Classes of torch that programs ask for, and those of layers that inherit from them."""
_SWITCHED_LAYERS = frozenset({each for names in _OF_TORCH.values() for each in names} | {"LayerNorm", "GroupNorm"})
_ATTRIBUTES_OF_TORCH = frozenset({"p", "momentum", "training", "track_running_stats", "eps", "dropout"})
_MEANT = re.compile(
    r"\bdirectly (in|below|under)\b|\bdirect child|\b(top[- ]level|outermost|immediate)\b", re.IGNORECASE
)
_MAX_DEEP = 4
_RETURN_SELF = frozenset({"to", "cuda", "cpu", "float", "train", "eval"})
"""Methods of a module that return it."""


class NotReached(Struct, frozen=True):
    """A switch, and the modules that it does not reach."""

    file: str
    switch: Switch
    kinds: tuple[str, ...]
    """Their classes."""
    reached: tuple[str, ...]
    """Paths of modules that it reaches."""
    deeper: tuple[str, ...]
    """Paths of those that it does not."""


def not_reached(case: Case) -> Iterator[NotReached]:
    """Switches of children in the program, where modules of the same class are deeper in the model."""
    files = list(own_files(case))
    switches = [(file, each) for file, tree in files for each in switches_of_children(tree)]
    if not switches:
        return
    program = _Program(case, [tree for _, tree in files])
    groups: dict[tuple[str, bool], list[tuple[str, Switch]]] = defaultdict(list)
    for file, switch in switches:
        groups[switch.name, switch.is_call].append((file, switch))
    told = set[tuple[str, int]]()
    for found in groups.values():
        own = [switch for _, switch in found]
        if any(not program.models_of(switch) for switch in own):
            continue  # which modules it reaches is not known
        reached = {path for switch in own for path in program.children_of(switch)}
        for file, switch in found:
            deeper = [each for each in program.deeper_than(switch) if not _is_among(each, reached)]
            deeper = [each for each in deeper if program.is_otherwise(switch, each)]
            is_told = (file, switch.line) in told or not program.runs(switch) or _is_meant(switch)
            if deeper and not is_told and not program.is_switched_elsewhere(switch, own):
                told.add((file, switch.line))
                kinds = tuple(dict.fromkeys(program.tree_of_modules[each] for each in deeper))
                yield NotReached(file, switch, kinds, tuple(sorted(program.children_of(switch))), tuple(deeper))


def _is_among(path: str, reached: set[str]) -> bool:
    """Whether a module is one of some, or in one of them."""
    return any(path == each or path.startswith(f"{each}.") for each in reached)


def _is_meant(switch: Switch) -> bool:
    """Whether a comment in or above the function, or its docstring, says that it is for the outermost modules."""
    around = next((each for each in switch.tree.around(switch.call) if isinstance(each, FUNCTIONS)), None)
    first, last = (switch.line, switch.line) if around is None else (around.lineno, last_line(around))
    lines = [switch.tree.lines.get(number, "") for number in range(first - 1, last + 1)]
    comments = [text.partition("#")[2] for text in lines]
    return any(map(_MEANT.search, [*comments, (ast.get_docstring(around) or "") if around is not None else ""]))


class _Program:
    """The modules of a run, with the classes and functions of its source."""

    def __init__(self, case: Case, trees: list[SourceTree]) -> None:
        self._case, self._trees = case, trees
        calls, scopes = case.dataflow.log.calls, case.dataflow.log.scopes
        made = (calls[row] for row in case.dataflow.rows_of_kind("make_module"))
        self.tree_of_modules = {call.name: call.function.rpartition(".")[2] for call in made if call.name}
        self.tree_of_modules |= {each.path: each.class_name for each in scopes if each.kind == "module"}
        """Class by path."""
        nodes = [node for tree in trees for node in tree.nodes]
        self._classes = {node.name: node for node in nodes if isinstance(node, ast.ClassDef)}
        self._calls = [(tree, node) for tree in trees for node in tree.nodes if isinstance(node, ast.Call)]
        self._called_scopes = {each.path for each in scopes}

    def children_of(self, switch: Switch) -> set[str]:
        """The modules of its class that a switch reaches."""
        kinds = self._kinds(switch)
        return {
            each for model in self.models_of(switch) for each in self._below(model, kinds) if _depth(each, model) == 1
        }

    def deeper_than(self, switch: Switch) -> list[str]:
        """Those deeper in the same models, if the program called them."""
        kinds = self._kinds(switch)
        found = (
            each for model in self.models_of(switch) for each in self._below(model, kinds) if _depth(each, model) > 1
        )
        return [each for each in dict.fromkeys(found) if each in self._called_scopes]

    def _below(self, model: str, kinds: set[str]) -> Iterator[str]:
        start = f"{model}."
        return (path for path, kind in self.tree_of_modules.items() if kind in kinds and path.startswith(start))

    def is_otherwise(self, switch: Switch, path: str) -> bool:
        """Whether a module is not in the state that a switch of torch's own is to give it."""
        if switch.name == "requires_grad_":
            own = self._case.histories.parameters_below(path)
            flags = {self._case.histories.requires_grad_at_last(each) for each in own}
            return flags == {switch.value == "False"}
        if switch.name in ("eval", "train") and switch.is_call:
            flow = self._case.dataflow
            scopes = [number for number, each in enumerate(flow.log.scopes) if each.path == path]
            rows = (flow.log.calls[row] for scope in scopes for row in flow.rows_inside(scope))
            modes = {is_training(call) for call in rows if any(use.requires_grad for use in call.outputs)} - {None}
            return modes == {switch.name == "eval" or switch.value == "False"}
        return True

    def runs(self, switch: Switch) -> bool:
        """Whether something calls the function that has it, or nothing is around it."""
        around = next((each for each in switch.tree.around(switch.call) if isinstance(each, FUNCTIONS)), None)
        if around is None or around.name in ("__init__", "train", "eval", "__enter__", "__exit__"):
            return True
        return any(called_name(node) == around.name for _, node in self._calls)

    def is_switched_elsewhere(self, switch: Switch, own: list[Switch]) -> bool:
        """Whether another place of the program may give the same state to modules that a switch does not reach."""
        if switch.name in MODES and switch.is_call:
            return False  # `is_otherwise` looks at their state
        calls = {id(each.call) for each in own}
        of_loops = {id(part) for tree in self._trees for each in _loops_over(tree, calls) for part in ast.walk(each)}
        for tree in self._trees:
            for node in tree.nodes:
                if id(node) not in of_loops and self._gives(tree, node, switch):
                    return True
        return False

    def _gives(self, tree: SourceTree, node: ast.AST, switch: Switch) -> bool:
        """Whether a node gives the state of a switch to some module, from outside of its constructor."""
        if switch.is_call:
            return called_name(node) == switch.name
        value, targets = None, list[ast.Attribute]()
        if isinstance(node, ast.Assign):
            targets = [each for each in node.targets if isinstance(each, ast.Attribute) and each.attr == switch.name]
            value = node.value if targets else None
        elif isinstance(node, ast.Call) and called_name(node) == "setattr" and len(node.args) > 2:
            is_it = getattr(node.args[1], "value", switch.name) == switch.name
            value = node.args[2] if is_it else None
        if value is None:
            return False
        around = next((each for each in tree.around(node) if isinstance(each, FUNCTIONS)), None)
        if around is not None and around.name == "__init__":
            return False
        of_self = any(last_name(each.value) == "self" for each in targets)
        if of_self and around is not None and not any(called_name(each) == around.name for _, each in self._calls):
            return False
        is_other = isinstance(value, ast.Constant) and _is_constant(switch.value) and ast.unparse(value) != switch.value
        return not is_other

    def _kinds(self, switch: Switch) -> set[str]:
        """The classes of modules that a switch is for; none where it is something that parts of a model differ in."""
        named = set(switch.classes)
        if switch.attribute or not named:
            asked = switch.attribute or switch.name
            named |= {name for name, node in self._classes.items() if _has(node, asked)}
        kinds = self._and_subclasses(named)
        own = kinds & set(self._classes)
        if switch.is_call and switch.name not in MODES:
            return {each for each in own if _defines(self._classes[each], switch.name, self._classes)}
        if switch.is_call:
            return own | (kinds & _SWITCHED_LAYERS)
        if switch.name in _ATTRIBUTES_OF_TORCH:
            return kinds
        return kinds if any(_reads(each, switch.name) for each in self._classes.values()) else set()

    def _and_subclasses(self, named: set[str]) -> set[str]:
        found = named | {each for name in named for each in _OF_TORCH.get(name, ())}
        for _ in self._classes:
            more = {name for name, node in self._classes.items() if not found.isdisjoint(map(last_name, node.bases))}
            if more <= found:
                break
            found |= more
        return found

    def models_of(self, switch: Switch) -> set[str]:
        """The paths of the modules whose children a loop goes through."""
        return set(self._paths(switch.tree, switch.model, 0))

    def _paths(self, tree: SourceTree, model: ast.expr, deep: int) -> Iterator[str]:
        names = _dotted(model)
        if names is None or deep > _MAX_DEEP:
            return
        owner = tree.class_around(model)
        if names[0] == "self" and owner is not None:
            kinds = self._and_subclasses({owner.name})
            of_class = [path for path, kind in self.tree_of_modules.items() if kind in kinds]
            if of_class:
                yield from (".".join((path, *names[1:])) for path in of_class)
                return
        if len(names) == 1:
            given = list(self._given(tree, model))
            found = [*given, *((tree, each) for each in tree.values_of(tree.key_of(model)))]
            paths = [path for other, value in found for path in self._made_or_named(other, value, deep)]
            if paths or given or _is_of_loop(tree, names[0]):
                yield from paths
                return
        text = ".".join(each for each in names if each != "self")
        yield from (path for path in self._all_paths() if path == text or path.endswith(f".{text}"))

    def _made_or_named(self, tree: SourceTree, value: ast.expr, deep: int) -> Iterator[str]:
        """The paths of what a value is: a new module of a class, or one that has a name."""
        while (
            isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and called_name(value) in _RETURN_SELF
        ):
            value = value.func.value
        if isinstance(value, ast.Call):
            kinds = self._and_subclasses({called_name(value)}) if called_name(value) in self._classes else set[str]()
            yield from (path for path, kind in self.tree_of_modules.items() if kind in kinds)
        elif isinstance(value, (ast.Name, ast.Attribute)):
            yield from self._paths(tree, value, deep + 1)

    def _given(self, tree: SourceTree, name: ast.expr) -> Iterator[tuple[SourceTree, ast.expr]]:
        """What calls give for the argument of a function that has a name."""
        around = next((each for each in tree.around(name) if isinstance(each, FUNCTIONS)), None)
        if around is None or not isinstance(name, ast.Name) or name.id not in parameters_of(around):
            return
        for other, call in self._calls:
            if called_name(call) == around.name:
                yield from ((other, value) for place, value in given_to(around, call) if place == name.id)

    def _all_paths(self) -> Iterable[str]:
        """The paths of all modules, also of lists, which nothing calls."""
        found = dict[str, None]()
        for path in self.tree_of_modules:
            names = path.split(".")
            found |= dict.fromkeys(".".join(names[: count + 1]) for count in range(len(names)))
        return found


def _depth(path: str, model: str) -> int:
    return path.removeprefix(f"{model}.").count(".") + 1


def _dotted(model: ast.expr) -> list[str] | None:
    """``["self", "encoder"]`` of ``self.encoder``; None for what is no name."""
    names = list[str]()
    while isinstance(model, ast.Attribute):
        names.append(model.attr)
        model = model.value
    return [model.id, *reversed(names)] if isinstance(model, ast.Name) else None


def _loops_over(tree: SourceTree, calls: set[int]) -> Iterator[ast.stmt]:
    """The loops of switches of some calls of ``children()``."""
    for node in tree.nodes:
        if isinstance(node, ast.For):
            values = [node.iter, *tree.values_of(tree.key_of(node.iter))]
            if any(id(part) in calls for value in values for part in ast.walk(value)):
                yield node
        elif isinstance(node, ast.Expr) and any(id(part) in calls for part in ast.walk(node)):
            yield node


def _is_of_loop(tree: SourceTree, name: str) -> bool:
    """Whether a name is bound by a loop: it may be any module."""
    return any(isinstance(node, (ast.For, ast.comprehension)) and name in names_in(node.target) for node in tree.nodes)


def _is_constant(text: str) -> bool:
    try:
        ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return False
    return True


def _has(owner: ast.ClassDef, attribute: str) -> bool:
    """Whether a class sets an attribute of its objects, or defines it."""
    names = {getattr(each, "name", "") for each in owner.body}
    return attribute in names or any(
        isinstance(node, ast.Attribute) and node.attr == attribute and isinstance(node.ctx, ast.Store)
        for node in ast.walk(owner)
        if last_name(getattr(node, "value", node)) == "self"
    )


def _defines(owner: ast.ClassDef, method: str, classes: dict[str, ast.ClassDef]) -> bool:
    bases = [classes[last_name(each)] for each in owner.bases if last_name(each) in classes]
    return any(isinstance(part, FUNCTIONS) and part.name == method for each in (owner, *bases) for part in each.body)


def _reads(owner: ast.ClassDef, attribute: str) -> bool:
    return any(
        isinstance(node, ast.Attribute) and node.attr == attribute and isinstance(node.ctx, ast.Load)
        for node in ast.walk(owner)
    )
