"""Random draws from a distribution that the same loss trains, where no gradient goes back through the draw.

A draw cuts, and that is right in two cases: a score function uses its log-probability, or the values are only data. A
loss that trains the distribution in another way (a divergence, an entropy), and uses the drawn values in what is
trained as well, has lost the part of the gradient that would have gone through them.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from msgspec import Struct

from gradviz.analysis.cuts.cut_paths import alive_above, cut_paths_on
from gradviz.analysis.dataflow.backward_calls import BackwardCalls
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.cuts import Cut
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.normal_draws import has_normal_draw
from gradviz.analysis.dataflow.reached_calls import ReachedCalls
from gradviz.analysis.parameters.parameter_histories import ParameterHistories
from gradviz.graph.call_log import Call

_CONTINUOUS = frozenset({"normal", "_standard_gamma", "_sample_dirichlet"})
"""Draws that torch can also make as a function of the distribution's parameters."""
_OF_DIRICHLET = "_Dirichlet.apply"
"""The custom function with which torch draws for a Dirichlet and for a Beta distribution."""


_ARITHMETIC = frozenset({
    "add", "sub", "mul", "div", "neg", "pow", "square", "exp", "log", "sum", "mean", "squeeze", "unsqueeze", "clamp",
    "minimum", "min", "stack", "cat", "reshape", "view", "flatten", "unflatten", "getitem", "expand",
})  # fmt: skip
"""What leads from a distance to a log-probability, and from there to a loss."""


class DrawWithoutGradient(Struct, frozen=True):
    """Draws from one line."""

    cut: Cut
    """The last of them."""
    backward: int
    parameters: tuple[int, ...]
    """Trained tensors that the distribution was computed from."""


def draws_without_gradient(
    histories: ParameterHistories, backward_calls: BackwardCalls
) -> Iterator[DrawWithoutGradient]:
    """Those before the last backward call of each line."""
    calls = histories.log.calls
    for backward in histories.last_backward_of_each_line:
        reached = backward_calls.reached(backward)
        alive = alive_above(histories.flow, ((use.tensor, backward) for use in calls[backward].roots))
        since = histories.flow.step_before(backward)
        found: dict[int | None, Cut] = {}
        for cut in _continuous_draws(histories, backward, since):
            above = alive_above(histories.flow, ((tensor, cut.call) for tensor in cut.live_inputs))
            if _is_trained_otherwise(histories, cut, above, alive) and not _has_score(histories, cut, reached):
                found[cut.call_site] = cut
        for cut in found.values():
            leaves, _ = histories.live_leaves(_drawn_from(histories, cut), cut.call)
            yield DrawWithoutGradient(cut, backward, tuple(sorted(leaves & histories.learned)))


def flat_draws(histories: ParameterHistories, backward_calls: BackwardCalls) -> Iterator[int]:
    """Draws with gradients on, whose derivative is zero, from what the same loss trains in another way."""
    calls, flow = histories.log.calls, histories.flow
    for backward in histories.last_backward_of_each_line:
        reached = backward_calls.reached(backward)
        for row in sorted(reached.members):
            call = calls[row]
            if plain_name(call.function) != "normal" or not call.live_inputs or not call.outputs:
                continue
            # What is drawn for a score function is only compared with its own mean.
            uses = [calls[user] for user in flow.users(call.outputs[0].tensor, row) if user in reached.members]
            given = {use.tensor for use in call.live_inputs}
            is_score = any(not given.isdisjoint(use.tensor for use in each.inputs) for each in uses)
            leaves, _ = histories.live_leaves(given, row)
            if uses and not is_score and leaves & histories.learned:
                yield row


def _continuous_draws(histories: ParameterHistories, backward: int, since: int) -> Iterator[Cut]:
    """Draws whose values go into the loss."""
    calls = histories.log.calls
    for root in calls[backward].roots:
        for path, cuts in cut_paths_on(histories.flow, root.tensor, backward, lambda cut: cut.call_site, since):
            if path.doubt == 0 and not path.is_steering and path.cut.kind in _WAYS:
                yield from (each for each in cuts if _draws(histories, each))


_WAYS = frozenset({"no_grad", "inference", "custom", "detach", "data"})
"""``detach()`` cuts off what was drawn as a function of the distribution's parameters."""


