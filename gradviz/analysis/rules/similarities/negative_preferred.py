"""GV649."""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.factors import name_before
from gradviz.analysis.rules.bases.losses.loss_arguments import SHAPE_ONLY, value_maker
from gradviz.analysis.rules.bases.losses.objectives import has_maximizing_optimizer, objectives
from gradviz.analysis.rules.bases.losses.signed_terms import is_number_first, number_of
from gradviz.analysis.rules.bases.sources.names.names_of_sides import assigned_name, role_of, written_names
from gradviz.graph.call_log import Call, TensorUse


class NegativePreferred(Rule):
    """A ranking loss prefers what its names call negative.

    What it finds
    -------------
    A loss with ``logsigmoid()``, ``softplus()`` or ``relu()`` of the difference of two scores, or two distances, of
    which variables or arguments call one positive and the other negative, and whose sign makes the score of the
    negative larger and that of the positive smaller; for distances the other way around.

    Why it matters
    --------------
    The loss falls and looks like training, and the model ranks what it should rank last first.

    Example
    -------
    users, items = torch.nn.Embedding(20, 8), torch.nn.Embedding(30, 8)
    optimizer = torch.optim.SGD([*users.parameters(), *items.parameters()], lr=0.1)
    for step in range(3):
        user, liked, other = (torch.randint(0, 20, (16,)) for _ in range(3))
        pos = (users(user) * items(liked)).sum(1)
        neg = (users(user) * items(other)).sum(1)
        loss = -torch.nn.functional.logsigmoid(neg - pos).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    users, items = torch.nn.Embedding(20, 8), torch.nn.Embedding(30, 8)
    optimizer = torch.optim.SGD([*users.parameters(), *items.parameters()], lr=0.1)
    for step in range(3):
        user, liked, other = (torch.randint(0, 20, (16,)) for _ in range(3))
        pos = (users(user) * items(liked)).sum(1)
        neg = (users(user) * items(other)).sum(1)
        loss = -torch.nn.functional.logsigmoid(pos - neg).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV649"
    name = "negative_preferred"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow, told = case.dataflow, set[int | None]()
        if has_maximizing_optimizer(flow):
            return
        # Variables are named at some steps only.
        signs = {
            (flow.log.calls[term.row].call_site, flow.log.calls[term.row].function): term.sign
            for objective in objectives(case)
            for term in objective.terms
            if term.is_sure
        }
        for row, call in enumerate(flow.log.calls):
            sign = signs.get((call.call_site, call.function))
            if sign is None or call.call_site in told or plain_name(call.function) not in _RISE:
                continue
            found = _preferred(case, row, call, sign)
            if found is not None:
                told.add(call.call_site)
                yield self._finding(case, row, *found)

    def _finding(self, case: Case, row: int, positive: str, negative: str, is_distance: bool) -> Finding:
        kind, verb = ("distance", "larger") if is_distance else ("score", "smaller")
        right = f"{negative} - {positive}" if is_distance else f"{positive} - {negative}"
        return self.finding(
            f"this loss makes the {kind} {positive} {verb} and {negative} "
            f"{'smaller' if is_distance else 'larger'}: it prefers what the names call negative",
            symptom="grad_wrong",
            why="a loss is minimized, so the order of the two in the difference decides which of them wins",
            fix=f"exchange the two: -logsigmoid({right}), or relu({_turned(right)} + margin)",
            location=location_of_call(case.dataflow, row),
        )


_RISE = frozenset({"logsigmoid", "log_sigmoid", "softplus", "relu", "clamp", "clamp_min"})
_LOW_IS_GOOD = re.compile("energ|cost|dist|loss", re.IGNORECASE)
_SCORES = frozenset(
    {"dot", "vecdot", "matmul", "bmm", "einsum", "cosine_similarity", "linear", "mm", "addmm", "bilinear"}
)
_DISTANCES = frozenset({"norm", "vector_norm", "cdist", "pairwise_distance", "linalg_norm", "sqrt"})
_SQUARES = frozenset({"pow", "square", "abs"})
_PASSED = SHAPE_ONLY | {"mul", "div", "clamp", "mean", "sum", "diagonal", "max", "min", "amax", "amin"}
_MARGIN = frozenset({"add"})
_MOST_CALLS = 8
_BOTH = 2


def _turned(difference: str) -> str:
    return " - ".join(reversed(difference.split(" - ")))


def _preferred(case: Case, row: int, call: Call, sign: int) -> tuple[str, str, bool] | None:
    """The names of the positive and the negative, and whether they are distances, if a term prefers the negative."""
    flow = case.dataflow
    difference = _difference_in(flow, row, call)
    if difference is None:
        return None
    # A margin may be added to one side.
    names = [name_before(flow, use.tensor, difference.row, _MARGIN, beside_data=False) for use in difference.sides]
    if not all(names) and not any(_is_of_head(flow, use, difference.row) for use in difference.sides):
        names = [
            name or assigned_name(case, use.tensor, difference.row)
            for name, use in zip(names, difference.sides, strict=True)
        ]
        names = names if all(names) else written_names(case, difference.row)
    roles = [role_of(name) for name in names]
    if set(roles) != {"positive", "negative"}:
        return None
    kinds = {_kind(flow, use, difference.row) for use in difference.sides}
    if len(kinds) != 1 or None in kinds:
        return None
    is_distance = kinds == {"distance"}
    if not is_distance and any(_LOW_IS_GOOD.search(name) for name in names):
        return None
    grows_with_first = sign * difference.sign
    grows_with_positive = grows_with_first if roles[0] == "positive" else -grows_with_first
    wrong = grows_with_positive < 0 if is_distance else grows_with_positive > 0
    positive, negative = names if roles[0] == "positive" else reversed(names)
    return (positive, negative, is_distance) if wrong else None


class _Difference(Struct, frozen=True):
    sides: tuple[TensorUse, TensorUse]
    row: int
    """The call that subtracts the second from the first."""
    sign: int
    """1 if what takes the difference grows with the first."""


def _difference_in(flow: Dataflow, row: int, call: Call) -> _Difference | None:
    """The difference that a call takes, perhaps with a margin."""
    sign = 1
    for _ in range(_MOST_CALLS):
        name = plain_name(call.function)
        if len(call.live_inputs) == _BOTH and name == "sub":
            return _Difference((call.inputs[0], call.inputs[1]), row, sign)
        if len(call.live_inputs) != 1 or name not in _RISE | SHAPE_ONLY | {"add", "sub", "mul", "div", "neg"}:
            return None
        is_negative = name in ("mul", "div") and number_of(call, "1", "other", missing=1.0) < 0
        sign *= -1 if is_negative or name == "neg" or (name == "sub" and is_number_first(call)) else 1
        made = flow.newest_producer(call.live_inputs[0].tensor, row)
        if made is None:
            return None
        row, call = made, flow.log.calls[made]
    return None


def _is_of_head(flow: Dataflow, use: TensorUse, row: int) -> bool:
    """Whether a layer made a number: it may be an energy, which is low for what is preferred."""
    made = value_maker(flow, use.tensor, row, through=_PASSED)
    return made is not None and plain_name(made[1].function) in ("linear", "addmm", "bilinear")


def _kind(flow: Dataflow, use: TensorUse, row: int) -> str | None:
    """Whether a number says how near two things are, or how far apart; biases that are added to it say nothing."""
    waiting, kinds, count = [(use.tensor, row, False)], set[str](), 0
    while waiting and count < _MOST_CALLS:
        count += 1
        tensor, before, is_turned = waiting.pop()
        made = flow.newest_producer(tensor, before)
        call = None if made is None else flow.log.calls[made]
        if made is None or call is None or not call.live_inputs:
            continue
        name, live = plain_name(call.function), call.live_inputs
        if name in _SCORES or (name == "mul" and len(live) == _BOTH):
            kinds.add("distance" if is_turned else "score")
        elif name in _DISTANCES | _SQUARES:
            kinds.add("score" if is_turned else "distance")
        elif name == "embedding":
            continue
        elif name == "neg" or (name == "sub" and is_number_first(call)):
            waiting.append((live[0].tensor, made, not is_turned))
        elif name == "add" or (name in _PASSED and len(live) == 1):
            waiting += [(each.tensor, made, is_turned) for each in live]
        else:
            return None
    return kinds.pop() if len(kinds) == 1 else None
