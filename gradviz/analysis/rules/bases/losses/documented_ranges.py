"""What the documentation of torch's loss functions asks of their arguments, as far as values or names show it."""

from __future__ import annotations

import re
from collections.abc import Callable

from msgspec import Struct

from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.losses.factors import name_before
from gradviz.analysis.rules.bases.losses.loss_arguments import SHAPE_ONLY, argument, value_maker
from gradviz.analysis.rules.bases.losses.sums_of_targets import (
    NOT_ADDED_UP_FIX,
    NOT_ADDED_UP_WHY,
    cannot_add_up,
    is_smoothed,
)
from gradviz.graph.call_log import Call, TensorUse, ValueFacts


class Given(Struct, frozen=True):
    """An argument of one call of a loss function."""

    flow: Dataflow
    row: int
    use: TensorUse
    values: ValueFacts
    lowest: float
    highest: float

    @property
    def call(self) -> Call:
        return self.flow.log.calls[self.row]

    def option(self, name: str, position: int, missing: object) -> object:
        """A number or a boolean among the other arguments."""
        return self.call.scalars.get(name, self.call.scalars.get(str(position), missing))


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


_SLACK = 0.25
"""Noise of labels may reach so far beyond their range on purpose, as in "labels between 0.7 and 1.2"."""
_ROUNDING = 1e-3
_MOST = 0.9
_NAMED = 0.01
"""Variables are named at the first, second, fourth, eighth ... step."""
_SOME = 0.3
"""A small batch may contain labels of one kind only."""


def _outside_0_to_1(given: Given) -> bool:
    weight = argument(given.call, 2, "weight")
    weights = None if weight is None else given.flow.values_of(weight, given.row)
    is_masked = weights is not None and bool(weights.zeros)
    return not is_masked and (given.lowest < -_SLACK or given.highest > 1 + _SLACK)


def _never_minus_1(given: Given) -> bool:
    return 0 <= given.lowest < 1


def _other_than_1_and_minus_1(given: Given) -> bool:
    return _never_minus_1(given) or given.highest > 1 or given.lowest < -1


def _above_0(given: Given) -> bool:
    """Values that are no log-probabilities; if they come from a softmax, or from logarithms, this is another matter."""
    made = value_maker(given.flow, given.use.tensor, given.row)
    name = "" if made is None else plain_name(made[1].function)
    return given.use.requires_grad and given.highest > _ROUNDING and name not in _PROBABILITIES


_PROBABILITIES = frozenset({"softmax", "sigmoid", "log_softmax", "log"})


def _negative_without_log_target(given: Given) -> bool:
    return not given.option("log_target", 5, missing=False) and given.lowest < -_ROUNDING


def _probabilities_with_log_target(given: Given) -> bool:
    return bool(given.option("log_target", 5, missing=False)) and given.lowest >= 0 and given.highest > _ROUNDING


def _rate_for_its_logarithm(given: Given) -> bool:
    made = value_maker(given.flow, given.use.tensor, given.row, through=frozenset({"add", "clamp"}))
    is_rate = made is not None and plain_name(made[1].function) in ("exp", "softplus")
    return bool(given.option("log_input", 2, missing=True)) and is_rate and given.lowest >= 0


def _logarithm_for_a_rate(given: Given) -> bool:
    return not given.option("log_input", 2, missing=True) and given.lowest < -_ROUNDING


def _contains_blank(given: Given) -> bool:
    """Whether more targets are blank than may be padding behind the ends of the sequences."""
    blank = given.option("blank", 4, missing=0)
    if blank == 0:
        return given.lowest == 0 and given.values.zeros > _most_padding(given)
    return given.highest == blank and _most_padding(given) == 0


def _most_padding(given: Given) -> float:
    shape = shape_of(given.flow, given.use.tensor)
    lengths = argument(given.call, 3, "target_lengths")
    known = None if lengths is None else given.flow.values_of(lengths, given.row)
    told = [value for place, value in given.call.scalars.items() if place.startswith(("3[", "target_lengths["))]
    shortest = min((value for value in told if type(value) is int), default=None if known is None else known.minimum)
    if len(shape) < 2:
        return 0
    return float("inf") if shortest is None else shape[0] * (shape[1] - shortest)


def _names_several_classes(given: Given) -> bool:
    """Targets of 0 and 1 with more than two ones for each sample: a mixture of two samples has two at most."""
    shape = shape_of(given.flow, given.use.tensor)
    is_of_indices = not given.flow.log.tensors[given.use.tensor].facts.is_differentiable
    if is_of_indices or len(shape) != _TABLE or given.lowest != 0 or given.highest != 1:
        return False
    made = value_maker(given.flow, given.use.tensor, given.row)
    is_mixed = made is not None and plain_name(made[1].function) in _MIXES
    return not is_mixed and given.values.count - given.values.zeros > _OF_MIXED * shape[0]


def _does_not_add_up(given: Given) -> bool:
    shape = shape_of(given.flow, given.use.tensor)
    is_of_indices = not given.flow.log.tensors[given.use.tensor].facts.is_differentiable
    if is_of_indices or len(shape) < _TABLE or not cannot_add_up(given.lowest, given.highest, shape[1]):
        return False
    return is_smoothed(given.flow, given.use.tensor, given.row)


_TABLE = 2
"""Axes of one target for each sample and class."""
_OF_MIXED = 2.05
_MIXES = frozenset({"add", "sub", "mul", "div", "lerp", "softmax", "sigmoid", "clamp", "where", "matmul"})


def _name_of(given: Given) -> str:
    """The name of the variable that was given as an argument, or from which that was bounded; empty if it has none."""
    return name_before(given.flow, given.use.tensor, given.row, _BOUNDS, beside_data=True)


