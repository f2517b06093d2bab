"""The words on a box: the module call it stands for, or what the operations in it are."""

from __future__ import annotations

from itertools import accumulate, groupby

from gradviz.graph.model import Node
from gradviz.graph.plumbing import PLUMBING_NAMES
from gradviz.graph.view import Item
from gradviz.rendering.subject_words import SubjectWords
from gradviz.rendering.words import count_words, counted, element_count, shortened

MOST_WORDS = 4
LONGEST_PATTERN = 33
LONGEST_SOURCE = 48


def relative_path(path: str, around: str) -> str:
    """A dotted path without the part that the box around it shows."""
    return path.removeprefix(f"{around}.") if around else path


def box_title(subject: SubjectWords, item: Item) -> str:
    """``h.0 … h.11``, ``fc (call 2)``; for a box without a module the operations in it."""
    if item.scope is None:
        return _group_title(subject, item)
    scopes, around = subject.graph.scopes, subject.enclosing_path(item)
    first = relative_path(scopes[item.scope].path, around)
    if item.last_scope is not None:
        last = relative_path(scopes[item.last_scope].path, around)
        return first if first == last else f"{first} … {last}"
    call, around_it = scopes[item.scope].call, subject.enclosing_scope(item)
    is_said_around = around_it is not None and scopes[around_it].call == call
    return f"{first} (call {call + 1})" if call and not is_said_around else first


def box_path(subject: SubjectWords, item: Item) -> str:
    """Where nothing around says it: the whole path, and which call, where the graph holds several."""
    if item.scope is None:
        return ""
    scope = subject.graph.scopes[item.scope]
    if item.last_scope is None:
        is_one_of_several = scope.call and subject.calls_in_graph[scope.path] > 1
        return f"{scope.path} (call {scope.call + 1})" if is_one_of_several else scope.path
    last = subject.graph.scopes[item.last_scope].path
    return scope.path if last == scope.path else f"{scope.path} … {last}"


def box_subtitle(subject: SubjectWords, item: Item) -> str:
    """The class of the module; for other boxes how their operations belong together."""
    if item.scope is not None:
        return subject.graph.scopes[item.scope].class_name
    return "" if item.repeat > 1 else counted(len(operations_in(subject, item)), "operation")


def box_badge(subject: SubjectWords, item: Item) -> str:
    """``×12 · 85.1M params``."""
    parts = [f"×{item.repeat:,}"] if item.repeat > 1 else []
    parameters = _parameter_count(subject, item)
    if parameters:
        parts.append(f"{count_words(parameters)} params")
    return " · ".join(parts)


def operations_in(subject: SubjectWords, item: Item) -> list[Node]:
    """What a box computes, in creation order, without leaves and mere views."""
    found = (subject.graph.nodes[node] for node in subject.nodes_in(item))
    return [node for node in found if not node.is_leaf and node.name not in PLUMBING_NAMES]


def _parameter_count(subject: SubjectWords, item: Item) -> int:
    if item.scope is not None and item.repeat == 1 and subject.graph.scopes[item.scope].parameter_count:
        return subject.graph.scopes[item.scope].parameter_count
    leaves = (subject.graph.nodes[leaf] for leaf in item.parameters)
    return element_count([leaf.outputs[0] for leaf in leaves if leaf.outputs])


def _group_title(subject: SubjectWords, item: Item) -> str:
    operations = operations_in(subject, item)
    if item.repeat == 1:
        return _origin(subject, operations) or _first_to_last(subject, item, operations)
    words = _pattern(subject, item, operations[: max(1, len(operations) // item.repeat)])
    shown = _fitting(words)
    more = f", … {len(words) - shown} more" if len(words) > shown else ""
    return ", ".join(words[:shown]) + more


def _fitting(words: list[str]) -> int:
    """How many of `words` can be read at a glance."""
    lengths = accumulate(len(word) + 2 for word in words[:MOST_WORDS])
    return max(1, sum(length <= LONGEST_PATTERN for length in lengths))


def _origin(subject: SubjectWords, operations: list[Node]) -> str:
    """The line or the function that made everything in a box."""
    sites = {site for node in operations if (site := subject.readers_site(node.call_site)) is not None}
    if len({(site.file, site.line) for site in sites}) == 1:
        site = next(iter(sites))
        return shortened(subject.source_text(site), LONGEST_SOURCE) or f"line {site.line}"
    functions = {site.function for site in sites}
    name = next(iter(functions)) if len(functions) == 1 else "<module>"
    return "" if name.startswith("<") else f"{name}()"


def _first_to_last(subject: SubjectWords, item: Item, operations: list[Node]) -> str:
    words = _pattern(subject, item, operations)
    return " … ".join(dict.fromkeys((words[0], words[-1]))) if words else "operations"


def _pattern(subject: SubjectWords, item: Item, operations: list[Node]) -> list[str]:
    """What follows what: operations, and the classes of the modules that are called."""
    around = subject.enclosing_scope(item)
    parts = [(_call_below(subject, node, around), node) for node in operations]
    words: list[str] = []
    for call, members in groupby(parts, key=lambda part: part[0]):
        if call is None:
            words.extend(subject.operation_title(node) for _, node in members)
        else:
            words.append(subject.graph.scopes[call].class_name)
    return [word if (count := len(list(alike))) == 1 else f"{word} ×{count}" for word, alike in groupby(words)]


def _call_below(subject: SubjectWords, node: Node, around: int | None) -> int | None:
    """The module call directly inside `around` in which a node was made."""
    below, scope = None, node.scope
    while scope is not None and scope != around:
        below, scope = scope, subject.graph.scopes[scope].parent
    return below
