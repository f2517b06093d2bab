"""GV301."""

from __future__ import annotations

from gradviz.analysis.rules.bases.broken_gradient_rule import BrokenGradientFacts, BrokenGradientRule


class NanFromOp(BrokenGradientRule):
    """An operation has no finite value, or no finite slope, at its input.

    What it finds
    -------------
    The operation that made the first NaN or Inf of a run from finite numbers: in the forward (``log(0)``, the standard
    deviation of one value, ``0 / 0``), or only in the backward, where the value is finite and the slope is infinite
    (``sqrt(0)``, ``acos(1)``, a fractional power of 0). Also where a loss or a distribution refuses NaN, before any
    backward.

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

    def verdict(self, facts: BrokenGradientFacts) -> str:
        if facts.is_inside:
            return f"{facts.effect}: {facts.kind} begins inside the compiled code that is called here"
        made = f"returns {facts.results}" if facts.in_forward and facts.results else f"sends {facts.kind} back"
        return f"{facts.effect}: {facts.operation_with_operands} {made}"

    def why(self, facts: BrokenGradientFacts) -> str:
        if facts.is_inside:
            return "what it got is finite; the values and gradients inside compiled code were not measured"
        reason = facts.reason or "its input is finite, but its value or its slope there is not"
        is_product = not facts.in_forward and facts.kind == "NaN" and "slope" in reason
        return f"{reason}; times a gradient of 0 that is NaN" if is_product else reason

    def fix(self, facts: BrokenGradientFacts) -> str:
        if facts.is_inside:
            return "gradviz check --inside measures them, and names the operation and its line"
        return facts.remedy or "keep its input inside the range where it is defined, for instance with clamp()"
