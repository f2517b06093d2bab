"""GV205."""

from __future__ import annotations

from gradviz.analysis.case import Case
from gradviz.analysis.cuts.zero_factors import is_times_zero
from gradviz.analysis.finding import Location
from gradviz.analysis.numbers.zero_gradients import ZeroGradient
from gradviz.analysis.rules.bases.sources.own_files import own_tree
from gradviz.analysis.rules.bases.sources.rates.capped_divisions import line_of_floor_division
from gradviz.analysis.rules.bases.zero_gradient_rule import ZeroGradientRule, operand_words


class MaskedOut(ZeroGradientRule):
    """A part of the loss is multiplied by zero, or not selected, at every step.

    What it finds
    -------------
    A mask that selects nothing, a weight of a loss that is always 0, weights that start at zero on both sides of a
    product. Zero on one side alone is fine: that side changes with the first step. Also a tensor that is put beside
    others, and that a mask hides.

    Why it matters
    --------------
    What is multiplied by zero adds nothing to the loss and gets a gradient of zero. The run looks healthy, but a part
    of the model does not train.

    Example
    -------
    main, extra = torch.nn.Linear(4, 1), torch.nn.Linear(4, 1)
    x = torch.randn(8, 4)
    weight = min(1, 5 // 100)
    (main(x).pow(2).mean() + weight * extra(x).pow(2).mean()).backward()

    Instead
    -------
    main, extra = torch.nn.Linear(4, 1), torch.nn.Linear(4, 1)
    x = torch.randn(8, 4)
    weight = min(1, 5 / 100)
    (main(x).pow(2).mean() + weight * extra(x).pow(2).mean()).backward()
    """

    code = "GV205"
    name = "masked_out"
    yields_to = (
        "plain_tensor", "one_direction_only", "first_step_only", "second_derivative_zero", "same_derivative_twice",
        "target_never_reached", "normalized_alone", "frozen_at_zero", "inverted_mask", "gains_start_at_zero",
        "same_random_numbers", "key_names_nothing", "unused_parameter",
    )  # fmt: skip

    def verdict(self, zero: ZeroGradient, operation: str) -> str:
        if zero.by == "part":
            return f"what follows {operation}() leaves out the part that it puts in there"
        if zero.by == "overwritten":
            return "another assignment overwrites all that is assigned with them"
        if zero.operand is not None:
            return f"all inputs of {operation}() are zero ({operand_words(zero)})"
        return f"{operation}() removes all of it, as its other operand is 0 or its mask selects nothing"

    def wrong_use(self, case: Case, zero: ZeroGradient) -> tuple[Location | None, str] | None:
        """The line that rounds a factor down to 0."""
        is_by_number = zero.call is not None and is_times_zero(case.dataflow.log.calls[zero.call])
        here = case.location_of_call(zero.call) if zero.call is not None and is_by_number else None
        tree = None if here is None else own_tree(case, here.file)
        line = None if here is None or tree is None else line_of_floor_division(tree, here.line)
        return None if here is None or line is None else (Location(here.file, line), "divide with /: // rounds down")

    def why(self, zero: ZeroGradient, operation: str) -> str:
        if zero.by == "part":
            return "a mask, an index or a factor of zero hides it, so it has no influence on the loss"
        if zero.by == "overwritten":
            return "elements that are assigned once more keep nothing of what they had"
        if zero.other_site is not None:
            return (
                "both factors start at zero, and the gradient of each is multiplied by the other: neither ever changes"
            )
        return "what is multiplied by zero has no influence on the loss, so its gradient is zero"

    def fix(self, zero: ZeroGradient, operation: str) -> str:
        if zero.by == "part":
            return "look at the mask that goes with the result: it has to be true, or 1, for this part"
        if zero.by == "overwritten":
            return "look at the two indices: here they are the same elements, as [:n] and [-n:] are of n rows"
        if zero.other_site is not None:
            return "let only one of the two start at zero: that one changes with the first step, and then the other"
        if zero.by == "value":
            return (
                "look at the line that made the zeros: integer division, a condition that is never true, an initial 0"
            )
        return "look at what makes the factor: an integer division, a schedule that has not started, an empty mask"
