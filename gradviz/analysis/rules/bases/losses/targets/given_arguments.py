"""What is wrong with an argument that a loss function got: its range, its classes, its blank, its name."""

from __future__ import annotations

import re

from msgspec import Struct

from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.losses.factors import name_before
from gradviz.analysis.rules.bases.losses.loss_arguments import SHAPE_ONLY, argument, value_maker
from gradviz.analysis.rules.bases.losses.sums_of_targets import cannot_add_up, is_smoothed
from gradviz.graph.call_log import Call, TensorUse, ValueFacts


class Given(Struct, frozen=True):
    """An argument of one call of a loss function."""

    flow: Dataflow
    row: int
    use: TensorUse
    values: ValueFacts
    lowest: float
    highest: float
    made_as: str = ""
    """The variable to which the line that made it assigned it, also in another function; empty if there is none."""

    @property
    def call(self) -> Call:
        return self.flow.log.calls[self.row]

    def option(self, name: str, position: int, missing: object) -> object:
        """A number or a boolean among the other arguments."""
        return self.call.scalars.get(name, self.call.scalars.get(str(position), missing))


_SLACK = 0.25
"""Noise of labels may reach so far beyond their range on purpose, as in "labels between 0.7 and 1.2"."""
_ROUNDING = 1e-3


def marks_missing(given: Given) -> bool:
    """Whether targets are of 0 and 1, and of a number that stands for those that nobody knows."""
    low, high, zeros = given.lowest, given.values.maximum, given.values.zeros
    is_marked = low in _MISSING and high in (0, 1) and zeros >= _LEAST_ZEROS * given.values.count
    return is_marked and outside_0_to_1(given)


_MISSING = (-1, -100, -999, -9999)
_LEAST_ZEROS = 0.05
"""Of labels of -1 and 1, none is 0."""


def outside_0_to_1(given: Given) -> bool:
    weight = argument(given.call, 2, "weight")
    weights = None if weight is None else given.flow.values_of(weight, given.row)
    is_masked = weights is not None and bool(weights.zeros)
    return not is_masked and (given.lowest < -_SLACK or given.highest > 1 + _SLACK)


def never_minus_1(given: Given) -> bool:
    return 0 <= given.lowest < 1


def other_than_1_and_minus_1(given: Given) -> bool:
    return never_minus_1(given) or given.highest > 1 or given.lowest < -1


def above_0(given: Given) -> bool:
    """Values that are no log-probabilities; if they come from a softmax, or from logarithms, this is another matter."""
    made = value_maker(given.flow, given.use.tensor, given.row)
    name = "" if made is None else plain_name(made[1].function)
    return given.use.requires_grad and given.highest > _ROUNDING and name not in _PROBABILITIES


_PROBABILITIES = frozenset({"softmax", "sigmoid", "log_softmax", "log"})


def negative_without_log_target(given: Given) -> bool:
    return not given.option("log_target", 5, missing=False) and given.lowest < -_ROUNDING


def probabilities_with_log_target(given: Given) -> bool:
    return bool(given.option("log_target", 5, missing=False)) and given.lowest >= 0 and given.highest > _ROUNDING


def rate_for_its_logarithm(given: Given) -> bool:
    made = value_maker(given.flow, given.use.tensor, given.row, through=frozenset({"add", "clamp"}))
    is_rate = made is not None and plain_name(made[1].function) in ("exp", "softplus")
    return bool(given.option("log_input", 2, missing=True)) and is_rate and given.lowest >= 0


def logarithm_for_a_rate(given: Given) -> bool:
    return not given.option("log_input", 2, missing=True) and given.lowest < -_ROUNDING


def contains_blank(given: Given) -> bool:
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


def has_too_few_frames(given: Given) -> bool:
    """Whether the longest and the shortest of the inputs are both shorter than the longest and the shortest target.

    A few such utterances are usual; then one of the two is long enough.
    """
    frames, targets = _lengths(given, 2, "input_lengths"), _lengths(given, 3, "target_lengths")
    if frames is None or targets is None:
        return False
    return frames[0] < targets[0] and frames[1] < targets[1]


def words_of_lengths(given: Given) -> str:
    frames, targets = _lengths(given, 2, "input_lengths"), _lengths(given, 3, "target_lengths")
    if frames is None or targets is None:
        return "more of them than frames"
    return f"{_from_to(targets)} of them for {_from_to(frames)} frames"


