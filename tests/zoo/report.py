"""Checks a family and says what was found, in a line of a table."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from tests.zoo.checks import Drawn, untruths
from tests.zoo.family import Family
from tests.zoo.training_step import differences, plain_step, recorded_step


@dataclass(frozen=True)
class Result:
    """What was found about one family."""

    family: Family
    nodes: int = 0
    parameters: int = 0
    items: int = 0
    tree_lines: int = 0
    plain_seconds: float = 0.0
    added_seconds: float = 0.0
    problems: tuple[str, ...] = ()


def check(family: Family) -> Result:
    """Run a family's step twice plain and once recorded, and compare everything.

    The first plain run loads what the second one finds loaded; where those two differ, comparing means nothing.
    """
    first, plain = plain_step(family), plain_step(family)
    recorded = recorded_step(family)
    problems = [f"two plain runs: {sentence}" for sentence in differences(first, plain)]
    problems += [f"recorded: {sentence}" for sentence in differences(plain, recorded)]
    problems += untruths(recorded, hides_layers=family.hides_layers)
    recording = recorded.recording
    assert recording is not None
    drawn = Drawn(recording)
    return Result(
        family,
        len(recording.graph.nodes),
        len(recording.graph.parameters),
        drawn.items,
        drawn.tree_lines,
        plain.seconds,
        recorded.seconds - plain.seconds,
        (*problems, *drawn.problems),
    )


def table(results: list[Result]) -> str:
    """One line for each family, its problems below it, and the sums."""
    lines = [f"{'family':30}{'kind':20}{'nodes':>7}{'params':>8}{'items':>7}{'tree':>6}{'step':>9}{'added':>9}"]
    for each in results:
        lines.append(
            f"{each.family.name:30}{each.family.kind:20}{each.nodes:7,}{each.parameters:8,}{each.items:7}"
            f"{each.tree_lines:6}{each.plain_seconds * 1000:6.0f} ms{each.added_seconds * 1000:6.0f} ms"
        )
        lines += [f"    {problem}" for problem in each.problems]
    kinds = Counter(each.family.kind for each in results)
    failed = sum(bool(each.problems) for each in results)
    lines += [
        "",
        f"{len(results)} families of {len(kinds)} kinds, {sum(each.nodes for each in results):,} nodes, "
        f"{sum(each.parameters for each in results):,} parameters",
        f"processor time: plain steps {sum(each.plain_seconds for each in results):.1f} s, "
        f"added by recording them {sum(each.added_seconds for each in results):.1f} s",
        f"{len(results) - failed} passed, {failed} failed, 0 skipped",
    ]
    return "\n".join(lines)
