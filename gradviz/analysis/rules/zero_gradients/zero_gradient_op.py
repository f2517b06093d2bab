"""GV201."""

from __future__ import annotations

from typing import NamedTuple

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Location
from gradviz.analysis.numbers.zero_gradients import ZeroGradient
from gradviz.analysis.numbers.zero_slopes import is_flat_everywhere
from gradviz.analysis.rules.bases.losses.loss_arguments import SHAPE_ONLY
from gradviz.analysis.rules.bases.zero_gradient_rule import NEAREST, ZeroGradientRule
from gradviz.graph.call_log import Call, TensorUse


class ZeroGradientOp(ZeroGradientRule):
    """An operation whose derivative is zero everywhere is between the loss and the weights.

    What it finds
    -------------
    Rounding, signs, steps, samples, softmax over a single element, a single element divided by its sum, and a value
    minus itself (a single element minus its own mean): a small change of the input does not change the result, so
    nothing before it learns. Also ``ctc_loss(zero_infinity=True)`` of targets that are longer than the inputs, and
    ``grid_sample`` at points that all lie outside of the image.

    Why it matters
    --------------
    This does not look like a cut path: each weight has a gradient, the optimizer steps, but no weight changes.

    Example
    -------
    encoder, decoder = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
    x = torch.randn(8, 4)
    code = torch.round(encoder(x))
    (decoder(code) - x).pow(2).mean().backward()

    Instead
    -------
    encoder, decoder = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
    x = torch.randn(8, 4)
    soft = encoder(x)
    code = soft + (torch.round(soft) - soft).detach()
    (decoder(code) - x).pow(2).mean().backward()
    """

    code = "GV201"
    name = "zero_gradient_op"
    yields_to = (
        "one_direction_only", "first_step_only", "second_derivative_zero", "straight_through_reversed",
        "same_derivative_twice", "target_never_reached", "normalized_alone", "gains_start_at_zero",
    )  # fmt: skip

    def verdict(self, zero: ZeroGradient, operation: str) -> str:
        return _words_for(zero, operation).verdict

    def why(self, zero: ZeroGradient, operation: str) -> str:
        return _words_for(zero, operation).why

    def fix(self, zero: ZeroGradient, operation: str) -> str:
        return _words_for(zero, operation).fix

    def wrong_use(self, case: Case, zero: ZeroGradient) -> tuple[Location | None, str] | None:
        if zero.call is None:
            return None
        turned = _straight_through_turned_round(case.dataflow, zero.call)
        split = _split_into_single_rows(case.dataflow, zero.call) if turned is None else None
        scaled = _scaled_to_points(case.dataflow, zero.call) if turned is split is None else None
        choices = (turned, _TURN_ROUND), (split, _CONTRAST_MORE), (scaled, _WORDS["grid_sample"].fix)
        found = next(((row, fix) for row, fix in choices if row is not None), None)
        return None if found is None else (case.location_of_call(found[0]), found[1])


class _Words(NamedTuple):
    """What is told of an operation."""

    verdict: str
    why: str
    fix: str


def _words_for(zero: ZeroGradient, operation: str) -> _Words:
    if zero.by == "cancelling":
        return _Words(
            f"the gradients that {operation}() sends on its several paths cancel out, whatever its input is",
            "its result does not depend on its input: x - x.mean() of a single element is always 0",
            "look at the shapes: a dimension of size 1 is reduced, or a value is compared with itself",
        )
    known = _WORDS.get("softmax" if "softmax" in operation else operation)
    if known is not None:
        return known
    is_flat = is_flat_everywhere(operation)
    return _Words(
        f"{operation}() passes no gradient on{', whatever its input is' if is_flat else ''}",
        f"{operation}() is constant between jumps: its derivative is zero everywhere"
        if is_flat
        else f"the derivative of {operation}() is zero at what it got in all of these steps",
        "remove it in training, use a smooth function instead, or let the gradient pass by it (straight-through): "
        "x + (f(x) - x).detach()",
    )


