"""GV773."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from math import prod

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import at_line, call_words, calls_named, plain_name, two_lines
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.graph.call_log import Call, TensorUse


class WeightsAfterMean(Rule):
    """The loss is averaged over the batch before the weights of the samples are multiplied with it.

    What it finds
    -------------
    One number, which a loss function or ``mean()`` made of a batch, times a vector with a weight for each sample of
    that batch; the products are then averaged. The weights differ, and no gradient trains them.

    Why it matters
    --------------
    The average of ``w[i] * loss`` is ``loss`` times the average weight: all samples are weighted alike. Importance
    weights, weights of classes or time steps and masks have no effect, and nothing raises.

    Example
    -------
    model = torch.nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        x, y, weight = torch.randn(16, 4), torch.randint(3, (16,)), torch.rand(16)
        loss = (weight * torch.nn.functional.cross_entropy(model(x), y)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    model = torch.nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        x, y, weight = torch.randn(16, 4), torch.randint(3, (16,)), torch.rand(16)
        loss = (weight * torch.nn.functional.cross_entropy(model(x), y, reduction="none")).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV773"
    name = "weights_after_mean"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        for rows in _products(flow):
            # Weights may all be 1 at first, as those of a replay memory are.
            found = [_weighing(flow, row) for row in rows[-_MOST_CALLS:] if _differ(flow, row)]
            if len(found) >= _MIN_CALLS and found[-1] is not None and None not in found:
                yield self._finding(flow, rows[-1], found[-1])

    def _finding(self, flow: Dataflow, row: int, found: _Weighing) -> Finding:
        location, used = two_lines(flow, found.average, row)
        words = call_words(flow.log.calls[found.average])
        is_own = plain_name(flow.log.calls[found.average].function) in _REDUCTIONS
        return self.finding(
            f"{words} makes one number of the losses of {found.samples:,} samples, and the {found.samples:,} weights"
            f"{at_line(used)} all multiply that number: every sample is weighted alike",
            symptom="grad_wrong",
            why="the mean of weight * loss is the mean weight times the loss, if the loss is one number",
            fix=f"reduce to one loss for each sample only, and take {words} of the weighted losses"
            if is_own
            else 'keep the loss of each sample, and average after the weights: reduction="none"',
            location=location,
            symptom_location=used,
            evidence={"samples": found.samples},
        )


class _Weighing(Struct, frozen=True):
    """A product of a loss with the weights of its samples."""

    average: int
    """The call that made one number of the losses."""
    samples: int


_MIN_CALLS = 2
_MOST_CALLS = 20
_BOTH = 2
_MIN_SAMPLES = 4
_MIN_FIXED = 8
"""Weights that stay the same from step to step may be those of as many other things, if they are few."""
_MAX_MAKERS = 6
_MAX_FOLLOWED = 6
_REDUCTIONS = frozenset({"mean", "sum"})
_LOSSES = frozenset({
    "cross_entropy", "nll_loss", "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy",
    "binary_cross_entropy_with_logits", "kl_div", "gaussian_nll_loss", "poisson_nll_loss", "soft_margin_loss",
    "triplet_margin_loss", "cosine_embedding_loss", "margin_ranking_loss", "hinge_embedding_loss",
})  # fmt: skip
_KEEPS_ONE = frozenset({"mul", "div", "neg", "float", "to", "squeeze", "view", "reshape", "clone", "double"})
_SCALES = frozenset({"mul", "div", "neg"})


def _products(flow: Dataflow) -> Iterator[list[int]]:
    """By line: products of one number with a history and a vector without one."""
    lines: dict[int | None, list[int]] = defaultdict(list)
    for row, call in calls_named(flow, ("mul", "div")):
        if call.kind != "operation":
            continue
        if len(call.inputs) == _BOTH == len(call.live_inputs) + 1 and flow.is_by_program(call):
            lines[call.call_site].append(row)
    yield from lines.values()


def _weighing(flow: Dataflow, row: int) -> _Weighing | None:
    call = flow.log.calls[row]
    loss, weights = call.live_inputs[0], _weights(call)
    samples = prod(shape_of(flow, weights.tensor))
    is_divided_by = plain_name(call.function) == "mul" or call.inputs[0] is loss
    if shape_of(flow, loss.tensor) != () or samples < _MIN_SAMPLES or not is_divided_by:
        return None
    if not _is_of_samples(flow, row, weights, samples) or not flow.has_step_after(row):
        return None
    average = _average_over(flow, loss.tensor, row, samples)
    return _Weighing(average, samples) if average is not None and _is_averaged(flow, row) else None


def _weights(call: Call) -> TensorUse:
    return next(use for use in call.inputs if not use.requires_grad)


def _differ(flow: Dataflow, row: int) -> bool:
    values = flow.values_of(_weights(flow.log.calls[row]), row)
    return values is not None and values.minimum != values.maximum


def _is_of_samples(flow: Dataflow, row: int, weights: TensorUse, samples: int) -> bool:
    """Whether these are weights along one axis, which were made in this step or are many."""
    first = flow.log.tensors[weights.tensor].first_seen
    is_new = first is not None and first > flow.step_before(row)
    return samples in shape_of(flow, weights.tensor) and (is_new or samples >= _MIN_FIXED)


def _average_over(flow: Dataflow, tensor: int, row: int, samples: int) -> int | None:
    """The call that made one number of as many losses."""
    for maker, call in flow.makers(tensor, row, _MAX_MAKERS):
        name = plain_name(call.function)
        if name in _LOSSES or name in _REDUCTIONS:
            shapes = [shape_of(flow, use.tensor) for use in call.inputs]
            return maker if any(shape[:1] == (samples,) for shape in shapes) else None
        if name not in _KEEPS_ONE or call.kind != "operation" or len(call.live_inputs) != 1:
            return None
    return None


def _is_averaged(flow: Dataflow, row: int) -> bool:
    """Whether the products are only scaled further, and then made one number."""
    tensor = flow.log.calls[row].outputs[0].tensor
    for _ in range(_MAX_FOLLOWED):
        users = flow.users(tensor, row)
        live = [user for user in users if _is_live(flow.log.calls[user])]
        if len(live) != 1:
            return False
        row, call = live[0], flow.log.calls[live[0]]
        if plain_name(call.function) in _REDUCTIONS:
            return shape_of(flow, call.outputs[0].tensor) == () and _trains(flow, row)
        is_scaled = plain_name(call.function) in _SCALES and len(call.live_inputs) == 1
        if not is_scaled and not _adds_such_products(flow, row):
            return False
        tensor = call.outputs[0].tensor
    return False


def _adds_such_products(flow: Dataflow, row: int) -> bool:
    """Whether a call adds products of one number each: ``lam * loss_of(a) + (1 - lam) * loss_of(b)``."""
    call = flow.log.calls[row]
    if plain_name(call.function) not in ("add", "sub") or len(call.live_inputs) != _BOTH:
        return False
    made = [flow.newest_producer(use.tensor, row) for use in call.live_inputs]
    makers = [flow.log.calls[each] for each in made if each is not None]
    return len(makers) == _BOTH and all(
        plain_name(maker.function) in _SCALES and any(shape_of(flow, use.tensor) == () for use in maker.live_inputs)
        for maker in makers
    )


def _trains(flow: Dataflow, row: int) -> bool:
    """Whether the loss that a call returns is differentiated or computed with, and not only shown."""
    users = (flow.log.calls[user] for user in flow.users(flow.log.calls[row].outputs[0].tensor, row))
    return any(user.kind == "backward" or _is_live(user) for user in users)


def _is_live(call: Call) -> bool:
    return bool(call.outputs) and call.outputs[0].requires_grad
