"""The words on a box: the module call, function call or source line that it represents, or its operations."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate, groupby, takewhile

from gradviz.graph.model import ModuleScope, Node
from gradviz.graph.query.own_line import line_words
from gradviz.rendering.words.common_words import count_words, counted, element_count, range_words, shortened
from gradviz.rendering.words.subject_facts import SubjectFacts
from gradviz.view.fold.plumbing import PLUMBING_NAMES
from gradviz.view.model import Item

MAX_WORDS = 4
LONGEST_PATTERN = 33
LONGEST_SOURCE = 48


def box_title(facts: SubjectFacts, item: Item) -> str:
    """``h.0 … h.11``, ``fc (call 2)``; the operations in it for a box without a module."""
    if item.scope is None:
        return _group_title(facts, item)
    scopes = facts.graph.scopes
    first = scope_title(facts, item, item.scope)
    if item.last_scope is not None:
        last = scope_title(facts, item, item.last_scope)
        return first if first == last else f"{first} … {last}"
    if scopes[item.scope].kind != "module":
        return first  # A recording does not distinguish calls of one function.
    scope, around_it = scopes[item.scope], facts.enclosing_scope(item)
    is_said_around = around_it is not None and scopes[around_it].call == scope.call
    return first if is_said_around else f"{first}{_which_call(facts, scope)}"


def _which_call(facts: SubjectFacts, scope: ModuleScope) -> str:
    """`` (call 2)`` if the graph has several calls of a module; others may have run before, as in an evaluation."""
    return f" (call {scope.call + 1})" if scope.call and facts.calls_in_graph[scope.path] > 1 else ""


def box_path(facts: SubjectFacts, item: Item) -> str:
    """The whole path, and which call if the graph has several: for words without a box around them."""
    if item.scope is None:
        return ""
    scope = facts.graph.scopes[item.scope]
    if scope.kind != "module":
        return box_title(facts, item)
    if item.last_scope is None:
        return f"{scope.path}{_which_call(facts, scope)}"
    last = facts.graph.scopes[item.last_scope].path
    return scope.path if last == scope.path else f"{scope.path} … {_last_parts(last, scope.path)}"


def _last_parts(path: str, first: str) -> str:
    """A path, starting with the last name that it shares with the first path of its row: ``h.11``."""
    parts = path.split(".")
    shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(parts, first.split("."), strict=False)))
    return ".".join(parts[max(shared - 1, 0) :])


def box_subtitle(facts: SubjectFacts, item: Item) -> str:
    """What the box represents in other words, and what it hides that a user must know."""
    return " · ".join(filter(None, (_own_words(facts, item), *_what_is_special(facts, item))))


def _own_words(facts: SubjectFacts, item: Item) -> str:
    if item.scope is not None:
        return scope_subtitle(facts, facts.graph.scopes[item.scope])
    if item.repeat > 1:
        return ""
    operations = counted(len(operations_in(facts, item)), "operation")
    position = facts.positions_in_row.get(item.id)
    return operations if position is None else f"{position[0]:,} of {position[1]:,} · {operations}"


def _what_is_special(facts: SubjectFacts, item: Item) -> Iterator[str]:
    if item.sizes_differ:
        yield "shapes differ"
    custom = 0 if item.is_open else sum(facts.graph.nodes[node].kind == "custom" for node in item.nodes)
    if custom:
        yield f"holds {counted(custom, 'custom function')}"


def box_badge(facts: SubjectFacts, item: Item) -> str:
    """``×12 · 85.1M params``."""
    parts = [f"×{item.repeat:,}"] if item.repeat > 1 else []
    parameters = parameter_count(facts, item)
    if parameters:
        count = _counts_of_repetitions(facts, item) or count_words(parameters)
        parts.append(f"{count} param" if count == "1" else f"{count} params")
    return " · ".join(parts)


def _counts_of_repetitions(facts: SubjectFacts, item: Item) -> str:
    """``2 to 9.7k`` if the box represents several with different numbers of parameters."""
    if item.repeat > 1 or not lies_where_shapes_differ(facts, item):
        return ""
    count = repetitions(facts, item)
    each, rest = divmod(len(item.parameters), count)
    if not each or rest:
        return ""
    sizes = [facts.graph.nodes[leaf].output(0) for leaf in item.parameters]
    return range_words([element_count(sizes[each * turn : each * (turn + 1)]) for turn in range(count)], count_words)


def operations_in(facts: SubjectFacts, item: Item) -> list[Node]:
    """The operations that a box computes, in creation order, without leaves and views."""
    found = (facts.graph.nodes[node] for node in facts.nodes_in(item))
    return [node for node in found if not node.is_leaf and node.name not in PLUMBING_NAMES]


def parameter_count(facts: SubjectFacts, item: Item) -> int:
    """Elements of all parameters in a box, each counted once."""
    if item.scope is not None and item.repeat == 1 and facts.graph.scopes[item.scope].parameter_count:
        return facts.graph.scopes[item.scope].parameter_count
    leaves = (facts.graph.nodes[leaf] for leaf in item.parameters)
    return element_count([leaf.outputs[0] for leaf in leaves if leaf.outputs])


def _group_title(facts: SubjectFacts, item: Item) -> str:
    operations = operations_in(facts, item)
    if item.repeat == 1:
        return _origin(facts, operations) or _first_to_last(facts, item, operations)
    words = _pattern(facts, item, operations[: max(1, len(operations) // repetitions(facts, item))])
    shown = _fitting(words)
    more = f", … {len(words) - shown} more" if len(words) > shown else ""
    return ", ".join(words[:shown]) + more


def repetitions(facts: SubjectFacts, item: Item) -> int:
    """How many repetitions a repeated box represents; loops within loops multiply."""
    count = item.repeat
    while item.parent is not None:
        item = facts.view.items[item.parent]
        count *= item.repeat
    return count


def lies_where_shapes_differ(facts: SubjectFacts, item: Item) -> bool:
    """Whether an item represents repetitions that differ only in the sizes of their tensors."""
    while not item.sizes_differ and item.parent is not None:
        item = facts.view.items[item.parent]
    return item.sizes_differ


def _fitting(words: list[str]) -> int:
    """How many of `words` can be read at a glance."""
    lengths = accumulate(len(word) + 2 for word in words[:MAX_WORDS])
    return max(1, sum(length <= LONGEST_PATTERN for length in lengths))


def _origin(facts: SubjectFacts, operations: list[Node]) -> str:
    """The line or the function that made everything in a box."""
    sites = {site for node in operations if (site := facts.own_site(node.call_site)) is not None}
    if len({(site.file, site.line) for site in sites}) == 1:
        site = next(iter(sites))
        return shortened(facts.source_text(site), LONGEST_SOURCE) or f"line {site.line}"
    functions = {site.function for site in sites}
    name = next(iter(functions)) if len(functions) == 1 else "<module>"
    return "" if name.startswith("<") else f"{name}()"


def _first_to_last(facts: SubjectFacts, item: Item, operations: list[Node]) -> str:
    words = _pattern(facts, item, operations)
    return " … ".join(dict.fromkeys((words[0], words[-1]))) if words else "operations"


def _pattern(facts: SubjectFacts, item: Item, operations: list[Node]) -> list[str]:
    """The sequence of operations, and of the classes of modules that are called."""
    around = facts.enclosing_scope(item)
    parts = [(_call_below(facts, node, around), node) for node in operations]
    words: list[str] = []
    for call, members in groupby(parts, key=lambda part: part[0]):
        if call is None:
            words.extend(facts.operation_title(node) for _, node in members)
        else:
            scope = facts.graph.scopes[call]
            words.append(scope.path if scope.kind == "line" else scope.class_name)
    return [word if (count := len(list(alike))) == 1 else f"{word} ×{count}" for word, alike in groupby(words)]


def _call_below(facts: SubjectFacts, node: Node, around: int | None) -> int | None:
    """The module call directly inside `around` in which a node was made."""
    below, scope = None, node.scope
    while scope is not None and scope != around:
        below, scope = scope, facts.graph.scopes[scope].parent
    return below


def relative_path(path: str, around: str) -> str:
    """A dotted path without the part that the box around it shows."""
    return path.removeprefix(f"{around}.") if around else path


def scope_title(facts: SubjectFacts, item: Item, number: int) -> str:
    """``h.0`` for a module, ``step()`` for a function, the text of a source line."""
    scope = facts.graph.scopes[number]
    if scope.kind == "function":
        return scope.class_name
    if scope.kind == "line":
        return shortened(_text(facts, scope), LONGEST_SOURCE) or scope.path
    return relative_path(scope.path, facts.enclosing_path(item))


def scope_subtitle(facts: SubjectFacts, scope: ModuleScope) -> str:
    """The class of a module, the line that called a function, or the location of a source line."""
    if scope.kind == "module":
        return scope.class_name
    line = _line(facts, scope)
    return f"called at {line}" if scope.kind == "function" and line else line


def scope_tooltip(facts: SubjectFacts, number: int | None) -> Iterator[str]:
    """The module call, function call or source line around a box or an operation."""
    if number is None:
        return
    scope = facts.graph.scopes[number]
    if scope.kind == "module":
        yield f"module {scope.path} ({scope.class_name})" + (f", call {scope.call + 1}" if scope.call else "")
        return
    line, text = _line(facts, scope), _text(facts, scope)
    if scope.kind == "line":
        yield f"made while {line} ran" + (f": {text}" if text else "")
        return
    yield f"made in {scope.class_name}" + (f", called at {line}" if line else "") + (f": {text}" if text else "")


def _line(facts: SubjectFacts, scope: ModuleScope) -> str:
    return "" if scope.call_site is None else line_words(facts.graph.call_sites[scope.call_site])


def _text(facts: SubjectFacts, scope: ModuleScope) -> str:
    return "" if scope.call_site is None else facts.source_text(facts.graph.call_sites[scope.call_site])
