"""GV301."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from gradviz.analysis.case import Case
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.numbers.broken_gradient_words import BrokenGradientFacts
from gradviz.analysis.rules.bases.broken_gradient_rule import BrokenGradientRule
from gradviz.analysis.rules.bases.sources.rates.zero_corrections import zero_correction


class NanFromOp(BrokenGradientRule):
    """An operation has no finite value, or no finite slope, at its input.

    What it finds
    -------------
    The operation that made the first NaN or Inf of a run from finite numbers: in the forward (``log(0)``, the standard
    deviation of one value, ``0 / 0``), or only in the backward, where the value is finite and the slope is infinite
    (``sqrt(0)``, ``acos(1)``, a fractional power of 0), or in a step: Adam's ``eps=1e-8`` is 0 for parameters in
    ``float16``, and the bias correction of an optimizer by hand is 0 where its first step has the number 0. Where a
    number that should keep the input inside is rounded away, ``x.clamp(max=1 - 1e-8)`` in ``float32``, it stands there.
    Also where a loss or a distribution refuses NaN, before any backward.

    Why it matters
    --------------
    An infinite slope times a gradient is Inf, and times a gradient of zero it is NaN. One step with it makes every
    weight that it reaches NaN, and after that all results are NaN.

    Example
    -------
    a = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    distances = (a - torch.tensor([1.0, 2.0])).pow(2).sum(1).sqrt()
    distances.mean().backward()

    Instead
    -------
    a = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    distances = ((a - torch.tensor([1.0, 2.0])).pow(2).sum(1) + 1e-12).sqrt()
    distances.mean().backward()
    """

    code = "GV301"
    name = "nan_from_op"
    yields_to = ("argument_out_of_range",)

    def check(self, case: Case) -> Iterator[Finding]:
        for finding in super().check(case):
            call = None if case.broken_gradient is None else case.broken_gradient.call
            correction = None if call is None else zero_correction(case, call)
            yield finding if correction is None else self._of_correction(finding, correction)

    def _of_correction(self, finding: Finding, correction: Location) -> Finding:
        return replace(
            finding,
            why="the bias correction is 1 - beta ** 0 = 0 in the first step, whose number is 0, and it is divided by",
            fix="give the first step the number 1: beta ** (step + 1)",
            location=correction,
            symptom_location=finding.location if finding.location != correction else finding.symptom_location,
        )

    def verdict(self, facts: BrokenGradientFacts) -> str:
        if facts.is_inside:
            return f"{facts.effect}: {facts.kind} begins inside the compiled code that is called here"
        if facts.lost_epsilon is not None:
            name, epsilon, dtype, _ = facts.lost_epsilon
            zero = f"its eps of {epsilon:g} is 0 in {dtype}" if epsilon else "its eps is 0"
            return f"{facts.effect}: a step of {name} returns {facts.broken_results}: {zero}"
        made = f"returns {facts.results}" if facts.in_forward and facts.results else f"sends {facts.kind} back"
        return f"{facts.effect}: {facts.operation_with_operands} {made}{facts.rounding}"

    def why(self, facts: BrokenGradientFacts) -> str:
        if facts.is_inside:
            return "what it got is finite; the values and gradients inside compiled code were not measured"
        if facts.lost_epsilon is not None:
            dtype = facts.lost_epsilon.dtype
            small = " in float16, and so are the squares of gradients below 2e-4" if dtype == "float16" else ""
            return f"a step divides by the root of averaged squares of gradients plus eps, which is 0{small}"
        reason = facts.reason or "its input is finite, but its value or its slope there is not"
        is_product = not facts.in_forward and facts.kind == "NaN" and "slope" in reason
        return f"{reason}; times a gradient of 0 that is NaN" if is_product else reason

    def fix(self, facts: BrokenGradientFacts) -> str:
        if facts.is_inside:
            return "gradviz check --inside measures them, and names the operation and its line"
        if facts.lost_epsilon is not None:
            return _FIX_OF_EPSILON.get(facts.lost_epsilon.dtype, "pass an eps above 0: eps=1e-8 is the usual one")
        return facts.remedy or "keep its input inside the range where it is defined, for instance with clamp()"


_FIX_OF_EPSILON = {
    "float16": "keep the parameters in float32 and use torch.autocast for the computation (or bfloat16), or pass an "
    "eps that float16 can hold: eps=1e-4"
}
