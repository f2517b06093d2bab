"""Compares two recordings: the one way there for the command, Python and tests."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gradviz.analysis.diff.alignment import Alignment, aligned
from gradviz.analysis.diff.backward import first_difference_in_backward, nodes_that_belong_together
from gradviz.analysis.diff.closeness import Apart, Tolerance
from gradviz.analysis.diff.difference import Change, Difference, Origin, Where
from gradviz.analysis.diff.figures import figures_of
from gradviz.analysis.diff.findings import are_comparable, findings_changed
from gradviz.analysis.diff.graph_pairs import GraphPair, calls_changed, graph_pairs, not_compared
from gradviz.analysis.diff.graph_runs import run_of_graph
from gradviz.analysis.diff.origin import Forward, ForwardComparison, growth
from gradviz.analysis.diff.recorded_runs import runs_of
from gradviz.analysis.diff.runs import Run
from gradviz.analysis.diff.settings import settings_that_differ
from gradviz.analysis.diff.structure import changes_between
from gradviz.capture.capture import Capture
from gradviz.errors import NothingRecorded
from gradviz.graph.number_words import counted


@dataclass(frozen=True)
class Side:
    """One of the two recordings."""

    name: str
    capture: Capture
    graph: int | None = None
    """Index of the graph that is meant; None for the whole recording."""


@dataclass(frozen=True)
class Compared:
    """The difference, and what it was found with, for pictures."""

    difference: Difference
    a: Run
    b: Run
    alignment: Alignment
    nodes: dict[int, int]
    """Pairs of autograd nodes."""
    results: dict[int, Apart]
    """For each pair, by the operation of the first run, how far apart its results are."""
    tolerance: Tolerance


def compare(one: Side, other: Side, tolerance: Tolerance | None = None) -> Compared:
    """Compare two recordings; raises `NothingRecorded` if one of them has nothing to compare.

    With logs of calls, all operations of both are aligned at once, and then backward calls are compared one by one.
    Without, each graph has its own operations: the first pair of graphs that differs is the answer.
    """
    tolerance = tolerance or Tolerance()
    for side in (one, other):
        if not side.capture.graphs and side.capture.calls is None:
            what = f"its script {side.capture.outcome} before there was one"
            raise NothingRecorded(f"{side.name} has no graph to compare: {what}")
    pairs = graph_pairs(one.capture, other.capture, (one.graph, other.graph))
    if one.capture.calls is not None and other.capture.calls is not None:
        a, b = (runs_of(side.capture, side.graph) for side in (one, other))
        return _Comparison(one, other, a, b, pairs, tolerance).compared(pairs)
    first: Compared | None = None
    for pair in pairs:
        a, b = (run_of_graph(side.capture, graph) for side, graph in ((one, pair.a), (other, pair.b)))
        compared = _Comparison(one, other, a, b, pairs, tolerance).compared([pair])
        if not compared.difference.same:
            return compared
        first = first or compared
    if first is None:
        side = one if not one.capture.graphs else other
        raise NothingRecorded(f"{side.name} has no graph to compare with that of the other")
    return first


class _Comparison:
    """Compares two runs."""

    def __init__(self, one: Side, other: Side, a: Run, b: Run, pairs: list[GraphPair], tolerance: Tolerance) -> None:
        self._one, self._other = one, other
        self._a, self._b = a, b
        self._pairs = pairs
        self._tolerance = tolerance

    def compared(self, pairs: list[GraphPair]) -> Compared:
        """What differs in forward, and in the backward calls of these graphs."""
        one, other, a, b, tolerance = self._one, self._other, self._a, self._b, self._tolerance
        alignment = aligned(a, b)
        forward = ForwardComparison(a, b, alignment, tolerance).run()
        backward, is_beyond, pair = first_difference_in_backward(
            a, b, pairs, alignment, forward, tolerance, is_one_of_several=len(self._pairs) > 1
        )
        nodes = nodes_that_belong_together(a, b, alignment)
        changes = (*changes_between(a, b, alignment, forward.results), *self._calls_changed())
        first = _first(forward, backward if is_beyond else None, changes) or self._failure()
        same = first is None and all(change.is_cosmetic for change in changes)
        difference = Difference(
            a=one.name,
            b=other.name,
            same=same,
            sentence=_sentence(first, forward, changes, self._tolerance_words(forward), has_values=_has_values(a, b)),
            first=first,
            rounding=forward.rounding if forward.rounding is not first else None,
            backward=backward,
            growth=growth(a, alignment, forward) if forward.rounding is not None or first is not None else (),
            changes=(*changes, *findings_changed(one.capture, other.capture)),
            figures=figures_of(a, b, nodes),
            operations_a=len(a.operations),
            operations_b=len(b.operations),
            matched=len(alignment.to_b),
            differing=sum(result.differs for result in forward.results.values()),
            backward_calls=len(self._pairs),
            disclosures=tuple(dict.fromkeys(self._disclosures(pair))),
        )
        return Compared(difference, a, b, alignment, nodes, forward.results, tolerance)

    def _tolerance_words(self, forward: Forward) -> str:
        rounded = (self._a.operations[index] for index, found in forward.results.items() if found.level == "rounding")
        facts = (result.facts for operation in rounded for result in operation.results)
        return self._tolerance.words(each.dtype for each in facts if each is not None)

    def _calls_changed(self) -> Iterator[Change]:
        return calls_changed(self._one.capture, self._other.capture, (self._one.graph, self._other.graph))

    def _failure(self) -> Origin | None:
        """Where only one of the scripts failed."""
        a, b = self._one.capture, self._other.capture
        if (a.error is None) == (b.error is None):
            return None
        return _failed(b, "B") if a.error is None else _failed(a, "A")

    def _disclosures(self, pair: GraphPair | None) -> Iterator[str]:
        yield from _disclosures(self._one, self._other, self._a, self._b)
        if self._one.graph is None and self._other.graph is None:
            yield from not_compared(self._one.capture, self._other.capture, self._pairs)
        if len(self._pairs) > 1 and (words := (pair or self._pairs[0]).words):
            yield f"figures and pictures are of {words}, {'the first that differs' if pair else 'the first'}"


def _first(forward: Forward, backward: Origin | None, changes: tuple[Change, ...]) -> Origin | None:
    if forward.first is not None:
        return forward.first
    if forward.crossing is not None and forward.rounding is not None:
        return forward.rounding
    structural = [change for change in changes if not change.is_cosmetic]
    if structural:
        change = min(structural, key=_position)
        return Origin(_CAUSES.get(change.kind, "arguments"), change.what, change.a, change.b)  # type: ignore[arg-type]
    return backward


_CAUSES = {"only_a": "only_a", "only_b": "only_b", "replaced": "operation"}


def _position(change: Change) -> int:
    found = change.a or change.b
    return found.index if found is not None and found.index is not None else 1 << 60


def _failed(capture: Capture, name: str) -> Origin:
    assert capture.error is not None
    error = capture.error
    file, line = error.call_site or (None, None)
    what = f"only {name} fails: {error.type_name}: {error.message.partition(chr(10))[0]}"
    where = Where(error.type_name, None, file, line)
    return Origin(
        "only_a" if name == "A" else "only_b", what, where if name == "A" else None, where if name == "B" else None
    )


def _has_values(a: Run, b: Run) -> bool:
    return a.has_fingerprints and b.has_fingerprints


def _sentence(
    first: Origin | None, forward: Forward, changes: tuple[Change, ...], tolerance: str, *, has_values: bool
) -> str:
    if first is not None:
        if first.cause == "rounding":
            return f"Different: {first.what}, and the difference grows beyond the tolerance."
        if (
            has_values
            and forward.results
            and not any(result.level == "different" for result in forward.results.values())
        ):
            how = f"within the tolerance of {tolerance}" if forward.rounding is not None else "bit for bit"
            return f"Different: {first.what}; the results of all operations that both have are the same, {how}."
        return f"Different: {first.what}."
    apart_from = _apart_from([change for change in changes if change.is_cosmetic])
    if not has_values:
        return f"The same structure, shapes and gradient norms{apart_from}; values of the forward were not recorded."
    if forward.rounding is not None:
        return f"The same within the tolerance of {tolerance}{apart_from}: some results differ in their last bits."
    return f"The same: structure, shapes, values and gradients, bit for bit{apart_from}."


def _apart_from(changes: list[Change]) -> str:
    names = sum(change.kind != "form" for change in changes)
    forms = len(changes) - names
    parts = [f"{counted(names, 'change')} of names and order"] if names else []
    parts += [f"{counted(forms, 'operation')} that {'changes' if forms == 1 else 'change'} no value"] if forms else []
    return f", apart from {' and '.join(parts)}" if parts else ""


def _disclosures(one: Side, other: Side, a: Run, b: Run) -> Iterator[str]:
    for side, run, name in ((one, a, "A"), (other, b, "B")):
        if side.capture.calls is None:
            yield (
                f"{name} has no log of torch calls: autograd nodes are compared, and not what needs no gradient "
                "(gradviz record --fingerprints keeps it)"
            )
        elif not run.has_fingerprints:
            yield f"{name} has no fingerprints: values of the forward are not compared (gradviz record --fingerprints)"
        if run.capture.calls is not None and run.capture.calls.dropped:
            yield f"{name}: {run.capture.calls.dropped:,} calls of earlier steps were not kept"
    for what in ("torch", "python"):
        x, y = (getattr(side.capture.program, f"{what}_version") for side in (one, other))
        if x != y:
            yield f"recorded with different versions of {what}: {x or 'unknown'} (A), {y or 'unknown'} (B)"
    for sentence in settings_that_differ(one.capture.settings, other.capture.settings).values():
        yield f"another setting: {sentence}"
    for side, name in ((one, "A"), (other, "B")):
        if side.capture.error is not None:
            yield f"the script of {name} failed: {side.capture.error.type_name}; what it did until then is compared"
        for sentence in side.capture.disclosures:
            yield f"{name}: {sentence}"
    if not are_comparable(one.capture, other.capture):
        yield "findings were not compared: without the log of torch calls most rules of gradviz check find nothing"
