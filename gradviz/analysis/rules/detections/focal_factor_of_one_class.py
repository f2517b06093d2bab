"""GV935."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import plain_name, two_lines
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.loss_arguments import (
    PARTS,
    SHAPE_ONLY,
    argument,
    calls_in_training,
    tensor_before,
    value_maker,
)
from gradviz.analysis.rules.bases.losses.signed_terms import is_number_first, number_of
from gradviz.graph.call_log import Call, TensorUse


class FocalFactorOfOneClass(Rule):
    """A focal factor is ``(1 - p) ** gamma`` for all targets, though for those that are 0 the right one is ``p``.

    What it finds
    -------------
    A binary cross entropy of each element, also one that is written out, with targets of 0 and 1, times a power of one
    minus the predicted probability, and no factor that hides the elements whose target is 0.

    Why it matters
    --------------
    A focal loss gives little weight to what is right already: for a target of 1 that is a large ``p``, for a target of
    0 a small one. With ``1 - p`` for both, the many easy negatives of a detector keep their whole weight, and those
    that are wrong, with ``p`` near 1, hardly count.

    Example
    -------
    model = torch.nn.Linear(6, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        x, y = torch.randn(8, 6), (torch.rand(8, 3) < 0.2).float()
        logits = model(x)
        ce = torch.nn.functional.binary_cross_entropy_with_logits(logits, y, reduction="none")
        p = torch.sigmoid(logits)
        loss = ((1 - p) ** 2 * ce).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    model = torch.nn.Linear(6, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        x, y = torch.randn(8, 6), (torch.rand(8, 3) < 0.2).float()
        logits = model(x)
        ce = torch.nn.functional.binary_cross_entropy_with_logits(logits, y, reduction="none")
        p = torch.sigmoid(logits)
        p_right = p * y + (1 - p) * (1 - y)
        loss = ((1 - p_right) ** 2 * ce).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV935"
    name = "focal_factor_of_one_class"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        for rows in calls_in_training(case.dataflow, _LOSSES):
            found = _factor_of_misses(case.dataflow, rows[-1])
            if found is not None:
                yield self._finding(case.dataflow, found, rows[-1])
        for rows in calls_in_training(case.dataflow, frozenset({"add", "sub"})):
            given = _scores_of_entropy(case.dataflow, rows[-1])
            found = None if given is None else _factor_beside(case.dataflow, rows[-1], given)
            if found is not None:
                yield self._finding(case.dataflow, found, rows[-1])

    def _finding(self, flow: Dataflow, factor: int, row: int) -> Finding:
        location, loss = two_lines(flow, factor, row)
        return self.finding(
            "a focal factor is a power of 1 - p for all elements, also for those whose target is 0: there the right "
            "probability is 1 - p, and what is wrong counts least",
            symptom="grad_wrong",
            why="the factor should be small for what is right already, whichever the target is",
            fix="take the probability of the right answer: p_right = p * target + (1 - p) * (1 - target), "
            "(1 - p_right) ** gamma",
            location=location,
            symptom_location=loss,
        )


_LOSSES = frozenset({"binary_cross_entropy", "binary_cross_entropy_with_logits"})
_KEEPS = (SHAPE_ONLY - PARTS) | {"detach"}
_REDUCES = frozenset({"sum", "mean"})
_BOTH = 2
_MAX_CALLS = 6


def _factor_of_misses(flow: Dataflow, row: int) -> int | None:
    """The call that takes a power of one minus the probability, if a loss of each element is multiplied with it."""
    call = flow.log.calls[row]
    given, target = argument(call, 0, "input"), argument(call, 1, "target")
    if call.scalars.get("reduction") != "none" or given is None or target is None:
        return None
    wanted = flow.values_of(target, row)
    if wanted is None or wanted.minimum != 0 or wanted.maximum != 1:
        return None
    return _factor_beside(flow, row, tensor_before(flow, given.tensor, row, _KEEPS))


def _factor_beside(flow: Dataflow, row: int, root: int) -> int | None:
    """The power of one minus the probability with which a loss of each element is multiplied, if nothing else may hide
    elements."""
    factors = _factors(flow, row)
    found = [made for use, at in factors or () if (made := _power_of_rest(flow, use, at, root)) is not None]
    others = [use for use, at in factors or () if _power_of_rest(flow, use, at, root) is None]
    return found[0] if len(found) == 1 and not any(_may_hide(flow, use, row) for use in others) else None


def _scores_of_entropy(flow: Dataflow, row: int) -> int | None:
    """The logits or probabilities of ``t * log(p) + (1 - t) * log(1 - p)`` that is written out."""
    call = flow.log.calls[row]
    if len(call.live_inputs) != _BOTH:
        return None
    sides = [_logarithm_chosen(flow, use.tensor, row) for use in call.live_inputs]
    if None in sides or len({each[0] for each in sides if each is not None}) != 1:
        return None
    return (
        sides[0][0]
        if sides[0] is not None and {each[1] for each in sides if each is not None} == {True, False}
        else None
    )


def _logarithm_chosen(flow: Dataflow, tensor: int, row: int) -> tuple[int, bool] | None:
    """What a side of an entropy takes the logarithm of, and whether of one minus its probability; None if it is not
    multiplied with targets of 0 and 1."""
    product = value_maker(flow, tensor, row, through=frozenset({"neg"}))
    if product is None or plain_name(product[1].function) != "mul" or len(product[1].live_inputs) != 1:
        return None
    number, call = product
    wanted = [flow.values_of(use, number) for use in call.inputs if not use.requires_grad]
    if len(wanted) != 1 or wanted[0] is None or (wanted[0].minimum, wanted[0].maximum) != (0, 1):
        return None
    made = value_maker(flow, call.live_inputs[0].tensor, number, through=frozenset({"clamp"}))
    if made is None or plain_name(made[1].function) not in ("logsigmoid", "log"):
        return None
    of_rest, before, given = False, made[0], made[1].inputs[0].tensor
    inner = value_maker(flow, given, before, through=frozenset({"add", "clamp"}))
    if inner is not None and len(inner[1].inputs) == 1:
        name = plain_name(inner[1].function)
        is_rest = name == "sub" and is_number_first(inner[1])
        if is_rest if plain_name(made[1].function) == "log" else name == "neg":
            of_rest, before, given = True, inner[0], inner[1].inputs[0].tensor
    return tensor_before(flow, given, before, _KEEPS | {"clamp", "add"}), of_rest


def _factors(flow: Dataflow, row: int) -> list[tuple[TensorUse, int]] | None:
    """What the loss of each element is multiplied with before it is reduced, each with the call that takes it; None if
    something else becomes of it."""
    factors, tensor = list[tuple[TensorUse, int]](), flow.log.calls[row].outputs[0].tensor
    for _ in range(_MAX_CALLS):
        users = [each for each in flow.users(tensor, row) if flow.log.calls[each].live_inputs]
        if len(users) != 1:
            return None
        row = users[0]
        call = flow.log.calls[row]
        name = plain_name(call.function)
        if name in _REDUCES:
            return factors
        if name not in ("mul", "div", "neg") and name not in _KEEPS:
            return None
        for use in call.inputs:
            if use.tensor != tensor and name == "mul":
                factors += _multiplied(flow, use, row)
        tensor = call.outputs[0].tensor
    return None


def _multiplied(flow: Dataflow, use: TensorUse, row: int) -> list[tuple[TensorUse, int]]:
    """The factors of which a tensor is the product."""
    found, waiting = list[tuple[TensorUse, int]](), [(use, row)]
    while waiting and len(found) < _MAX_CALLS:
        each, at = waiting.pop()
        made = value_maker(flow, each.tensor, at)
        if made is not None and plain_name(made[1].function) == "mul":
            waiting += [(factor, made[0]) for factor in made[1].inputs]
        else:
            found.append((each, at))
    return found


def _power_of_rest(flow: Dataflow, use: TensorUse, row: int, root: int) -> int | None:
    """The call that computes ``(1 - sigmoid(logits)) ** gamma``, if a factor is that."""
    power = value_maker(flow, use.tensor, row, through=frozenset({"detach"}))
    if power is None or plain_name(power[1].function) not in ("pow", "square"):
        return None
    if number_of(power[1], "1", "exponent", missing=float(_BOTH)) <= 0:
        return None
    rest = value_maker(flow, power[1].inputs[0].tensor, power[0], through=frozenset({"detach", "clamp"}))
    if rest is None:
        return None
    number, call = rest
    if plain_name(call.function) == "sub" and len(call.inputs) == 1 and is_number_first(call):
        return power[0] if _is_probability(flow, call.inputs[0].tensor, number, root) else None
    negated = _maker_of_first(flow, number, call) if plain_name(call.function) == "sigmoid" else None
    is_rest = negated is not None and plain_name(negated[1].function) == "neg"
    if negated is None or not is_rest:
        return None
    return power[0] if tensor_before(flow, negated[1].inputs[0].tensor, negated[0], _KEEPS) == root else None


def _maker_of_first(flow: Dataflow, row: int, call: Call) -> tuple[int, Call] | None:
    return value_maker(flow, call.inputs[0].tensor, row, through=frozenset({"detach"}))


def _is_probability(flow: Dataflow, tensor: int, row: int, root: int) -> bool:
    """Whether a tensor is the sigmoid of the logits, or what the loss takes itself."""
    before = tensor_before(flow, tensor, row, _KEEPS | {"clamp"})
    made = flow.newest_producer(before, row)
    call = None if made is None else flow.log.calls[made]
    if before == root:
        return True
    is_sigmoid = call is not None and plain_name(call.function) == "sigmoid"
    return is_sigmoid and made is not None and tensor_before(flow, call.inputs[0].tensor, made, _KEEPS) == root  # type: ignore[union-attr]


def _may_hide(flow: Dataflow, use: TensorUse, row: int) -> bool:
    """Whether a factor may be 0, as a mask of the positives is, or is not known."""
    values = flow.values_of(use, len(flow.log.calls))
    return values is None or values.minimum is None or values.minimum <= 0
