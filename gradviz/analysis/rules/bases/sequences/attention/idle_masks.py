"""Masks of scores that hide nothing: zeros before a softmax, and ones that are added."""

from __future__ import annotations

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.losses.scores_before_softmax import ADDS_TO_PRODUCT, Edit
from gradviz.analysis.rules.bases.sequences.attention.masks_of_scores import FAR_BELOW, is_of_yes_and_no, varies_along

_NEAR = 4.0
"""Scores that are less than this below the highest one keep a weight: exp(-4) is 2 % of the highest."""


def may_hide(flow: Dataflow, edit: Edit) -> bool:
    """Whether a call may hide something, or is not understood."""
    if edit.kind == "term":
        call = flow.log.calls[edit.row]
        # What is added to a product has a factor of its own, beta.
        is_factor_given = ("beta" if plain_name(call.function) in ADDS_TO_PRODUCT else "alpha") in call.scalars
        return is_factor_given or edit.mask is None or not is_of_yes_and_no(flow, edit.row, edit.mask)
    return edit.kind == "fill" and (edit.value is None or edit.value <= FAR_BELOW)


def what_hides_nothing(case: Case, edit: Edit, axis: int) -> str | None:
    """What a call does that hides nothing; None if it hides something or was not meant to."""
    flow = case.dataflow
    if edit.kind == "triangle":
        shape = shape_of(flow, edit.scores)
        is_attention = len(shape) > 1 and shape[-1] == shape[-2] and axis == len(shape) - 1
        name = plain_name(flow.log.calls[edit.row].function)
        return f"{name}() sets scores to 0, and exp(0) is 1," if is_attention else None
    if edit.mask is None or not varies_along(flow, edit.mask, edit.scores, axis):
        return None
    if edit.kind == "factor":
        is_mask = is_of_yes_and_no(flow, edit.row, edit.mask)
        return "scores are multiplied by a mask, which makes them 0, and exp(0) is 1," if is_mask else None
    if edit.kind == "term":  # it is known by now to be of zeros and ones
        return "a mask of zeros and ones is added to scores, which changes them by 1 at most,"
    values, mask = flow.values(edit.scores, edit.row), flow.values(edit.mask, edit.row)
    is_used = mask is not None and 0 < mask.zeros < mask.count
    if not is_used or values is None or values.minimum is None or values.maximum is None or edit.value is None:
        return None
    if edit.value < values.minimum and edit.value < values.maximum - _NEAR:
        return None
    return f"the mask fills in {edit.value:g}, and the other scores are from {values.minimum:.3g} to " + (
        f"{values.maximum:.3g},"
    )
