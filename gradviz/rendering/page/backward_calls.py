"""The backward calls of one recording, for a page that shows several: a row for each, and the changes between them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from gradviz.analysis.flow.gradient_flow import FlowRow, gradient_flow, has_gradients
from gradviz.analysis.memory.kept_memory import memory_of
from gradviz.graph.number_words import byte_words, counted
from gradviz.graph.query.operation_names import autograd_name
from gradviz.graph.query.own_line import line_words
from gradviz.rendering.formats import Subject
from gradviz.rendering.page.document import PageCall, PageChange, PageChanges
from gradviz.rendering.page.items import cut

MAX_CHANGES = 100
"""Of one kind; the number of the other ones is shown."""

_NOTICEABLE = 1.005
"""The factor by which a norm must grow or shrink: smaller changes are not visible in three digits."""


class PageCalls:
    """All graphs of a page."""

    def __init__(self, subjects: Sequence[Subject]) -> None:
        self._calls = [_Call(subject) for subject in subjects]

    def listed(self) -> tuple[PageCall, ...]:
        """A row for each graph; none if there is only one."""
        if len(self._calls) < 2:
            return ()
        return tuple(PageCall(cut(call.title), cut(call.location), call.size) for call in self._calls)

    def changes(self, index: int) -> tuple[PageChanges, ...]:
        """The differences from the call before."""
        return tuple(_changes(self._calls[index - 1], self._calls[index])) if index else ()


@dataclass(frozen=True)
class _Call:
    """One graph, with the facts that are compared."""

    subject: Subject

    @property
    def title(self) -> str:
        """Numbered as ``--backward`` counts."""
        call = self.subject.graph.backward
        if call is not None:
            return f"{call.function}() no. {call.number}"
        return f"from {self.subject.graph.roots[0].name or 'an unnamed tensor'}"

    @property
    def location(self) -> str:
        graph = self.subject.graph
        call = graph.backward
        return "" if call is None or call.call_site is None else line_words(graph.call_sites[call.call_site])

    @property
    def size(self) -> str:
        nodes = counted(len(self.subject.graph.nodes), "autograd node")
        return nodes if self.kept is None else f"{nodes} · {byte_words(self.kept)} kept for backward"

    @cached_property
    def kept(self) -> int | None:
        """Bytes; None if saved tensors were not recorded."""
        graph = self.subject.graph
        return memory_of(graph).saved_bytes if graph.knows_saved_tensors else None

    @cached_property
    def nodes(self) -> dict[tuple[str, str], list[int]]:
        """Nodes by ``grad_fn`` and module. Leaves are compared by their gradients."""
        graph = self.subject.graph
        found: dict[tuple[str, str], list[int]] = {}
        for node in graph.nodes:
            if not node.is_leaf:
                path = "" if node.scope is None else graph.scopes[node.scope].path
                found.setdefault((autograd_name(node), path), []).append(node.id)
        return found

    @cached_property
    def rows(self) -> dict[str, FlowRow] | None:
        """The gradient of each parameter; None if gradients were not measured."""
        if not has_gradients(self.subject.graph):
            return None
        return {row.name: row for row in gradient_flow(self.subject.capture, self.subject.graph).rows}


def _changes(before: _Call, call: _Call) -> Iterator[PageChanges]:
    for heading, rows in (
        ("operations", list(_changed_nodes(before, call))),
        ("kept for backward", list(_changed_bytes(before, call))),
        ("gradient norms of parameters", list(_changed_gradients(before, call))),
    ):
        if rows:
            yield PageChanges(heading, tuple(rows[:MAX_CHANGES]), max(0, len(rows) - MAX_CHANGES))


def _changed_nodes(before: _Call, call: _Call) -> Iterator[PageChange]:
    """The largest difference first."""
    counts = {
        key: (len(before.nodes.get(key, ())), len(call.nodes.get(key, ()))) for key in {**before.nodes, **call.nodes}
    }
    for key, (was, now) in sorted(counts.items(), key=lambda entry: (-abs(entry[1][1] - entry[1][0]), entry[0])):
        if was != now:
            name, path = key
            words = f"{name} in {path}" if path else name
            yield PageChange(cut(words), f"{was:,}", f"{now:,}", next(iter(call.nodes.get(key, ())), None))


def _changed_bytes(before: _Call, call: _Call) -> Iterator[PageChange]:
    if before.kept is not None and call.kept is not None and before.kept != call.kept:
        yield PageChange("altogether", byte_words(before.kept), byte_words(call.kept))


def _changed_gradients(before: _Call, call: _Call) -> Iterator[PageChange]:
    """First gradients that appeared, disappeared or became broken, then norms by the factor between them."""
    if before.rows is None or call.rows is None:
        return
    changed = []
    for name in {**before.rows, **call.rows}:
        row = call.rows.get(name)
        was, now = _arrived(before.rows.get(name)), _arrived(row)
        factor = _factor(was, now)
        if factor > _NOTICEABLE:
            leaf = row.leaves[0] if row is not None and row.leaves else None
            changed.append((-factor, PageChange(cut(name), _words(was), _words(now), leaf)))
    yield from (change for _, change in sorted(changed, key=lambda entry: entry[0]))


def _arrived(row: FlowRow | None) -> float | str | None:
    """The norm of the gradient, ``NaN`` or ``Inf``, or None if nothing arrived."""
    if row is None or row.nothing is not None:
        return None
    return "NaN" if row.nans else "Inf" if row.infs else row.norm


def _factor(was: float | str | None, now: float | str | None) -> float:
    """1 for no change; infinite if only one of them is a number."""
    if was == now:
        return 1.0
    if not isinstance(was, float) or not isinstance(now, float) or not was or not now:
        return float("inf")
    return max(was / now, now / was)


def _words(arrived: float | str | None) -> str:
    return "nothing" if arrived is None else arrived if isinstance(arrived, str) else f"{arrived:.3g}"
