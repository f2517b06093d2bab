"""Compares two recordings: the one way there for the command, Python and tests."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gradviz.analysis.diff.alignment import Alignment, aligned
from gradviz.analysis.diff.backward import backward_origin, nodes_that_belong_together
from gradviz.analysis.diff.closeness import Apart, Tolerance
from gradviz.analysis.diff.difference import Change, Difference, Origin, Where
from gradviz.analysis.diff.figures import figures_of
from gradviz.analysis.diff.findings import are_comparable, findings_changed
from gradviz.analysis.diff.origin import Forward, ForwardComparison, growth
from gradviz.analysis.diff.runs import Run, runs_of
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
    """Compare two recordings; raises `NothingRecorded` if one of them has nothing to compare."""
    tolerance = tolerance or Tolerance()
    a, b = (_run_of(side) for side in (one, other))
    if a.has_calls != b.has_calls:
        a, b = (_run_of(side, without_calls=True) for side in (one, other))
    alignment = aligned(a, b)
    forward = ForwardComparison(a, b, alignment, tolerance).run()
    nodes = nodes_that_belong_together(a, b, alignment)
    backward, is_beyond = backward_origin(a, b, nodes, forward, tolerance)
    changes = changes_between(a, b, alignment, forward.results)
    first = _first(forward, backward if is_beyond else None, changes)
    if first is None and one.capture.error is not None and other.capture.error is None:
        first = _failed(one.capture, "A")
    elif first is None and other.capture.error is not None and one.capture.error is None:
        first = _failed(other.capture, "B")
    same = first is None and all(change.is_cosmetic for change in changes)
    difference = Difference(
        a=one.name,
        b=other.name,
        same=same,
        sentence=_sentence(first, forward, changes, same=same, has_values=_has_values(a, b)),
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
        disclosures=tuple(dict.fromkeys(_disclosures(one, other, a, b))),
    )
    return Compared(difference, a, b, alignment, nodes, forward.results, tolerance)


def _run_of(side: Side, *, without_calls: bool = False) -> Run:
    capture = side.capture
    if without_calls:
        from msgspec.structs import replace

        capture = replace(capture, calls=None)
    if not capture.graphs and capture.calls is None:
        raise NothingRecorded(f"{side.name} has no graph to compare: its script {capture.outcome} before there was one")
    return runs_of(capture, side.graph)


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
    return found.index if found is not None else 1 << 60


def _failed(capture: Capture, name: str) -> Origin:
    assert capture.error is not None
    error = capture.error
    file, line = error.call_site or (None, None)
    what = f"only {name} fails: {error.type_name}: {error.message.partition(chr(10))[0]}"
    place = Where(error.type_name, 0, file, line)
    return Origin(
        "only_a" if name == "A" else "only_b", what, place if name == "A" else None, place if name == "B" else None
    )


def _has_values(a: Run, b: Run) -> bool:
    return a.has_fingerprints and b.has_fingerprints


def _sentence(
    first: Origin | None, forward: Forward, changes: tuple[Change, ...], *, same: bool, has_values: bool
) -> str:
    if first is not None:
        if first.cause == "rounding":
            return f"Different: {first.what}, and the difference grows beyond the tolerance."
        if (
            has_values
            and forward.results
            and not any(result.level == "different" for result in forward.results.values())
        ):
            how = "within the tolerance" if forward.rounding is not None else "bit for bit"
            return f"Different: {first.what}; the results of all operations that both have are the same, {how}."
        return f"Different: {first.what}."
    apart_from = _apart_from([change for change in changes if change.is_cosmetic])
    if not has_values:
        return f"The same structure, shapes and gradient norms{apart_from}; values of the forward were not recorded."
    if forward.rounding is not None:
        return f"The same within the tolerance{apart_from}: some results differ in their last bits."
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
    if side_has_more(one) or side_has_more(other):
        yield "several graphs are recorded; the gradients of the first are compared (name another one with #2)"


def side_has_more(side: Side) -> bool:
    """Whether the recording has graphs that were not chosen."""
    return side.graph is None and len(side.capture.graphs) > 1
