"""GV693."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import at_line, plain_name, two_lines
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.loss_arguments import calls_in_training, value_maker
from gradviz.graph.call_log import TensorUse


class FrequencyAdded(Rule):
    """The logarithm of how often each item is drawn is added to the scores of a softmax over the batch.

    What it finds
    -------------
    A cross entropy of scores of each sample with the items of all samples, where the right item is that of the same
    row, and the logarithm of a probability of each item is added to its column.

    Why it matters
    --------------
    The items of a batch are drawn as often as they occur, so frequent ones are negatives more often. To take this
    back, the logarithm of the probability is subtracted from the scores (Yi et al., Sampling-Bias-Corrected Neural
    Modeling for Large Corpus Item Recommendations, 2019). Added, it doubles the bias: frequent items get scores that
    are too low.

    Example
    -------
    users, items = torch.nn.Embedding(50, 8), torch.nn.Embedding(20, 8)
    optimizer = torch.optim.Adam([*users.parameters(), *items.parameters()], lr=0.01)
    share = torch.arange(1.0, 21.0) / 210
    for step in range(3):
        user, item = torch.randint(0, 50, (16,)), torch.multinomial(share, 16)
        scores = users(user) @ items(item).T
        scores = scores + share[item].log()
        loss = torch.nn.functional.cross_entropy(scores, torch.arange(16))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    users, items = torch.nn.Embedding(50, 8), torch.nn.Embedding(20, 8)
    optimizer = torch.optim.Adam([*users.parameters(), *items.parameters()], lr=0.01)
    share = torch.arange(1.0, 21.0) / 210
    for step in range(3):
        user, item = torch.randint(0, 50, (16,)), torch.multinomial(share, 16)
        scores = users(user) @ items(item).T
        scores = scores - share[item].log()
        loss = torch.nn.functional.cross_entropy(scores, torch.arange(16))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV693"
    name = "frequency_added"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        for rows in calls_in_training(flow, frozenset({"cross_entropy"})):
            found = [_added(flow, row) for row in rows]
            if len(found) >= _MIN_CALLS and found[-1] is not None and None not in found:
                yield self._finding(flow, rows[-1], *found[-1])

    def _finding(self, flow: Dataflow, row: int, added: int, logarithm: int) -> Finding:
        location, loss = two_lines(flow, added, row)
        _, made = two_lines(flow, added, logarithm)
        return self.finding(
            f"the logarithm of the probability of each item{at_line(made)} is added to the scores of a softmax over "
            "the batch: frequent items, which are negatives more often, get lower scores still",
            symptom="grad_wrong",
            why="the correction for how often an item is drawn is subtracted: exp(score) / probability",
            fix="subtract it: scores - log_probability",
            location=location,
            symptom_location=loss,
        )


_MIN_CALLS = 2
_BOTH = 2
_MAX_FOLLOWED = 8
_KEEPS_ROWS = frozenset({"masked_fill", "where", "contiguous", "float", "to", "clone", "clamp"})
_PICKS = frozenset({"index_select", "embedding", "neg", "detach", "clamp", "clamp_min"})
_LOGARITHMS = frozenset({"log", "log_softmax"})


def _added(flow: Dataflow, row: int) -> tuple[int, int] | None:
    """The call that adds such a term to the scores, and the one that made the logarithm."""
    scores, target = flow.log.calls[row].inputs[:_BOTH]
    labels = value_maker(flow, target.tensor, row, through=frozenset({"to", "long", "cuda"}))
    shape = shape_of(flow, scores.tensor)
    if labels is None or plain_name(labels[1].function) != "arange" or len(shape) != _BOTH or shape[0] != shape[1]:
        return None
    tensor, before = scores.tensor, row
    for _ in range(_MAX_FOLLOWED):
        made = flow.newest_producer(tensor, before)
        call = None if made is None else flow.log.calls[made]
        if made is None or call is None or not call.live_inputs:
            return None
        name, live = plain_name(call.function), call.live_inputs
        if name in ("add", "sub") and len(call.inputs) == _BOTH and len(live) == 1:
            other = next(use for use in call.inputs if use is not live[0])
            found = _log_of_share(flow, other, made) if _is_one_row(flow, other) else None
            if found is not None:
                logarithm, is_negative = found
                is_added = is_negative == (name == "sub" and other is call.inputs[1])
                is_told = is_added and _is_of_shares(flow, other, made, is_negative=is_negative)
                return (made, logarithm) if is_told else None
        elif name not in _KEEPS_ROWS and not (name in ("mul", "div") and len(live) == 1):
            return None
        tensor, before = live[0].tensor, made
    return None


def _is_one_row(flow: Dataflow, use: TensorUse) -> bool:
    """Whether it has one number for each column."""
    shape = shape_of(flow, use.tensor)
    return len(shape) == 1 or (len(shape) == _BOTH and shape[0] == 1 < shape[1])


def _log_of_share(flow: Dataflow, use: TensorUse, row: int) -> tuple[int, bool] | None:
    """The call that made the logarithm of a probability, and whether its sign was turned."""
    is_negative, tensor, before = False, use.tensor, row
    for _ in range(_MAX_FOLLOWED):
        found = value_maker(flow, tensor, before)
        if found is None or not found[1].inputs:
            return None
        before, call = found
        name = plain_name(call.function)
        if name in _LOGARITHMS:
            return before, is_negative
        if name not in _PICKS:
            return None
        is_negative ^= name == "neg"
        # embedding(indexes, table) takes its values from the second.
        tensor = call.inputs[-1 if name == "embedding" else 0].tensor
    return None


def _is_of_shares(flow: Dataflow, use: TensorUse, row: int, *, is_negative: bool) -> bool:
    """Whether all values may be logarithms of probabilities, or these with the other sign."""
    values = flow.values_of(use, row)
    if values is None or values.minimum is None or values.maximum is None:
        return False
    return values.minimum >= 0 if is_negative else values.maximum <= 0
