"""GV984."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import calls_named, plain_name, two_lines
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.evaluations.network_outputs import SAME_VALUES
from gradviz.analysis.rules.bases.sources.arrays.ranked_classes import ranked_classes
from gradviz.analysis.rules.bases.sources.own_files import own_files
from gradviz.graph.call_log import Call


class RankedByClasses(Rule):
    """A ranking, as for the area under a ROC curve, is computed from predicted classes instead of from scores.

    What it finds
    -------------
    Outputs of a network that were made 0 and 1, by a comparison with a number, by rounding or as the larger of two, and
    that are then ranked: each of the positive samples is compared with each of the negative ones, or labels are brought
    into the order of the predictions and counted from the first one on, or the ranks of positive samples are added up.
    Also such classes as what a function that ranks, ``roc_auc_score()`` or one of the program, gets for its scores.

    Why it matters
    --------------
    The area under a ROC curve and the average precision are about the order of all samples. Of 0 and 1 nearly all
    samples are tied, so one point of the curve is measured, at one threshold: the result is too low, or depends on the
    order of the file, and what is chosen by it is chosen by accuracy. Fawcett, An introduction to ROC analysis (2006).

    Example
    -------
    x = torch.randn(40, 4)
    y = (x.sum(1) > 0).float()
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        loss = torch.nn.functional.binary_cross_entropy_with_logits(model(x).squeeze(1), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        scores = (torch.sigmoid(model(x).squeeze(1)) > 0.5).float()
    difference = scores[y == 1][:, None] - scores[y == 0][None, :]
    area = ((difference > 0).float() + 0.5 * (difference == 0).float()).mean()

    Instead
    -------
    x = torch.randn(40, 4)
    y = (x.sum(1) > 0).float()
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        loss = torch.nn.functional.binary_cross_entropy_with_logits(model(x).squeeze(1), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        scores = torch.sigmoid(model(x).squeeze(1))
    difference = scores[y == 1][:, None] - scores[y == 0][None, :]
    area = ((difference > 0).float() + 0.5 * (difference == 0).float()).mean()
    """

    code = "GV984"
    name = "ranked_by_classes"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow, told = case.dataflow, set[int | None]()
        if not case.histories.reached_by:
            return
        for row, cut in sorted([*_compared_in_pairs(flow), *_sorted(flow)]):
            site = flow.log.calls[cut].call_site
            if site not in told:
                told.add(site)
                yield self._finding(*two_lines(flow, cut, row))
        if told:
            return
        for file, tree in own_files(case):
            for found in ranked_classes(tree):
                ranked = Location(file, found.ranked) if found.ranked != found.cut else None
                yield self._finding(Location(file, found.cut), ranked)

    def _finding(self, location: Location | None, ranked: Location | None) -> Finding:
        return self.finding(
            "the samples are ranked by predicted classes, which are only 0 or 1: nearly all of them are tied",
            symptom="none",
            why="an area under a curve or an average precision is about the order of the scores; of classes, it "
            "measures a single threshold",
            fix="rank by the scores themselves, the probabilities or logits; compare with a threshold only for the "
            "accuracy",
            location=location,
            symptom_location=ranked,
        )


_BOTH = 2
_MAX_CALLS = 12
_CUTS = frozenset({"gt", "ge", "lt", "le"})
_PROBABILITIES = frozenset({"sigmoid", "softmax"})
_KEEP = SAME_VALUES | {"int", "long", "bool", "flip", "neg", "masked_select", "index_select"}
"""Calls after which two values are still two values."""


def _cut_behind(flow: Dataflow, tensor: int, row: int) -> tuple[int, tuple[int, ...]] | None:
    """The call that made 0 and 1 of outputs of a network, if a tensor has its values; and the masks that chose some."""
    masks: list[int] = []
    for made, call in flow.makers(tensor, row, _MAX_CALLS):
        if not call.inputs or any(use.requires_grad for use in call.outputs):
            return None
        if _is_cut(flow, call, made):
            return (made, tuple(masks)) if _is_of_network(flow, call, made) else None
        name = plain_name(call.function)
        if name not in _KEEP:
            return None
        if name in ("getitem", "masked_select", "index_select") and len(call.inputs) == _BOTH:
            masks.append(call.inputs[1].tensor)
    return None


def _is_cut(flow: Dataflow, call: Call, row: int) -> bool:
    name = plain_name(call.function)
    if len(call.inputs) != 1:
        return False
    if name == "round":
        made = next(flow.makers(call.inputs[0].tensor, row, 1), None)
        return not call.scalars and made is not None and plain_name(made[1].function) in _PROBABILITIES
    if name == "argmax":
        shape = shape_of(flow, call.inputs[0].tensor)
        return shape[-1:] == (_BOTH,) and shape_of(flow, call.outputs[0].tensor) == shape[:-1]
    return name in _CUTS


def _is_of_network(flow: Dataflow, call: Call, row: int) -> bool:
    """Whether a layer with parameters computed what was compared, perhaps with a sigmoid behind it."""
    for _, made in flow.makers(call.inputs[0].tensor, row, _MAX_CALLS):
        if any(flow.log.tensors[use.tensor].role == "parameter" for use in made.inputs):
            return True
    return False


def _compared_in_pairs(flow: Dataflow) -> Iterator[tuple[int, int]]:
    """Calls that compare each of some samples with each of some others by predicted classes, with what made these."""
    for row, call in calls_named(flow, _CUTS | {"sub"}):
        if len(call.inputs) != _BOTH or len(call.outputs) != 1 or call.outputs[0].requires_grad:
            continue
        counts = [prod(shape_of(flow, use.tensor)) for use in call.inputs]
        if min(counts) < _BOTH or prod(shape_of(flow, call.outputs[0].tensor)) != prod(counts):
            continue
        one, other = (_cut_behind(flow, use.tensor, row) for use in call.inputs)
        if one is None or other is None or one[0] != other[0] or not one[1] or not other[1] or one[1] == other[1]:
            continue
        users = {plain_name(flow.log.calls[user].function) for user in flow.users(call.outputs[0].tensor, row)}
        if plain_name(call.function) != "sub" or users & _SIGNS:
            yield row, one[0]


_SIGNS = _CUTS | {"sign", "sgn", "heaviside"}


def _sorted(flow: Dataflow) -> Iterator[tuple[int, int]]:
    """Calls that sort predicted classes for a curve or for ranks, with what made these."""
    for row, call in calls_named(flow, ("sort", "argsort")):
        found = _cut_behind(flow, call.inputs[0].tensor, row) if call.inputs else None
        if found is not None and call.outputs:
            order = call.outputs[-1].tensor
            if _counts_in_order(flow, order, row) or _adds_ranks(flow, order, row):
                yield row, found[0]


def _counts_in_order(flow: Dataflow, order: int, row: int) -> bool:
    """Whether something in this order is summed up from the first sample on, and divided: rates, or precisions."""
    for user in flow.users(order, row):
        call = flow.log.calls[user]
        is_index = plain_name(call.function) in _TAKE and len(call.inputs) == _BOTH and call.inputs[1].tensor == order
        for use in call.outputs if is_index else ():
            for each, _ in _results(flow, use.tensor, user, _PREPARE | {"cumsum"}):
                if plain_name(flow.log.calls[each].function) == "cumsum" and _is_divided(flow, each):
                    return True
    return False


def _is_divided(flow: Dataflow, row: int) -> bool:
    counted = flow.log.calls[row].outputs[0].tensor
    # The last sum alone is that of all samples, in whatever order.
    return any(
        plain_name(flow.log.calls[each].function) == "div" and prod(shape_of(flow, given)) > 1
        for each, given in _results(flow, counted, row, _PREPARE | {"div"})
    )


def _adds_ranks(flow: Dataflow, order: int, row: int) -> bool:
    """Whether the ranks that an order gives, those of some samples, are added up."""
    for user in flow.users(order, row):
        call, ranks = flow.log.calls[user], None
        name = plain_name(call.function)
        if name == "argsort":
            ranks = call.outputs[0].tensor
        elif name in ("setitem", "scatter", "index_put", "index_copy") and call.inputs[0].tensor != order:
            ranks = call.inputs[0].tensor if call.changed else call.outputs[0].tensor
        for each, given in _results(flow, ranks, user, _PREPARE | {"sum"}) if ranks is not None else ():
            is_sum = plain_name(flow.log.calls[each].function) == "sum"
            if is_sum and _is_of_some(flow, given, each):
                return True
    return False


def _is_of_some(flow: Dataflow, tensor: int, row: int) -> bool:
    """Whether a tensor was chosen by a mask, or multiplied with labels."""
    made = next(flow.makers(tensor, row, 1), None)
    name = "" if made is None else plain_name(made[1].function)
    return made is not None and name in ("getitem", "masked_select", "mul") and len(made[1].inputs) == _BOTH


def _results(flow: Dataflow, tensor: int, row: int, through: frozenset[str]) -> Iterator[tuple[int, int]]:
    """What takes a tensor as its first input, directly or behind such calls; each with the tensor that it takes."""
    waiting, seen = [(tensor, row)], set[int]()
    while waiting and len(seen) < _MAX_RESULTS:
        given, after = waiting.pop()
        for user in flow.users(given, after):
            call = flow.log.calls[user]
            if user in seen or plain_name(call.function) not in through or call.inputs[0].tensor != given:
                continue
            seen.add(user)
            yield user, given
            waiting += [(use.tensor, user) for use in call.outputs]


_TAKE = frozenset({"getitem", "index_select", "gather", "take_along_dim", "take"})
_PREPARE = SAME_VALUES | {
    "eq", "ne", "rsub", "sub", "add", "logical_not", "invert", "bitwise_not", "mul", "masked_select",
}  # fmt: skip
_MAX_RESULTS = 60
