"""GV768."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import call_words, calls_named, plain_name, two_lines
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.loss_arguments import SHAPE_ONLY
from gradviz.analysis.rules.bases.losses.scales.applied_maps import AppliedMap, applied_map
from gradviz.analysis.rules.bases.losses.signed_terms import OPERAND, number_of
from gradviz.graph.call_log import Call, TensorUse


class LogDeterminantOfOnePosition(Rule):
    """The log-determinant of a layer that is applied at many positions counts only one of them.

    What it finds
    -------------
    ``slogdet(W)``, ``logdet(W)``, the logarithm of ``det(W)`` or the sum of the logarithms of scales, where a 1x1
    convolution, a linear map or a product applies the same ``W`` or the same scales at each position of a sample
    (scales may also be the diagonal of ``W``), and which is added to what was summed over all positions of the sample,
    without being multiplied by the number of positions.

    Why it matters
    --------------
    The determinant of the whole map is the product of those at all positions. With one of them only, the likelihood of
    a flow is no likelihood: what it gains by pressing the data together counts in full, what that costs does not.

    Example
    -------
    weight = torch.nn.Parameter(torch.eye(3) + 0.1 * torch.randn(3, 3))
    optimizer = torch.optim.SGD([weight], lr=0.001)
    for step in range(3):
        x = torch.randn(8, 3, 4, 4)
        z = torch.nn.functional.conv2d(x, weight[:, :, None, None])
        logdet = torch.linalg.slogdet(weight)[1]
        loss = (0.5 * z.square().sum(dim=(1, 2, 3)) - logdet).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    weight = torch.nn.Parameter(torch.eye(3) + 0.1 * torch.randn(3, 3))
    optimizer = torch.optim.SGD([weight], lr=0.001)
    for step in range(3):
        x = torch.randn(8, 3, 4, 4)
        z = torch.nn.functional.conv2d(x, weight[:, :, None, None])
        logdet = 16 * torch.linalg.slogdet(weight)[1]
        loss = (0.5 * z.square().sum(dim=(1, 2, 3)) - logdet).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV768"
    name = "log_determinant_of_one_position"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow, last = case.dataflow, dict[int | None, int]()
        for row, call in calls_named(flow, _LOGARITHMS):
            if call.live_inputs and flow.has_step_after(row):
                last[call.call_site] = row
        for row in last.values():
            applied = applied_map(flow, row)
            met = _met_unscaled(flow, row, applied) if applied is not None else None
            if applied is not None and met is not None:
                yield self._finding(flow, row, applied)

    def _finding(self, flow: Dataflow, row: int, applied: AppliedMap) -> Finding:
        location, used = two_lines(flow, row, applied.call)
        call = call_words(flow.log.calls[row])
        return self.finding(
            f"the log-determinant that {call} returns is that of one position, and "
            f"{call_words(flow.log.calls[applied.call])} applies the same at {applied.positions:,} positions of each "
            "sample",
            symptom="grad_wrong",
            why="the log-probability of a sample is the sum over all positions, so each of them counts its own "
            "log-determinant",
            fix=f"multiply it by the number of positions: here {applied.positions} *",
            location=location,
            symptom_location=used,
            evidence={"positions": applied.positions},
        )


_MAX_MAKERS = 12
_MOST_FOLLOWED = 60
_LOGARITHMS = frozenset({"slogdet", "logdet", "log", "sum"})
_ADDS = frozenset({"add", "sub", "neg", "stack", "cat", "mul", "div"}) | SHAPE_ONLY


def _met_unscaled(flow: Dataflow, row: int, applied: AppliedMap) -> int | None:
    """The call that adds the logarithm, as it is, to what was summed over the positions of each sample."""
    waiting, seen = [(flow.log.calls[row].outputs[-1].tensor, row)], set[int]()
    while waiting and len(seen) < _MOST_FOLLOWED:
        tensor, made = waiting.pop()
        for user in flow.users(tensor, made):
            call = flow.log.calls[user]
            name = plain_name(call.function)
            others = [use for use in call.inputs if use.tensor != tensor]
            is_term = name in _ADDS or _is_mean_of_samples(flow, call, applied) or _adds_layers(flow, call, made)
            if user in seen or call.kind != "operation" or not call.outputs or not is_term:
                continue
            seen.add(user)
            if name in ("mul", "div") and not _is_by_one(flow, call, user, others):
                continue
            if name in ("add", "sub") and any(
                _is_sum_of_positions(flow, each.tensor, user, applied) for each in others
            ):
                return user
            waiting.append((call.outputs[0].tensor, user))
    return None


def _is_by_one(flow: Dataflow, call: Call, row: int, others: list[TensorUse]) -> bool:
    """Whether a product leaves a value as it is, but for its sign: ``-1 * x``, ``x * torch.ones(n)``."""
    if not others:
        return abs(number_of(call, *OPERAND, missing=0.0)) == 1
    values = flow.values_of(others[0], row) if len(others) == 1 else None
    return values is not None and values.minimum == values.maximum == 1


def _is_mean_of_samples(flow: Dataflow, call: Call, applied: AppliedMap) -> bool:
    """Whether a call averages one number of each sample."""
    return plain_name(call.function) == "mean" and shape_of(flow, call.inputs[0].tensor) == (applied.samples,)


def _adds_layers(flow: Dataflow, call: Call, made: int) -> bool:
    """Whether a call adds what a list of log-determinants had, one for each layer: ``torch.stack(logdets).sum(0)``."""
    stacked, outputs = flow.log.calls[made], call.outputs[:1]
    if plain_name(call.function) != "sum" or plain_name(stacked.function) != "stack" or not outputs:
        return False
    is_each_once = len({use.tensor for use in stacked.inputs}) == len(stacked.inputs)
    return is_each_once and shape_of(flow, outputs[0].tensor) == shape_of(flow, stacked.inputs[0].tensor)


def _is_sum_of_positions(flow: Dataflow, tensor: int, row: int, applied: AppliedMap) -> bool:
    """Whether one number for each sample is a sum over all its positions, perhaps with other terms."""
    onward = flow.makers_above(tensor, row, 2 * _MAX_MAKERS, lambda call: _terms(flow, call, applied))
    return any(plain_name(call.function) == "sum" and _counts(flow, call, applied) for _, call in onward)


def _terms(flow: Dataflow, call: Call, applied: AppliedMap) -> tuple[TensorUse, ...]:
    """What a sum is made of, perhaps times a number; nothing where it is divided by the number of positions."""
    name = plain_name(call.function)
    number = number_of(call, *OPERAND, missing=1.0) if name in ("mul", "div") else 1.0
    divisor = number if name == "div" or not number else 1 / number
    is_of_each = divisor >= applied.positions and round(divisor) % applied.positions == 0
    is_sum = name in _ADDS - {"cat", "stack"} or _is_mean_of_samples(flow, call, applied)
    return call.inputs if is_sum and not is_of_each else ()


def _counts(flow: Dataflow, call: Call, applied: AppliedMap) -> bool:
    shape, made = (shape_of(flow, use.tensor) for use in (call.inputs[0], call.outputs[0]))
    each = prod(shape) // applied.samples
    is_of_sample = prod(made) == applied.samples == made[0] if made else shape[:1] == (applied.samples,)
    return is_of_sample and len(shape) > 1 and each >= applied.positions and each % applied.positions == 0
