"""GV301."""

from __future__ import annotations

from gradviz.analysis.rules.bases.broken_gradient_rule import BrokenGradientFacts, BrokenGradientRule


class NanFromOp(BrokenGradientRule):
    """An operation has no finite value, or no finite slope, for what it was given.

    What it finds
    -------------
    The operation that made the first NaN or Inf of a run out of finite numbers: in forward (``log(0)``, the standard
    deviation of one value, ``0 / 0``), or only in backward, where the value is harmless and the slope is infinite
    (``sqrt(0)``, ``acos(1)``, a fractional power of 0).

    Why it matters
    --------------
    An infinite slope times a gradient is Inf, and times a gradient of zero it is NaN. One step with it turns every
    weight that it reaches into NaN, and from then on everything is.

    Example
    -------
    a = torch.tensor([1.0, 2.0], requires_grad=True)
    distance = (a - torch.tensor([1.0, 2.0])).pow(2).sum().sqrt()
    (distance * 0.5).backward()

    Instead
    -------
    a = torch.tensor([1.0, 2.0], requires_grad=True)
    distance = ((a - torch.tensor([1.0, 2.5])).pow(2).sum() + 1e-12).sqrt()
    (distance * 0.5).backward()
    """

    code = "GV301"
    name = "nan_from_op"

    def verdict(self, facts: BrokenGradientFacts) -> str:
        made = f"gives {facts.results}" if facts.in_forward and facts.results else f"sends {facts.kind} back"
        return f"{facts.operation_with_operands} {made}; {facts.effect}"

    def why(self, facts: BrokenGradientFacts) -> str:
        return facts.reason or "finite numbers came in, and what went out is not: by value or by slope"

    def fix(self, facts: BrokenGradientFacts) -> str:
        return facts.remedy or "keep its input away from where it is not defined, for instance with clamp()"
