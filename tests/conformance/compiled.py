"""Every family of the zoo under `torch.compile`: what is drawn of it, and measured inside it, against uncompiled code.

One training step of each, as it is and compiled (``aot_eager``, or another ``--backend``), both recorded, the second
with ``--inside``. A family passes if recording changes none of its gradients, and if whatever differs is told: parts
between graph breaks that were not compiled, regions that stay closed, gradients that could not be measured.
"""

from __future__ import annotations

import logging
import signal
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
import transformers

from gradviz.analysis.compiled.compiled_functions import compiled_functions
from gradviz.capture.capture import Capture
from gradviz.graph.gradients import TensorFigures
from gradviz.graph.model import Graph
from gradviz.recording.recorder import Recorder
from gradviz.recording.run.recording_plan import RecordingPlan
from tests.conformance.order import Order
from tests.conformance.processes import each_in_processes
from tests.conformance.runs import quiet
from tests.conformance.tally import Tally
from tests.zoo.families import families, why_some_are_missing
from tests.zoo.family import Family, loss_of, seed

NOUN = "compiled families"
PLAN = RecordingPlan(keep_going=True, values_up_to=4096)
INSIDE = replace(PLAN, inside=True)
TOLERANCE = 1e-3
"""By how much a norm may differ: of single precision, and of rounding at other points."""

ROUNDING = 1e-5
"""The same beside the largest gradient: a small one may consist of rounding."""

Operation = tuple[str, int, str]
"""Module, line and kind of an operation."""


@dataclass(frozen=True)
class Result:
    """What was found about one family."""

    name: str
    operations: int
    """Without compilation."""
    alike: int
    """Of them, those that the compiled model has at the same line of the same module."""
    further: int
    """Operations of the compiled model that the other one does not have."""
    regions: int
    open: int
    measured: int
    breaks: int
    compared: int
    """Gradients that both have."""
    equal: int
    """Of them, those that are equal bit for bit, as far as their figures tell."""
    distance: float
    """The largest relative distance of their norms."""
    is_other: bool
    """Whether the compiled model computes other gradients without gradviz, too: it may draw other random numbers."""
    told: tuple[str, ...]
    problems: tuple[str, ...]

    @property
    def line(self) -> str:
        """A line of the table."""
        return (
            f"{self.name:30}{self.operations:7,}{self.alike / self.operations:8.1%}{self.further:9,}{self.regions:9}"
            f"{self.open:6}{self.measured:10}{self.breaks:8}{self.compared:10,}{self.equal:8,}{self.distance:10.1e}"
        )


HEADER = (
    f"{'family':30}{'nodes':>7}{'alike':>8}{'further':>9}{'regions':>9}{'open':>6}{'measured':>10}{'breaks':>8}"
    f"{'compared':>10}{'equal':>8}{'distance':>10}"
)


def examine(order: Order) -> Tally:
    """Examine the families that the order wants; of a share, every so many of them."""
    names = [family.name for family in families() if order.wants(family.name)][:: order.share]
    tally = Tally()
    if missing := why_some_are_missing():
        tally.skipped[missing] += 1
    results: list[Result] = []
    for name, found in each_in_processes(partial(_examined, order=order), names, order.jobs).items():
        tally.subjects[name] += 1
        if isinstance(found, str):
            # Dynamo cannot trace every model; what raises without gradviz is no test of it.
            tally.skipped[found] += 1
            continue
        results.append(found)
        tally.nodes += found.operations
        tally.told.update(found.told)
        tally.passed += not found.problems
        tally.failures += [f"{name}: {problem}" for problem in found.problems]
    tally.lines = [HEADER, *(each.line for each in results), "", *_total(results)]
    return tally


def _total(results: list[Result]) -> Iterator[str]:
    operations = sum(each.operations for each in results)
    if operations:
        alike, compared, equal = (
            sum(getattr(each, name) for each in results) for name in ("alike", "compared", "equal")
        )
        whole = sum(each.alike == each.operations for each in results)
        yield f"{whole:,} of {len(results):,} families have every operation at the same line of the same module"
        yield f"{alike:,} of {operations:,} operations ({alike / operations:.2%}) have the line and module"
        yield f"{compared:,} gradients compared, {equal:,} of them equal bit for bit"
        others = [each.name for each in results if each.is_other]
        largest = max((each.distance for each in results if not each.is_other), default=0.0)
        yield f"the largest distance of two norms is {largest:.1e}, in families whose compiled model computes the same"
        yield f"compiled, they compute other gradients without gradviz, too: {', '.join(others) or 'none'}"


class _OutOfTime(BaseException):
    """Not an `Exception`: the compiler catches these."""


@contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """Raise `_OutOfTime` after so many seconds of processor time of this process."""

    def stop(*_: object) -> None:
        raise _OutOfTime

    before = signal.signal(signal.SIGPROF, stop)
    # Again and again: what is raised in a callback of the garbage collector is only printed.
    signal.setitimer(signal.ITIMER_PROF, seconds, 5.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _examined(name: str, order: Order) -> Result | str:
    try:
        with _limited(order.limit):
            return _compared(name, order.backend)
    except _OutOfTime:
        return f"it takes longer than {order.limit:,.0f} s"


def _compared(name: str, backend: str) -> Result | str:
    torch.set_num_threads(1)
    quiet()
    warnings.simplefilter("ignore")
    logging.getLogger("torch._dynamo").setLevel(logging.ERROR)
    transformers.logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    (family,) = (family for family in families() if family.name == name)
    torch._dynamo.reset()
    try:
        plain = _step(family, None, backend)
    except Exception as error:
        return f"it cannot be compiled: {type(error).__name__}"
    torch._dynamo.reset()
    again = Recorder(INSIDE)
    recorded = _step(family, again, backend)
    uncompiled = Recorder(PLAN)
    eager = _step(family, uncompiled, None)
    changed = list(_changed(plain, recorded))
    if changed and any(_changed(eager, _step(family, None, None))):
        return "it computes other gradients in each run: nothing can be compared"
    is_other = _are_other(plain, eager)
    return result_of(name, _capture(uncompiled), _capture(again), changed, is_other=is_other)


def _capture(recorder: Recorder) -> Capture:
    return recorder.capture("<python>", (), "finished", None)


def _step(family: Family, recorder: Recorder | None, backend: str | None) -> dict[str, torch.Tensor | None]:
    """The gradients of one step, compiled if a backend is given."""
    if backend == "inductor":
        # Without it, dropout draws other numbers than uncompiled code.
        torch._inductor.config.fallback_random = True
    seed(0)
    model, inputs = family.make()
    seed(1)
    if recorder is not None:
        recorder.start()
    try:
        net: Any = torch.compile(model, backend=backend) if backend is not None else model
        loss_of(net(**inputs)).backward()  # type: ignore[no-untyped-call]
    finally:
        if recorder is not None:
            recorder.stop()
    return {name: parameter.grad for name, parameter in model.named_parameters()}


def _changed(plain: dict[str, torch.Tensor | None], recorded: dict[str, torch.Tensor | None]) -> Iterator[str]:
    for name, gradient in plain.items():
        other = recorded[name]
        if (gradient is None) != (other is None) or (
            gradient is not None and other is not None and not torch.equal(gradient, other)
        ):
            yield f"recording changes the gradient of {name}"


def _are_other(compiled: dict[str, torch.Tensor | None], uncompiled: dict[str, torch.Tensor | None]) -> bool:
    """Whether these gradients differ by more than rounding, beside the largest: a small one may be all rounding."""
    largest = max((float(each.norm()) for each in uncompiled.values() if each is not None), default=0.0)
    return any(_norm_of_change(one, uncompiled[name]) > ROUNDING * largest for name, one in compiled.items())


def _norm_of_change(one: torch.Tensor | None, other: torch.Tensor | None) -> float:
    """A gradient that is not there is zero."""
    there = [each for each in (one, other) if each is not None]
    return float((there[0] - there[1] if len(there) > 1 else there[0]).norm()) if there else 0.0


def result_of(name: str, plain: Capture, compiled: Capture, problems: list[str], *, is_other: bool) -> Result:
    """Compare the graph of a model with that of the compiled model."""
    (one,), (other,) = plain.graphs, compiled.graphs
    mine, theirs = Counter(operations(one)), Counter(operations(other))
    alike = sum((mine & theirs).values())
    pairs = list(_pairs(one, other))
    distances = [_distance(*pair) for pair in pairs]
    told = tuple(dict.fromkeys(compiled.disclosures))
    is_told = is_other or any("in a second run" in each for each in told)
    rounding = ROUNDING * max((left.norm or 0.0 for left, _ in pairs), default=0.0)
    wrong = [far for pair, far in zip(pairs, distances, strict=True) if far > TOLERANCE and _change(*pair) > rounding]
    if wrong and not is_told:
        problems.append(f"{len(wrong)} gradients inside differ, by up to {max(wrong):.1e}")
    if alike < sum(mine.values()) and not (told or any(map(_breaks, compiled_functions(compiled)))):
        problems.append("operations are missing, and nothing is told")
    return Result(
        name,
        sum(mine.values()),
        alike,
        sum((theirs - mine).values()),
        len(other.regions),
        sum(not region.closed for region in other.regions),
        sum(region.is_measured for region in other.regions),
        sum(map(_breaks, compiled_functions(compiled))),
        len(pairs),
        sum(_exact(left) == _exact(right) for left, right in pairs),
        max(distances, default=0.0),
        is_other,
        told,
        tuple(problems),
    )


def _breaks(function: Any) -> int:
    return len(function.breaks)


def operations(graph: Graph) -> Iterator[Operation]:
    """Every operation; modules are named from the outermost one on."""
    for node in graph.nodes:
        if not node.is_leaf:
            path = graph.scopes[node.scope].path.partition(".")[2] if node.scope is not None else ""
            line = graph.call_sites[node.call_site].line if node.call_site is not None else 0
            yield path, line, node.name


def _pairs(one: Graph, other: Graph) -> Iterator[tuple[TensorFigures, TensorFigures]]:
    """What arrived at operations that are unique by line, module and kind in both."""
    mine, theirs = _unique(one), _unique(other)
    for key in mine.keys() & theirs.keys():
        for left, right in zip(mine[key], theirs[key], strict=False):
            if left is not None and right is not None and left.norm is not None and right.norm is not None:
                yield left, right


def _exact(gradient: TensorFigures) -> tuple[object, ...]:
    """Every element, or of a large gradient what no order of computation changes, as it does a norm."""
    return gradient.values or (gradient.minimum, gradient.maximum, gradient.zeros, gradient.histogram)


def _distance(left: TensorFigures, right: TensorFigures) -> float:
    """Of the norms, relative."""
    return _change(left, right) / max(left.norm or 0.0, right.norm or 0.0, 1e-12)


def _change(left: TensorFigures, right: TensorFigures) -> float:
    """Of the norms."""
    return abs((left.norm or 0.0) - (right.norm or 0.0))


def _unique(graph: Graph) -> dict[Operation, tuple[TensorFigures | None, ...]]:
    keys = list(operations(graph))
    counts = Counter(keys)
    nodes = (node for node in graph.nodes if not node.is_leaf)
    return {key: node.arrived for key, node in zip(keys, nodes, strict=True) if counts[key] == 1}