_BOUNDS = SHAPE_ONLY | {"clamp", "clamp_min"}
_LOGARITHM = re.compile(r"^(log|ln)|log_?(var|std|sigma|scale|sd)", re.IGNORECASE)
_DEVIATION = re.compile(r"^(?!.*(var|log|sq|2$)).*(std|sigma|scale|stddev|(^|_)sd)s?\d?$", re.IGNORECASE)


def _logarithm_for_variance(given: Given) -> bool:
    return bool(_LOGARITHM.search(_name_of(given)))


def _deviation_for_variance(given: Given) -> bool:
    return bool(_DEVIATION.search(_name_of(given)))


# -- the table ---------------------------------------------------------------------------------------------------------


def _targets_0_to_1(function: str) -> Demand:
    why = "beyond 0 and 1 it has no minimum: the loss goes below zero, and falls for ever as the logits grow"
    fix = f"give {function}() labels of 0 and 1: (y + 1) / 2 for labels of -1 and 1, y / y.max() for amounts"
    return Demand(1, "target", "targets between 0 and 1", _outside_0_to_1, why, fix, _SOME, are_labels=True)


def _targets_of_both_signs(position: int, is_broken: Callable[[Given], bool], why: str) -> Demand:
    fix = "give it 2 * y - 1 for labels y of 0 and 1"
    return Demand(position, "target", "targets of 1 and -1", is_broken, why, fix, _SOME, are_labels=True)


def _log_probabilities(function: str, instead: str) -> Demand:
    why = f"{function}() does not normalize: it can make such a loss as low as it likes, whatever the other classes get"
    return Demand(0, "input", "log-probabilities", _above_0, why, instead, _SOME)


DEMANDS: dict[str, tuple[Demand, ...]] = {
    "cross_entropy": (
        Demand(
            1, "target", "probabilities that add up to 1 for each sample", _names_several_classes,
            "its softmax shares 1 between all classes, so a sample cannot have several of them: the more one class "
            "gets, the less is left for the others", "use binary_cross_entropy_with_logits() for samples with several "
            "classes", _SOME,
        ),
        Demand(
            1, "target", "probabilities that add up to 1 for each sample", _does_not_add_up, NOT_ADDED_UP_WHY,
            NOT_ADDED_UP_FIX, _MOST, are_labels=True,
        ),
    ),
    "binary_cross_entropy": (_targets_0_to_1("binary_cross_entropy"),),
    "binary_cross_entropy_with_logits": (_targets_0_to_1("binary_cross_entropy_with_logits"),),
    "multilabel_soft_margin_loss": (_targets_0_to_1("multilabel_soft_margin_loss"),),
    "cosine_embedding_loss": (
        _targets_of_both_signs(2, _other_than_1_and_minus_1, "pairs with any other target than 1 and -1 are ignored"),
    ),
    "margin_ranking_loss": (
        _targets_of_both_signs(2, _never_minus_1, "a pair with the target 0 has a constant loss, and no gradient"),
    ),
    "hinge_embedding_loss": (
        _targets_of_both_signs(
            1, _other_than_1_and_minus_1, "a sample with another target has the losses of both classes at once"
        ),
    ),
    "soft_margin_loss": (
        _targets_of_both_signs(1, _never_minus_1, "a sample with the target 0 has a constant loss, and no gradient"),
    ),
    "nll_loss": (_log_probabilities("nll_loss", "use cross_entropy(), or give it log_softmax(logits, dim=1)"),),
    "kl_div": (
        _log_probabilities("kl_div", "give it log_softmax(logits, dim=-1)"),
        Demand(
            1, "target", "probabilities as targets, unless log_target=True", _negative_without_log_target,
            "it multiplies the targets with their logarithm, which is NaN for negative ones", "pass log_target=True "
            "for log-probabilities; make probabilities of logits with softmax()", _MOST, is_option=True,
        ),
        Demand(
            1, "target", "log-probabilities as targets, with log_target=True", _probabilities_with_log_target,
            "it takes the exponential of what are probabilities already", "leave out log_target=True, or give it "
            "log-probabilities", _MOST,
        ),
    ),
    "ctc_loss": (
        _log_probabilities("ctc_loss", "give it log_softmax(logits, dim=-1)"),
        Demand(
            1, "targets", "targets without the index of the blank", _contains_blank,
            "such a target can be reached without any symbol, and decoding removes it",
            "leave index 0 to the blank: count the classes from 1, or pass blank= with an index of its own", _SOME,
            is_option=True,
        ),
    ),
    "gaussian_nll_loss": (
        Demand(
            2, "var", "the variance", _logarithm_for_variance, "by its name it is a logarithm: below the smallest "
            "variance it is cut off, and passes no gradient on", "give it the exponential: logvar.exp()", _NAMED,
            name_of=_name_of,
        ),
        Demand(
            2, "var", "the variance", _deviation_for_variance, "by its name it is a standard deviation, and the "
            "likelihood needs its square: the model learns the square root of its uncertainty", "square it: sigma ** 2",
            _NAMED, name_of=_name_of,
        ),
    ),
    "poisson_nll_loss": (
        Demand(
            0, "input", "the logarithm of the rate, unless log_input=False", _rate_for_its_logarithm,
            "it takes the exponential once more: the model learns exp(exp(x))", "pass log_input=False, or leave out "
            "the function that makes the rate", _MOST, is_option=True,
        ),
        Demand(
            0, "input", "the rate, with log_input=False", _logarithm_for_a_rate,
            "it takes the logarithm of the input, which is NaN for negative ones", "leave out log_input=False, or "
            "make a rate with exp()", _MOST,
        ),
    ),
}  # fmt: skip
"""By function of `torch.nn.functional`."""