def _from_to(lengths: tuple[float, float]) -> str:
    low, high = lengths
    return f"{low:.0f}" if low == high else f"{low:.0f} to {high:.0f}"


def _lengths(given: Given, position: int, name: str) -> tuple[float, float] | None:
    """The shortest and the longest length in a tensor, or in a list that was noted as a whole."""
    use = argument(given.call, position, name)
    values = None if use is None else given.flow.values_of(use, given.row)
    if values is not None and values.minimum is not None and values.maximum is not None:
        return values.minimum, values.maximum
    samples = shape_of(given.flow, given.use.tensor)[0]
    places = [f"{argument_name}[{index}]" for argument_name in (str(position), name) for index in range(samples)]
    told = [given.call.scalars[place] for place in places if place in given.call.scalars]
    numbers = [each for each in told if type(each) is int]
    return (min(numbers), max(numbers)) if len(numbers) == samples else None


def names_several_classes(given: Given) -> bool:
    """Targets of 0 and 1 with more than two ones for each sample: a mixture of two samples has two at most."""
    shape = shape_of(given.flow, given.use.tensor)
    is_of_indices = not given.flow.log.tensors[given.use.tensor].facts.is_differentiable
    if is_of_indices or len(shape) != _TABLE or given.lowest != 0 or given.highest != 1:
        return False
    made = value_maker(given.flow, given.use.tensor, given.row)
    is_mixed = made is not None and plain_name(made[1].function) in _MIXES
    is_of_many = given.values.count - given.values.zeros > _OF_MIXED * shape[0]
    return not is_mixed and is_of_many and not _are_shares(given)


def _are_shares(given: Given) -> bool:
    """Whether a softmax made a target, which was only put elsewhere and joined with others since: shares of the moves
    that are allowed, of which there may be a single one, with the share 1."""
    flow, waiting, seen = given.flow, [(given.use.tensor, given.row)], 0
    while waiting and seen < _MOST_JOINED:
        (tensor, before), seen = waiting.pop(), seen + 1
        made = flow.newest_producer(tensor, before)
        call = None if made is None else flow.log.calls[made]
        name = "" if call is None else plain_name(call.function)
        if name == "softmax":
            return True
        if made is not None and call is not None and name in _PUTS:
            waiting += [(use.tensor, made) for use in (call.inputs if name in _JOINS else call.inputs[-1:])]
    return False


_MOST_JOINED = 2_000
_JOINS = frozenset({"stack", "cat", "concat"})
_PUTS = _JOINS | {"setitem", "index_put", "scatter", "index_copy", "clone", "detach", "to", "float"}


def does_not_add_up(given: Given) -> bool:
    shape = shape_of(given.flow, given.use.tensor)
    is_of_indices = not given.flow.log.tensors[given.use.tensor].facts.is_differentiable
    if is_of_indices or len(shape) < _TABLE or not cannot_add_up(given.lowest, given.highest, shape[1]):
        return False
    return is_smoothed(given.flow, given.use.tensor, given.row)


_TABLE = 2
"""Axes of one target for each sample and class."""
_OF_MIXED = 2.05
_MIXES = frozenset({"add", "sub", "mul", "div", "lerp", "softmax", "sigmoid", "clamp", "where", "matmul"})


def name_given(given: Given) -> str:
    """The name of the variable that was given as an argument, or from which that was bounded; empty if it has none."""
    return name_before(given.flow, given.use.tensor, given.row, _BOUNDS, beside_data=True)


_BOUNDS = SHAPE_ONLY | {"clamp", "clamp_min"}
_LOGARITHM = re.compile(r"^(log|ln)|log_?(var|std|sigma|scale|sd)", re.IGNORECASE)
_DEVIATION = re.compile(r"^(?!.*(var|log|sq|2$)).*(std|sigma|scale|stddev|(^|_)sd)s?\d?$", re.IGNORECASE)


def logarithm_for_variance(given: Given) -> bool:
    return bool(_LOGARITHM.search(name_given(given)))


def deviation_for_variance(given: Given) -> bool:
    return bool(name_of_deviation(given))


def name_of_deviation(given: Given) -> str:
    """The name that says that it is a standard deviation: where it was given, or where it was made; empty if none does.
    A name that speaks of a variance counts more."""
    names = (name_given(given), given.made_as)
    if any("var" in name.lower() for name in names):
        return ""
    return next((name for name in names if _DEVIATION.search(name)), "")
