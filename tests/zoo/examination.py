"""Every family of the zoo as a part of the conformance run: one training step of each, plain twice and recorded once.

The two plain steps must be alike, else comparing means nothing; the first of them loads what the others find loaded.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import transformers

from tests.conformance.order import Order
from tests.conformance.processes import each_in_processes
from tests.conformance.runs import quiet
from tests.conformance.tally import Tally
from tests.zoo.checks import Drawn, untruths
from tests.zoo.families import families, why_some_are_missing
from tests.zoo.family import Family
from tests.zoo.training_step import differences, plain_step, recorded_step

NOUN = "families"


@dataclass(frozen=True)
class Result:
    """What was found about one family."""

    name: str
    kind: str
    nodes: int
    leaves: int
    items: int
    tree_lines: int
    plain_seconds: float
    added_seconds: float
    told: tuple[str, ...]
    problems: tuple[str, ...]

    @property
    def line(self) -> str:
        """A line of the table."""
        return (
            f"{self.name:30}{self.kind:19}{self.nodes:6,}{self.leaves:8,}{self.items:7}"
            f"{self.tree_lines:6}{self.plain_seconds * 1000:7.0f} ms{self.added_seconds * 1000:6.0f} ms"
        )


HEADER = f"{'family':30}{'kind':19}{'nodes':>6}{'leaves':>8}{'items':>7}{'tree':>6}{'step':>10}{'added':>9}"


def examine(order: Order) -> Tally:
    """Examine the families that the order wants; of a share, every so many of them."""
    names = [family.name for family in families() if order.wants(family.name)][:: order.share]
    tally = Tally()
    missing = why_some_are_missing()
    if missing:
        tally.skipped[missing] += 1
    results: list[Result] = []
    for name, found in each_in_processes(_examine_named, names, order.jobs).items():
        tally.subjects[name] += 1
        if isinstance(found, str):
            tally.failures.append(f"{name}: {found}")
            continue
        results.append(found)
        tally.nodes += found.nodes
        tally.told.update(found.told)
        tally.passed += not found.problems
        tally.failures += [f"{name}: {problem}" for problem in found.problems]
    tally.lines = [HEADER, *(each.line for each in results), "", _total(results)]
    return tally


def _examine_named(name: str) -> Result | str:
    torch.set_num_threads(1)
    quiet()
    transformers.logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    (family,) = (family for family in families() if family.name == name)
    try:
        return result_of(family)
    except Exception as error:  # the other families are still to be examined
        return f"{type(error).__name__}: {error}"


def result_of(family: Family) -> Result:
    """Run the steps of one family and compare everything."""
    first, plain, recorded = plain_step(family), plain_step(family), recorded_step(family)
    assert recorded.recording is not None
    capture, drawn = recorded.recording.capture, Drawn(recorded.recording)
    return Result(
        family.name,
        family.kind,
        len(recorded.recording.graph.nodes),
        len(recorded.recording.graph.leaves),
        drawn.items,
        drawn.tree_lines,
        plain.seconds,
        recorded.seconds - plain.seconds,
        capture.disclosures,
        (
            *(f"two plain steps: {sentence}" for sentence in differences(first, plain)),
            *(f"recorded: {sentence}" for sentence in differences(plain, recorded)),
            *untruths(recorded, hides_layers=family.hides_layers),
            *drawn.problems,
        ),
    )


def _total(results: list[Result]) -> str:
    kinds = len({each.kind for each in results})
    steps = sum(each.plain_seconds for each in results)
    added = sum(each.added_seconds for each in results)
    leaves = sum(each.leaves for each in results)
    return f"{kinds} kinds, {leaves:,} leaves; processor time of the steps {steps:.1f} s, added {added:.1f} s"
