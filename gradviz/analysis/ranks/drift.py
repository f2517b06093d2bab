"""Where replicas that should be the same on all ranks begin to differ: at which moment, and by which line.

The program changed a parameter between a step and the next backward, or its gradient between the backward and the step,
or the step itself differs. Which it is follows from the first moment at which the ranks differ; the line comes from the
log of calls, if there is one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from msgspec import Struct

from gradviz.analysis.dataflow.call_words import location_of_call
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Location
from gradviz.analysis.ranks.calls_of_rank import graph_of_call, location_of_use
from gradviz.capture.capture import Capture
from gradviz.capture.replica_log import ReplicaLog, ReplicaMoment
from gradviz.graph.query.own_line import line_words_of

DIGEST = 8
"""Bytes of `ReplicaMoment.digest`."""


class Drift(Struct, frozen=True):
    """Where two ranks begin to differ."""

    when: str
    """``after the step of backward 3``."""
    how: str
    """Why, as far as it is known; empty if it is not."""
    location: Location | None
    norms: dict[str, tuple[float, float]]
    """The norms on both ranks of each parameter that differs."""
    remedy: str = ""


def moment_digests(log: ReplicaLog | None) -> bytes:
    """A digest of each moment, one after the other: of fixed size for each, whatever the number of parameters."""
    return b"".join(each.digest for each in log.moments) if log is not None else b""


def first_difference(digests: Collection[bytes], kinds: Sequence[str]) -> int | None:
    """The first moment at which the parameters of the ranks differ; None if they never do."""
    length = min(map(len, digests)) // DIGEST
    for number in range(min(length, len(kinds))):
        part = slice(number * DIGEST, (number + 1) * DIGEST)
        if kinds[number] != "gradients" and len({each[part] for each in digests}) > 1:
            return number
    return None


def drift_between(usual: Capture, other: Capture, number: int) -> Drift:
    """How the parameters of two ranks came to differ, which they first do at the moment with this number."""
    assert usual.replicas is not None
    assert other.replicas is not None
    moments = usual.replicas.moments, other.replicas.moments
    here, there = moments[0][number], moments[1][number]
    names = usual.replicas.names
    norms = {
        name: (a[1], b[1]) for name, a, b in zip(names, here.checksums, there.checksums, strict=False) if a[0] != b[0]
    }
    before = next((each for each in reversed(moments[0][:number]) if each.kind != "gradients"), None)
    if here.kind == "backward":
        return _by_the_program(usual, other, here, before, norms)
    gradients = moments[0][number - 1], moments[1][number - 1]
    if number and gradients[0].kind == "gradients" and gradients[0].digest != gradients[1].digest:
        return _by_gradients(usual, other, here, norms)
    how = "their gradients were the same before it: settings or state of the optimizer differ, such as lr"
    remedy = "give every rank the same settings: all_reduce what a schedule is given, such as a loss, before its step"
    return Drift(_after_step(here), how, _location(here), norms, remedy)


def _by_the_program(
    usual: Capture,
    other: Capture,
    here: ReplicaMoment,
    before: ReplicaMoment | None,
    norms: dict[str, tuple[float, float]],
) -> Drift:
    when = f"before backward {here.backward}"
    if before is not None and before.kind == "step":
        since = f"after the step{_at(before)} they were still the same"
        if before.backward != here.backward - 1:
            since = f"after the step{_at(before)} of backward {before.backward} they were; those between were not read"
    else:
        since = "DistributedDataParallel makes them the same when it is constructed" if before is None else ""
    line = _line_of_change(other, usual, norms, here.backward, of_gradient=False)
    if line is not None:
        changed = f"{line_words_of(line.file, line.line)} changes {'it' if len(norms) == 1 else 'them'}"
    else:
        changed = "" if other.calls is not None else "'gradviz check' says which line changes it"
    return Drift(when, "; ".join(filter(None, (changed, since))), line or _location(here), norms)


def _by_gradients(usual: Capture, other: Capture, here: ReplicaMoment, norms: dict[str, tuple[float, float]]) -> Drift:
    assert usual.replicas is not None
    if not set(norms).isdisjoint(usual.replicas.unreduced):
        return _by_no_wrapper(usual, here, norms)
    line = _line_of_change(other, usual, norms, here.backward, of_gradient=True)
    how = "their gradients differ before it: "
    if line is not None:
        how += f"{line_words_of(line.file, line.line)} changes them after they were reduced"
    else:
        how += "they were changed after they were reduced, or the backward was inside no_sync()"
    remedy = (
        "change gradients on all ranks alike, as after all_reduce of what it depends on; let the last backward before "
        "a step be outside of no_sync()"
    )
    return Drift(_after_step(here), how, line or _location(here), norms, remedy)


def _by_no_wrapper(usual: Capture, here: ReplicaMoment, norms: dict[str, tuple[float, float]]) -> Drift:
    graph = graph_of_call(usual, here.backward)
    line = None if graph is None else location_of_use(graph, tuple(norms))
    how = (
        "their gradients differ before it: DistributedDataParallel did not reduce them, for it was never called; the "
        "program calls the module inside it"
    )
    remedy = "call the wrapper, model(x), where gradients are wanted, not model.module(x)"
    return Drift(_after_step(here), how, line or _location(here), norms, remedy)


def _line_of_change(
    other: Capture, usual: Capture, names: Collection[str], backward: int, *, of_gradient: bool
) -> Location | None:
    """The line that changed one of these parameters, or its gradient, on one rank rather than on the other."""
    lines = list(_lines_of_changes(other, names, backward, of_gradient))
    alike = set(_lines_of_changes(usual, names, backward, of_gradient))
    return next((each for each in lines if each not in alike), lines[0] if lines else None)


def _lines_of_changes(capture: Capture, names: Collection[str], backward: int, of_gradient: bool) -> Iterator[Location]:
    if capture.calls is None:
        return
    flow = Dataflow(capture.calls, capture.sources)
    row = flow.row_of_backward(backward)
    if row is None:
        return
    steps = flow.rows_of_kind("step")
    first, last = (
        (row, next((step for step in steps if step > row), row)) if of_gradient else (flow.step_before(row), row)
    )
    owners = {number for number, tensor in enumerate(flow.log.tensors) if not set(tensor.names).isdisjoint(names)}
    for number, tensor in enumerate(flow.log.tensors):
        if (tensor.gradient_of if of_gradient else number) in owners:
            for change in flow.changes(number, first, last):
                if flow.is_by_program(flow.log.calls[change]):
                    location = location_of_call(flow, change)
                    if location is not None:
                        yield location


def _location(moment: ReplicaMoment) -> Location | None:
    return Location(moment.file, moment.line) if moment.line else None


def _after_step(moment: ReplicaMoment) -> str:
    return f"after the step{_at(moment)} that follows backward {moment.backward}"


def _at(moment: ReplicaMoment) -> str:
    location = _location(moment)
    return "" if location is None else f" at {line_words_of(location.file, location.line)}"
