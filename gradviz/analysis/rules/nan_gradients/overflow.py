"""GV303."""

from __future__ import annotations

from typing import NamedTuple

from msgspec.structs import replace

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding, location_of_line
from gradviz.analysis.numbers.broken_gradient_words import BrokenGradientFacts
from gradviz.analysis.numbers.broken_gradients import BrokenGradient
from gradviz.analysis.numbers.value_words import values_in_words
from gradviz.analysis.parameters.creation_lines import line_of_layer
from gradviz.analysis.rules.bases.broken_gradient_rule import BrokenGradientRule
from gradviz.graph.call_log import ValueFacts


class Overflow(BrokenGradientRule):
    """Numbers become too large for their dtype, and so become Inf.

    What it finds
    -------------
    The operation that made the first Inf from finite numbers only because of their size: ``exp`` of a large number, a
    product, a cast to ``float16``. Also ``ctc_loss()`` of a sample with fewer frames than its target has symbols, and
    ``exp()`` of numbers so far below zero that it is 0 for many, where sums of the rest divide: the scalings of a
    Sinkhorn iteration.

    Why it matters
    --------------
    Inf in the forward makes NaN in the backward, as 0 times Inf is NaN: the slope of ``log(1 + exp(x))`` is 1 where x
    is large, but computed step by step it is Inf / Inf.

    Example
    -------
    x = torch.tensor([1.0, 1000.0], requires_grad=True)
    torch.log(1 + torch.exp(x)).sum().backward()

    Instead
    -------
    x = torch.tensor([1.0, 1000.0], requires_grad=True)
    torch.nn.functional.softplus(x).sum().backward()
    """

    code = "GV303"
    name = "overflow"
    yields_to = ("exploding_chain",)

    def verdict(self, facts: BrokenGradientFacts) -> str:
        if facts.operation == _CTC:
            return f"{facts.effect}: {_CTC} is infinite for a sample that has fewer frames than its target needs"
        whose = "" if facts.in_forward else "the gradient of "
        return f"{facts.effect}: {whose}{facts.operation_with_operands} overflows to Inf"

    def why(self, facts: BrokenGradientFacts) -> str:
        if facts.operation == _CTC:
            return (
                "no path fits a target into fewer frames than it has symbols, and one more frame between two that are "
                "equal: the probability of such a target is 0"
            )
        return (
            "the limit of float32 is 3.4e38 (exp() exceeds it at 88.7), of float16 65504; larger numbers are Inf, and "
            "backward makes NaN of them (0 times Inf, Inf / Inf)"
        )

    def fix(self, facts: BrokenGradientFacts) -> str:
        if facts.operation == _CTC:
            return "leave such samples out, or pass zero_infinity=True; input_lengths are those behind all strides"
        return (
            "use the stable form (softplus, logsigmoid, log_softmax, logsumexp, a loss that takes logits), "
            "or bound its input"
        )

    def _finding(self, case: Case, broken: BrokenGradient) -> Finding:
        finding = super()._finding(case, broken)
        made = None if broken.call is None else line_of_layer(case.dataflow, broken.call)
        if BrokenGradientFacts(case, broken).operation == _CTC and made is not None:
            # The argument that helps is given where the module is made.
            return replace(finding, location=location_of_line(made), symptom_location=finding.location)
        kernel = None if broken.call is None else _underflowed_kernel(case.dataflow, broken.call)
        if kernel is None:
            return finding
        return replace(
            finding,
            message=f"{BrokenGradientFacts(case, broken).effect}: exp() of {values_in_words(kernel.taken)} underflows "
            f"to 0 for {kernel.made.zeros:,}, and what is divided by sums of the rest grows beyond all bounds",
            why="exp() is 0 in float32 below -104, so a row of such a kernel may have hardly anything but zeros, and "
            "the factor that makes its sum right is enormous",
            fix="divide by a larger temperature before exp(), or iterate with logarithms: logsumexp() for each sum",
            location=case.location_of_call(kernel.call),
            symptom_location=finding.location,
        )


_CTC = "ctc_loss()"
_LOWEST = -80.0
_DIVISIONS = frozenset({"div", "reciprocal"})


class _Kernel(NamedTuple):
    """An ``exp()`` whose result is 0 for some numbers far below zero."""

    call: int
    taken: ValueFacts
    made: ValueFacts


def _underflowed_kernel(flow: Dataflow, row: int) -> _Kernel | None:
    """One above a call, of whose result something is computed by which a call there divides."""
    calls, since = flow.log.calls, flow.step_before(row)
    above = sorted({each for use in calls[row].inputs for each in flow.ancestors(use.tensor, row, since)})
    for each in above:
        kernel = _kernel(flow, each) if plain_name(calls[each].function) == "exp" else None
        if kernel is not None:
            below = flow.descendants(calls[each].outputs[0].tensor, each, row)
            computed = {use.tensor for user in below for use in calls[user].outputs}
            divisions = (calls[user] for user in above if plain_name(calls[user].function) in _DIVISIONS)
            if any(division.inputs[-1].tensor in computed for division in divisions):
                return kernel
    return None


def _kernel(flow: Dataflow, row: int) -> _Kernel | None:
    call = flow.log.calls[row]
    taken = flow.values_of(call.inputs[0], row) if call.inputs else None
    made = flow.values_of(call.outputs[0], row) if call.outputs else None
    if taken is None or made is None or not taken.is_finite or taken.minimum is None:
        return None
    return _Kernel(row, taken, made) if taken.minimum < _LOWEST and made.zeros else None