def _draws(histories: ParameterHistories, cut: Cut) -> bool:
    function = histories.log.calls[cut.call].function
    if cut.kind in ("detach", "data"):
        return bool(_moments_of(histories.flow, cut))
    return function == _OF_DIRICHLET if cut.kind == "custom" else plain_name(function) in _CONTINUOUS


def _drawn_from(histories: ParameterHistories, cut: Cut) -> set[int]:
    """The tensors that were given to the distribution: the draw itself takes views of them, made without gradients."""
    if cut.kind in ("detach", "data"):
        return _moments_of(histories.flow, cut)
    found: set[int] = set()
    for tensor in cut.live_inputs:
        maker = histories.flow.newest_producer(tensor, cut.call)
        is_view = maker is not None and histories.log.calls[maker].grad_mode != "enabled"
        given = histories.log.calls[maker].live_inputs if maker is not None and is_view else ()
        found.update([use.tensor for use in given] or [tensor])
    return found


def _moments_of(flow: Dataflow, cut: Cut) -> set[int]:
    """If what is cut off is ``mean + scale * noise``: the mean and the scale."""
    call, before = flow.log.calls[cut.call], cut.call
    row = flow.newest_producer(call.inputs[0].tensor, before) if call.inputs else None
    total = None if row is None else flow.log.calls[row]
    if row is None or total is None or plain_name(total.function) != "add":
        return set()
    for use in total.live_inputs:
        made = flow.newest_producer(use.tensor, row)
        product = None if made is None else flow.log.calls[made]
        if made is None or product is None or plain_name(product.function) != "mul" or len(product.live_inputs) != 1:
            continue
        if has_normal_draw(flow, (each for each in product.inputs if not each.requires_grad), made):
            others = {each.tensor for each in total.live_inputs if each is not use}
            return others | {product.live_inputs[0].tensor}
    return set()


def _is_trained_otherwise(
    histories: ParameterHistories, cut: Cut, above: frozenset[int], alive: frozenset[int]
) -> bool:
    """Whether the loss reaches the distribution, and everything that trains it, in another way."""
    trained = above & histories.learned
    if cut.kind in ("detach", "data") and not alive.isdisjoint(cut.live_inputs):
        return False  # The loss uses what was drawn with its gradient, too: this is a probe.
    return bool(trained) and trained <= alive and not _drawn_from(histories, cut).isdisjoint(alive)


def _has_score(histories: ParameterHistories, cut: Cut, reached: ReachedCalls) -> bool:
    """Whether the loss weighs the log-probability of the drawn values with what they brought, such as a reward."""
    calls = histories.log.calls
    drawn = set(cut.dead_outputs)
    for row in histories.flow.descendants(cut.dead_outputs[0], cut.call):
        if any(use.tensor in drawn for use in calls[row].inputs):
            drawn.update(use.tensor for use in calls[row].outputs if not use.requires_grad)
    distances = [row for row in reached.rows if _is_distance(calls[row], drawn)]
    return any(_is_weighed(histories, row, reached) for row in distances)


def _is_distance(call: Call, drawn: set[int]) -> bool:
    """Whether a call subtracts drawn values and something trained: a log-probability begins so."""
    is_drawn = any(use.tensor in drawn for use in call.inputs)
    return is_drawn and plain_name(call.function) == "sub" and any(use.requires_grad for use in call.inputs)


def _is_weighed(histories: ParameterHistories, start: int, reached: ReachedCalls) -> bool:
    """Whether what a call returns is multiplied by constants: one for each element, or any for a single number."""
    calls, flow = histories.log.calls, histories.flow
    live, waiting = set[int](), [start]
    while waiting:
        row = waiting.pop()
        for use in calls[row].outputs:
            if not use.requires_grad or use.tensor in live:
                continue
            live.add(use.tensor)
            for user in flow.users(use.tensor, row):
                call = calls[user]
                if plain_name(call.function) == "mul" and _is_weight(histories, call, use.tensor):
                    return True
                if user in reached.members and plain_name(call.function) in _ARITHMETIC:
                    waiting.append(user)
    return False


def _is_weight(histories: ParameterHistories, call: Call, tensor: int) -> bool:
    sizes = [prod(shape_of(histories.flow, use.tensor)) for use in call.inputs if not use.requires_grad]
    own = prod(shape_of(histories.flow, tensor))
    return own == 1 or any(size > 1 for size in sizes)
