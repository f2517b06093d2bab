"""GV660."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.formulas.signed_sides import signed_sides
from gradviz.analysis.rules.bases.losses.linear_terms import linear_rows
from gradviz.analysis.rules.bases.losses.loss_arguments import value_maker
from gradviz.analysis.rules.bases.losses.signed_terms import OPERAND, is_number_first, number_of
from gradviz.graph.call_log import Call, TensorUse


class MarginWithoutClamp(Rule):
    """The margin of a loss has no effect, because nothing cuts the loss off at zero.

    What it finds
    -------------
    A loss that is linear in ``d_pos - d_neg + margin``, the difference of two distances or scores that the same
    function made, also as ``d_pos - (d_neg - margin)`` or as a sum of one and the negative of the other, where the
    margin may be a tensor that stays; or in ``1 - y * score`` with labels ``y`` of 1 and -1: without ``relu()`` or
    ``clamp(min=0)`` between it and the average.

    Why it matters
    --------------
    A constant that is added to a loss has no gradient. Pairs that are far enough apart are pushed further for ever, and
    they outweigh those that are not: the loss falls below zero without end.

    Example
    -------
    encoder = torch.nn.Linear(6, 3)
    optimizer = torch.optim.SGD(encoder.parameters(), lr=0.01)
    for step in range(3):
        a, p, n = (encoder(torch.randn(8, 6)) for _ in range(3))
        near, far = (a - p).norm(dim=1), (a - n).norm(dim=1)
        loss = (near - far + 0.5).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    encoder = torch.nn.Linear(6, 3)
    optimizer = torch.optim.SGD(encoder.parameters(), lr=0.01)
    for step in range(3):
        a, p, n = (encoder(torch.randn(8, 6)) for _ in range(3))
        near, far = (a - p).norm(dim=1), (a - n).norm(dim=1)
        loss = (near - far + 0.5).relu().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV660"
    name = "margin_without_clamp"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow, told = case.dataflow, set[int | None]()
        for backward in case.histories.last_trained_backward_of_each_line:
            for use in flow.log.calls[backward].roots:
                for row in linear_rows(flow, backward, use.tensor):
                    site = flow.log.calls[row].call_site
                    margin = _margin(flow, row) if site not in told else None
                    if margin is not None:
                        told.add(site)
                        yield self._finding(flow, row, margin)

    def _finding(self, flow: Dataflow, row: int, margin: float) -> Finding:
        return self.finding(
            f"the margin {margin:g} has no effect: nothing between this line and the loss cuts off what is below zero",
            symptom="grad_wrong",
            why="a constant has no gradient; without a cut at zero, pairs that are right already are pushed on for "
            "ever, and the loss has no lower bound",
            fix="cut it off before the average: torch.relu(d_pos - d_neg + margin).mean()",
            location=location_of_call(flow, row),
            evidence={"margin": margin},
        )


_BOTH = 2


def _margin(flow: Dataflow, row: int) -> float | None:
    """The number that a call adds to a difference of two alike results, or from which it takes labels times scores."""
    call = flow.log.calls[row]
    name = plain_name(call.function)
    number, given = _number_and_tensor(flow, row, call) if name in ("add", "sub") else (0.0, None)
    made = value_maker(flow, given.tensor, row) if given is not None else None
    if given is None or not number:
        return None
    if name == "add":
        is_margin = made is not None and (_is_difference(flow, made[0]) or _is_in_difference(flow, row, call))
        is_margin |= made is not None and _is_difference(flow, made[0], of=_DISTANCES | {"linear"})
        is_margin &= number > _ROUNDED
    elif is_number_first(call) or given is not call.inputs[0]:
        is_margin = made is not None and _is_score_by_label(flow, *made)
    else:  # what is right has to be better by it: near - (far - margin)
        is_margin = number > _ROUNDED and _is_taken_away(flow, row, call) and _is_in_difference(flow, row, call)
    return number if is_margin else None


_ROUNDED = 1e-5
"""Less is no margin, but what avoids a zero."""


def _number_and_tensor(flow: Dataflow, row: int, call: Call) -> tuple[float, TensorUse | None]:
    """The number that a call adds or takes away, and the other operand: also a number in a tensor that stays."""
    if len(call.inputs) == 1:
        return number_of(call, *OPERAND, missing=0.0), call.inputs[0]
    kept = [use for use in call.inputs if not use.requires_grad and prod(shape_of(flow, use.tensor)) == 1]
    if len(call.inputs) != _BOTH or len(call.live_inputs) != 1 or len(kept) != 1:
        return 0.0, None
    made = flow.newest_producer(kept[0].tensor, row)
    is_kept = made is None or made < flow.step_before(row) or flow.log.tensors[kept[0].tensor].role == "buffer"
    values = flow.values_of(kept[0], row)
    number = values.minimum if is_kept and values is not None and "alpha" not in call.scalars else None
    return number or 0.0, call.live_inputs[0]


def _is_taken_away(flow: Dataflow, row: int, call: Call) -> bool:
    """Whether something subtracts the result of a call."""
    result = call.outputs[0].tensor
    users = (flow.log.calls[user] for user in flow.users(result, row))
    return any(
        plain_name(user.function) == "sub" and len(user.inputs) == _BOTH and user.inputs[1].tensor == result
        for user in users
    )


def _is_in_difference(flow: Dataflow, row: int, call: Call) -> bool:
    """Whether what a call made, such as ``margin + d_pos``, is then only subtracted from, or subtracts, another one."""
    users = flow.users(call.outputs[0].tensor, row) if call.outputs else ()
    return len(users) == 1 and _is_difference(flow, users[0])


def _is_difference(flow: Dataflow, row: int, of: frozenset[str] | None = None) -> bool:
    """Whether a call takes one result of a function away from another one of the same function, both with a gradient.

    A margin in a tensor that stays may be added to either.
    """
    sides = [(flow.log.calls[made].outputs[:1], sign, made) for made, sign in signed_sides(flow, row)]
    live = [(use, sign, made) for outputs, sign, made in sides for use in outputs if use.requires_grad]
    names = {plain_name(flow.log.calls[made].function) for *_, made in live}
    if sorted(sign for _, sign, _ in live) != [-1, 1] or len(names) != 1 or not names <= (of or _DISTANCES):
        return False
    return "linear" not in names or all(shape_of(flow, use.tensor)[-1:] == (1,) for use, *_ in live)


_DISTANCES = frozenset({
    "pairwise_distance", "cosine_similarity", "norm", "vector_norm", "sqrt", "sum", "mean", "cdist", "mse_loss",
    "diagonal", "max", "min", "amax", "amin", "vecdot", "dot", "einsum", "bilinear", "logsumexp", "bmm", "baddbmm",
})  # fmt: skip


def _is_score_by_label(flow: Dataflow, row: int, call: Call) -> bool:
    """Whether a call multiplies a result by labels of 1 and -1."""
    if plain_name(call.function) != "mul" or len(call.inputs) != _BOTH or len(call.live_inputs) != 1:
        return False
    label = next(use for use in call.inputs if not use.requires_grad)
    values = flow.values_of(label, row)
    return values is not None and (values.minimum, values.maximum, values.zeros) == (-1, 1, 0)
