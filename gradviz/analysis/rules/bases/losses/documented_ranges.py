"""What the documentation of torch's loss functions asks of their arguments, as far as values or names show it."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from gradviz.analysis.rules.bases.losses.sums_of_targets import NOT_ADDED_UP_FIX, NOT_ADDED_UP_WHY
from gradviz.analysis.rules.bases.losses.targets.given_arguments import (
    Given,
    above_0,
    contains_blank,
    deviation_for_variance,
    does_not_add_up,
    has_too_few_frames,
    logarithm_for_a_rate,
    logarithm_for_variance,
    marks_missing,
    name_given,
    name_of_deviation,
    names_several_classes,
    negative_without_log_target,
    never_minus_1,
    other_than_1_and_minus_1,
    outside_0_to_1,
    probabilities_with_log_target,
    rate_for_its_logarithm,
    words_of_lengths,
)


class Demand(Struct, frozen=True):
    """What a function asks of one argument."""

    position: int
    name: str
    documented: str
    """What the documentation asks for."""
    is_broken: Callable[[Given], bool]
    why: str
    fix: str
    share: float
    """In which part of the calls values outside of the range have to be seen."""
    are_labels: bool = False
    """Whether a program may be right at the call, and wrong where the values were made."""
    name_of: Callable[[Given], str] | None = None
    """For what shows in the name of a variable, and not in values: that name."""
    is_option: bool = False
    """Whether another option mends it, which a module of torch gets where it is made."""


_MOST = 0.9
_NAMED = 0.01
"""Variables are named at the first, second, fourth, eighth ... step."""
_SOME = 0.3
"""A small batch may contain labels of one kind only."""
_FEW = 0.05
"""A logarithm of a probability is never above 0; ``ctc_loss`` teaches logits to be below it, which takes some steps."""


# -- the table ---------------------------------------------------------------------------------------------------------


def _targets_0_to_1(function: str) -> Demand:
    why = "beyond 0 and 1 it has no minimum: the loss goes below zero, and falls for ever as the logits grow"
    fix = f"give {function}() labels of 0 and 1: (y + 1) / 2 for labels of -1 and 1, y / y.max() for amounts"
    return Demand(1, "target", "targets between 0 and 1", outside_0_to_1, why, fix, _SOME, are_labels=True)


def _no_missing_targets(function: str) -> Demand:
    why = "a missing label is taken for a target below 0: the loss has no minimum there, and falls for ever"
    fix = (
        f'leave out labels that are missing: known = y >= 0, then ({function}(x, y.clamp(min=0), reduction="none") '
        "* known).sum() / known.sum()"
    )
    return Demand(1, "target", "targets between 0 and 1", marks_missing, why, fix, _SOME)


def _targets_of_both_signs(position: int, is_broken: Callable[[Given], bool], why: str) -> Demand:
    fix = "give it 2 * y - 1 for labels y of 0 and 1"
    return Demand(position, "target", "targets of 1 and -1", is_broken, why, fix, _SOME, are_labels=True)


def _log_probabilities(function: str, instead: str) -> Demand:
    why = f"{function}() does not normalize: it can make such a loss as low as it likes, whatever the other classes get"
    return Demand(0, "input", "log-probabilities", above_0, why, instead, _FEW)


DEMANDS: dict[str, tuple[Demand, ...]] = {
    "cross_entropy": (
        Demand(
            1, "target", "probabilities that add up to 1 for each sample", names_several_classes,
            "its softmax shares 1 between all classes, so a sample cannot have several of them: the more one class "
            "gets, the less is left for the others", "use binary_cross_entropy_with_logits() for samples with several "
            "classes", _SOME,
        ),
        Demand(
            1, "target", "probabilities that add up to 1 for each sample", does_not_add_up, NOT_ADDED_UP_WHY,
            NOT_ADDED_UP_FIX, _MOST, are_labels=True,
        ),
    ),
    "binary_cross_entropy": (_targets_0_to_1("binary_cross_entropy"),),
    "binary_cross_entropy_with_logits": (
        _no_missing_targets("binary_cross_entropy_with_logits"),
        _targets_0_to_1("binary_cross_entropy_with_logits"),
    ),
    "multilabel_soft_margin_loss": (_targets_0_to_1("multilabel_soft_margin_loss"),),
    "cosine_embedding_loss": (
        _targets_of_both_signs(2, other_than_1_and_minus_1, "pairs with any other target than 1 and -1 are ignored"),
    ),
    "margin_ranking_loss": (
        _targets_of_both_signs(2, never_minus_1, "a pair with the target 0 has a constant loss, and no gradient"),
    ),
    "hinge_embedding_loss": (
        _targets_of_both_signs(
            1, other_than_1_and_minus_1, "a sample with another target has the losses of both classes at once"
        ),
    ),
    "soft_margin_loss": (
        _targets_of_both_signs(1, never_minus_1, "a sample with the target 0 has a constant loss, and no gradient"),
    ),
    "nll_loss": (_log_probabilities("nll_loss", "use cross_entropy(), or give it log_softmax(logits, dim=1)"),),
    "kl_div": (
        _log_probabilities("kl_div", "give it log_softmax(logits, dim=-1)"),
        Demand(
            1, "target", "probabilities as targets, unless log_target=True", negative_without_log_target,
            "it multiplies the targets with their logarithm, which is NaN for negative ones", "pass log_target=True "
            "for log-probabilities; make probabilities of logits with softmax()", _MOST, is_option=True,
        ),
        Demand(
            1, "target", "log-probabilities as targets, with log_target=True", probabilities_with_log_target,
            "it takes the exponential of what are probabilities already", "leave out log_target=True, or give it "
            "log-probabilities", _MOST,
        ),
    ),
    "ctc_loss": (
        _log_probabilities("ctc_loss", "give it log_softmax(logits, dim=-1)"),
        Demand(
            1, "targets", "targets without the index of the blank", contains_blank,
            "such a target can be reached without any symbol, and decoding removes it",
            "leave index 0 to the blank: count the classes from 1, or pass blank= with an index of its own", _SOME,
            is_option=True,
        ),
        Demand(
            1, "targets", "at least as many frames as targets", has_too_few_frames,
            "each target needs a frame of its own: the loss of such a sequence is infinite, and zero_infinity=True "
            "makes it 0, without a gradient", "make the time axis less short before the loss: smaller strides, or "
            "upsample; and give input_lengths as they are after all strides", _MOST, name_of=words_of_lengths,
        ),
    ),
    "gaussian_nll_loss": (
        Demand(
            2, "var", "the variance", logarithm_for_variance, "by its name it is a logarithm: below the smallest "
            "variance it is cut off, and passes no gradient on", "give it the exponential: logvar.exp()", _NAMED,
            name_of=name_given,
        ),
        Demand(
            2, "var", "the variance", deviation_for_variance, "by its name it is a standard deviation, and the "
            "likelihood needs its square: the model learns the square root of its uncertainty", "square it: sigma ** 2",
            _NAMED, name_of=name_of_deviation,
        ),
    ),
    "poisson_nll_loss": (
        Demand(
            0, "input", "the logarithm of the rate, unless log_input=False", rate_for_its_logarithm,
            "it takes the exponential once more: the model learns exp(exp(x))", "pass log_input=False, or leave out "
            "the function that makes the rate", _MOST, is_option=True,
        ),
        Demand(
            0, "input", "the rate, with log_input=False", logarithm_for_a_rate,
            "it takes the logarithm of the input, which is NaN for negative ones", "leave out log_input=False, or "
            "make a rate with exp()", _MOST,
        ),
    ),
}  # fmt: skip
"""By function of `torch.nn.functional`."""
