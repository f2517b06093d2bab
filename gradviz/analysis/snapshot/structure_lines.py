"""The operations of a run as indented lines: module calls around them, equal neighbours folded into one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby

from gradviz.analysis.diff.runs import Operation, Run


@dataclass
class _Entry:
    """An operation, or a module call with what ran in it."""

    name: str
    """For a module call its name in the module around it; for an operation the whole line."""
    class_name: str = ""
    """Empty for an operation."""
    scope: int | None = None
    inside: list[_Entry] = field(default_factory=list)
    text: tuple[str, ...] = ()
    """The lines of `inside`, once they are known."""


def structure_lines(run: Run) -> list[str]:
    """The operations with a node in the graph, and all others inside of module calls, in forward order."""
    top = _Entry("", "run")
    opened = [top]
    for operation in run.operations:
        if not operation.nodes and operation.scope is None:
            continue  # initialisation, or how the data were made
        chain = run.modules_around(operation)
        kept = 0
        while kept < min(len(chain), len(opened) - 1) and opened[kept + 1].scope == chain[kept]:
            kept += 1
        while len(opened) > kept + 1:
            _close(opened.pop())
        for scope in chain[kept:]:
            opened.append(_module_call(run, scope))
            opened[-2].inside.append(opened[-1])
        opened[-1].inside.append(_Entry(_operation_line(operation)))
    while opened:
        _close(opened.pop())
    return [line[2:] for line in top.text]


def _module_call(run: Run, scope: int) -> _Entry:
    module = run.scopes[scope]
    name = module.path
    if module.parent is not None:
        name = name.removeprefix(run.scopes[module.parent].path + ".")
    return _Entry(name, module.class_name, scope)


def _operation_line(operation: Operation) -> str:
    results = [result.facts for result in operation.results if result.facts is not None]
    words = [f"({', '.join(map(str, facts.shape))}) {facts.dtype}" for facts in results]
    return f"{operation.word} {', '.join(words)}".rstrip()


def _close(entry: _Entry) -> None:
    entry.text = tuple(f"  {line}" for line in _folded(entry.inside))
    entry.inside.clear()


def _folded(entries: Iterable[_Entry]) -> Iterator[str]:
    """Neighbours with the same lines, or modules of one class with the same content, only once."""
    for _, group in groupby(entries, key=lambda entry: (entry.class_name or entry.name, entry.text)):
        same = list(group)
        first, last = same[0], same[-1]
        if not first.class_name:
            yield first.name if len(same) == 1 else f"{first.name}  x {len(same)}"
            continue
        yield f"{_names(first, last)}: {first.class_name}" + (f"  x {len(same)}" if len(same) > 1 else "")
        yield from first.text


def _names(first: _Entry, last: _Entry) -> str:
    return first.name if first.name == last.name else f"{first.name} to {last.name}"