_WORDS = {
    "div": _Words(
        "single values are divided by their own sum, and the result passes no gradient on",
        "x / x.sum() of one element is always 1: its derivative is zero",
        "do not normalize where only one is left: weigh with the value itself",
    ),
    "softmax": _Words(
        "softmax over a single element passes no gradient on, whatever its input is",
        "softmax over one element is 1 whatever the element is: its derivative is zero",
        "use sigmoid for a single output, or softmax over the dimension that holds the classes (dim=)",
    ),
    "cross_entropy": _Words(
        "cross_entropy() passes no gradient on",
        "of one class it is 0 whatever the input is; of several, scores far apart round its derivative to 0",
        "one score for each sample needs F.binary_cross_entropy_with_logits(); else bound the scores",
    ),
    "ctc_loss": _Words(
        "ctc_loss() has an infinite loss for every sample, and zero_infinity makes it 0, with its gradient",
        "no path fits a target into fewer frames than it has symbols: input_lengths are too small for it",
        "pass the number of frames that ctc_loss() gets for each sample, with every stride counted once",
    ),
    NEAREST: _Words(
        "grid_sample() reads the nearest point of its image, and passes no gradient on to the grid",
        "which point is the nearest only changes in jumps: the derivative by the grid is zero everywhere",
        'read between the points: mode="bilinear"',
    ),
    "grid_sample": _Words(
        "grid_sample() reads nothing of its image: all points of the grid lie outside of -1 to 1",
        "-1 and 1 are the edges of the image, whatever its size is; outside there are zeros",
        "scale the points to -1 to 1: 2 * x / (width - 1) - 1 for pixels, with align_corners=True",
    ),
}
_TURN_ROUND = (
    "turn the straight-through round, so that the gradient goes to x and the value is that of q = f(x): "
    "x + (q - x).detach()"
)
_CONTRAST_MORE = (
    "each of these parts has one row, and is compared with itself alone: make larger parts, or put the rows of all "
    "parts together before they are compared"
)
_SPLITS = frozenset({"split", "chunk", "tensor_split", "unbind", "split_with_sizes"})
_PRODUCTS = frozenset({"matmul", "mm", "einsum", "linear"})
_SCALES = frozenset({"mul", "div", "add", "sub"})
_MAX_FOLLOWED = 6


def _split_into_single_rows(flow: Dataflow, row: int) -> int | None:
    """The call that split a batch into parts of one row, where a loss asks which row of the part belongs to which."""
    call = flow.log.calls[row]
    if plain_name(call.function) != "cross_entropy" or shape_of(flow, call.inputs[0].tensor) != (1, 1):
        return None
    rows = sorted(flow.ancestors(call.inputs[0].tensor, row, flow.step_before(row)), reverse=True)
    above = [(each, flow.log.calls[each]) for each in rows]
    if not any(plain_name(made.function) in _PRODUCTS and len(made.live_inputs) > 1 for _, made in above):
        return None
    return next((each for each, made in above if _is_split_into_rows(flow, made)), None)


def _scaled_to_points(flow: Dataflow, row: int) -> int | None:
    """The call that scaled the points of a grid of which all lie outside of the image."""
    call = flow.log.calls[row]
    if plain_name(call.function) != "grid_sample" or call.scalars.get("mode") == "nearest" or not call.inputs[1:]:
        return None
    for made, maker in flow.makers(call.inputs[1].tensor, row, _MAX_FOLLOWED):
        name = plain_name(maker.function)
        if name in _SCALES:
            return made if made > flow.step_before(row) else None
        if name not in SHAPE_ONLY | {"flip"}:
            return None
    return None


def _is_split_into_rows(flow: Dataflow, call: Call) -> bool:
    """Whether a call splits several rows into parts of one row each."""
    if plain_name(call.function) not in _SPLITS or shape_of(flow, call.inputs[0].tensor)[:1] <= (1,):
        return False
    return {shape_of(flow, use.tensor)[:1] for use in call.outputs} == {(1,)}


def _straight_through_turned_round(flow: Dataflow, row: int) -> int | None:
    """The call that adds ``(x - q).detach()`` to ``q``, where q is the result of a call, perhaps scaled."""
    waiting = [use.tensor for use in flow.log.calls[row].outputs]
    seen: set[int] = set()
    while waiting and len(seen) < _MAX_FOLLOWED:
        tensor = waiting.pop()
        seen.add(tensor)
        for user in flow.users(tensor, row):
            call = flow.log.calls[user]
            name = plain_name(call.function)
            if name == "add" and any(_is_rest_of(flow, use, tensor, user) for use in call.inputs):
                return user
            if name in _SCALES and len(call.live_inputs) == 1:
                waiting += [use.tensor for use in call.outputs if use.tensor not in seen]
    return None


def _is_rest_of(flow: Dataflow, use: TensorUse, tensor: int, row: int) -> bool:
    """Whether a constant is ``(x - q).detach()``, where q is a tensor."""
    made = flow.producers(use.tensor, row)[-1:] if not use.requires_grad else ()
    for cut in made:
        given = flow.log.calls[cut].inputs
        if plain_name(flow.log.calls[cut].function) == "detach" and given:
            apart = [flow.log.calls[each] for each in flow.producers(given[0].tensor, cut)[-1:]]
            return any(plain_name(each.function) == "sub" and each.inputs[-1].tensor == tensor for each in apart)
    return False
