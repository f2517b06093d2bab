"""GV777."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import at_line, location_of_call
from gradviz.analysis.dataflow.tensor_words import names_of
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.formulas.adaptive_steps import AdaptiveStep, adaptive_steps
from gradviz.analysis.rules.bases.formulas.moments import Moment


class WrongSecondMoment(Rule):
    """A step by hand divides by an average of gradients, not of their squares, or by one without its root.

    What it finds
    -------------
    Steps that a program makes itself, as Adam or RMSprop does, where the gradient or a running average of it is divided
    by another average: one to which the gradient is added and not its square; one of squares of which no root is taken,
    where nothing but a number below a millionth keeps it from zero; and averages that are divided by
    ``1 - beta ** t`` of another factor than their own, or whose two factors are not 1 together. Bounded quotients, as
    those of second-order methods, are left alone.

    Why it matters
    --------------
    The divisor is to be the size of a usual gradient. The mean of a gradient with both signs is near zero, and the mean
    of squares is far smaller than the gradient where that is small: the steps have no scale, and nothing raises.

    Example
    -------
    model = torch.nn.Linear(4, 1)
    m = {p: torch.zeros_like(p) for p in model.parameters()}
    v = {p: torch.zeros_like(p) for p in model.parameters()}
    for step in range(1, 5):
        model.zero_grad()
        (model(torch.randn(8, 4)) - 1).square().mean().backward()
        with torch.no_grad():
            for p in model.parameters():
                m[p].mul_(0.9).add_(p.grad, alpha=0.1)
                v[p].mul_(0.99).add_(p.grad, alpha=0.01)
                p -= 0.01 * m[p] / (v[p].abs().sqrt() + 1e-8)

    Instead
    -------
    model = torch.nn.Linear(4, 1)
    m = {p: torch.zeros_like(p) for p in model.parameters()}
    v = {p: torch.zeros_like(p) for p in model.parameters()}
    for step in range(1, 5):
        model.zero_grad()
        (model(torch.randn(8, 4)) - 1).square().mean().backward()
        with torch.no_grad():
            for p in model.parameters():
                m[p].mul_(0.9).add_(p.grad, alpha=0.1)
                v[p].mul_(0.99).addcmul_(p.grad, p.grad, value=0.01)
                p -= 0.01 * m[p] / (v[p].sqrt() + 1e-8)
    """

    code = "GV777"
    name = "wrong_second_moment"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        by_leaf: dict[int, list[AdaptiveStep]] = defaultdict(list)
        for step in adaptive_steps(case):
            by_leaf[step.below.leaf].append(step)
        unsquared: dict[Location | None, list[AdaptiveStep]] = defaultdict(list)
        without_root: dict[Location | None, list[AdaptiveStep]] = defaultdict(list)
        corrected: dict[Location | None, list[tuple[Moment, float]]] = defaultdict(list)
        unequal: dict[Location | None, list[Moment]] = defaultdict(list)
        for steps in by_leaf.values():
            last = steps[-1]
            if len(steps) < _MIN_STEPS:
                continue
            if all(_is_unsquared(each) for each in steps):
                unsquared[location_of_call(case.dataflow, last.below.updated)].append(last)
            elif all(_has_no_root(each) for each in steps):
                without_root[location_of_call(case.dataflow, last.row)].append(last)
            for moments in ([each.above for each in steps], [each.below for each in steps]):
                factor, divided = _factor_of_corrections(moments), moments[-1].corrected
                if factor is None or divided is None:
                    continue
                if abs(factor - moments[-1].kept) > _EXACT:
                    corrected[location_of_call(case.dataflow, divided)].append((moments[-1], factor))
                elif all(_is_no_average(each) for each in moments):
                    unequal[location_of_call(case.dataflow, moments[-1].updated)].append(moments[-1])
        for location, found in unsquared.items():
            yield self._unsquared(case, location, found)
        for location, found in without_root.items():
            yield self._without_root(case, location, found)
        for location, moments_of_line in corrected.items():
            yield self._corrected(case, location, moments_of_line)
        for location, sums in unequal.items():
            yield self._unequal(case, location, sums)

    def _unequal(self, case: Case, location: Location | None, moments: list[Moment]) -> Finding:
        kept, taken = moments[-1].kept, moments[-1].taken or 0.0
        leaves = sorted({each.leaf for each in moments})
        return self.finding(
            f"the averages of {case.histories.together(leaves)} keep {kept:.6g} of themselves at each step and take "
            f"{taken:.6g} of {'the squared gradient' if moments[-1].is_square else 'the gradient'}: the two are not 1 "
            "together",
            symptom="grad_wrong",
            why="1 - beta ** t corrects an average that takes 1 - beta of each new value; this sum has another size",
            fix=f"take {1 - kept:.6g} of the new value",
            location=location,
            tensors=names_of(case.dataflow, leaves),
            evidence={"kept": kept, "taken": taken},
        )

    def _unsquared(self, case: Case, location: Location | None, steps: list[AdaptiveStep]) -> Finding:
        divided = location_of_call(case.dataflow, steps[-1].row)
        return self.finding(
            f"the steps of {_together(case, steps)} are divided{at_line(divided)} by an average of gradients, not of "
            "their squares",
            symptom="grad_wrong",
            why="gradients of both signs cancel each other in their average, so the divisor says nothing about their "
            "size",
            fix="average the squares: v.mul_(beta).addcmul_(g, g, value=1 - beta)",
            location=location,
            symptom_location=divided if divided != location else None,
            tensors=names_of(case.dataflow, _leaves_of(steps)),
            evidence={"parameters": len(steps)},
        )

    def _without_root(self, case: Case, location: Location | None, steps: list[AdaptiveStep]) -> Finding:
        return self.finding(
            f"the steps of {_together(case, steps)} are divided by an average of squared gradients, without its root",
            symptom="grad_wrong",
            why="a gradient over its square is the larger the smaller the gradient is: steps grow where they should "
            "end",
            fix="divide by v.sqrt() + eps",
            location=location,
            tensors=names_of(case.dataflow, _leaves_of(steps)),
            evidence={"parameters": len(steps)},
        )

    def _corrected(self, case: Case, location: Location | None, found: list[tuple[Moment, float]]) -> Finding:
        moment, factor = found[-1]
        leaves = sorted({each.leaf for each, _ in found})
        return self.finding(
            f"the averages of {case.histories.together(leaves)} keep {moment.kept:.6g} of themselves at each step, and "
            f"are divided by 1 - {factor:.6g} ** t",
            symptom="grad_wrong",
            why="the correction of the first steps belongs to the factor of the average: with another one, these steps "
            "are too large or too small",
            fix=f"divide by 1 - {moment.kept:.6g} ** t, or make the average with {factor:.6g}",
            location=location,
            tensors=names_of(case.dataflow, leaves),
            evidence={"kept": moment.kept, "corrected": factor},
        )


_MIN_STEPS = 3
_LARGEST_EPS = 1e-6
_EXACT = 1e-4
_BOTH = 2


def _is_unsquared(step: AdaptiveStep) -> bool:
    """Whether the divisor is an average of the gradient, and of another kind than what is divided."""
    return not step.below.is_square and step.below.average != step.above.average


def _has_no_root(step: AdaptiveStep) -> bool:
    below, above = step.below, step.above
    is_bare = not below.has_root and not below.is_bounded and below.added <= _LARGEST_EPS
    return below.is_square and not above.is_square and not above.has_root and is_bare


def _factor_of_corrections(moments: list[Moment]) -> float | None:
    """The number of which the first corrections are ``1 - number ** t``; None if they are none, or count otherwise."""
    corrections = [each.correction for each in moments]
    factor = 1 - corrections[0]
    is_known = all(0 < each.kept < 1 for each in moments) and 0 < factor < 1
    if not is_known or len(moments) < _MIN_STEPS or corrections[0] == corrections[1]:
        return None
    expected = [1 - factor**t for t in range(1, len(corrections) + 1)]
    pairs = zip(corrections, expected, strict=True)
    is_of_it = all(abs(one - other) < _EXACT * other for one, other in pairs)
    is_rising = all(one <= other for one, other in pairwise(corrections))
    return factor if is_of_it and is_rising else None


def _is_no_average(moment: Moment) -> bool:
    return moment.taken is not None and abs(moment.kept + moment.taken - 1) > _EXACT


def _leaves_of(steps: list[AdaptiveStep]) -> list[int]:
    return sorted({each.below.leaf for each in steps})


def _together(case: Case, steps: list[AdaptiveStep]) -> str:
    return case.histories.together(_leaves_of(steps))
