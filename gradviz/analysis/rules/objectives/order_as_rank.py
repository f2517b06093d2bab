"""GV774."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import at_line, call_words, calls_named, plain_name, two_lines
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.formulas.uses_of_orders import (
    KEEPS_INDEXES,
    masks_what_was_sorted,
    weighs_what_was_sorted,
)
from gradviz.analysis.rules.bases.losses.loss_arguments import tensor_before, value_maker
from gradviz.graph.call_log import Call


class OrderAsRank(Rule):
    """What argsort() returns is used as the rank of each element, though it is the index of the element at each rank.

    What it finds
    -------------
    The result of ``argsort()`` or the indexes of ``sort()`` in a formula that makes weights of ranks, such as ``1 /
    log2(rank + 2)``, ``1 / (k + rank)``, ``exp(-rank)``, where a loss uses the weights and nothing uses the result as
    an index. Also a comparison with a number (``argsort() < k``), or with one for each row, that
    masks what was sorted, as where the hardest negatives are kept, and a lookup in a table of
    weights (``decay[argsort()]``) that multiplies what was sorted, in its old order. An order of random numbers is left
    alone: its ranks are as random as its indexes.

    Why it matters
    --------------
    ``argsort()[i]`` says which element stands at place ``i``, and not at which place element ``i`` stands. Each
    element gets the weight of another one. The loss goes down all the same.

    Example
    -------
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        x, gain = torch.randn(8, 10, 4), torch.rand(8, 10)
        score = model(x).squeeze(-1)
        rank = score.detach().argsort(-1, descending=True)
        loss = ((score - gain) ** 2 / torch.log2(rank + 2.0)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        x, gain = torch.randn(8, 10, 4), torch.rand(8, 10)
        score = model(x).squeeze(-1)
        rank = score.detach().argsort(-1, descending=True).argsort(-1)
        loss = ((score - gain) ** 2 / torch.log2(rank + 2.0)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV774"
    name = "order_as_rank"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        for rows in _orders(flow):
            found = [_use_as_rank(flow, row) for row in rows[-_MOST_CALLS:]]
            if len(found) >= _MIN_CALLS and found[-1] is not None and None not in found:
                yield self._finding(flow, rows[-1], found[-1])

    def _finding(self, flow: Dataflow, row: int, used: int) -> Finding:
        location, where = two_lines(flow, row, used)
        words = call_words(flow.log.calls[row])
        return self.finding(
            f"{'the index that sort() returns' if words == 'sort()' else words} names the element at each place, and "
            f"{call_words(flow.log.calls[used])}{at_line(where)} takes it for the place of each element",
            symptom="grad_wrong",
            why="the weight of a rank then goes to another element than the one that has this rank",
            fix="sort the order once more to get the rank of each element: x.argsort(dim).argsort(dim)",
            location=location,
            symptom_location=where,
        )


_MIN_CALLS = 2
_MOST_CALLS = 8
_MAX_FOLLOWED = 40
_MAX_REACHED = 60
_BOTH = 2
_SORTS = frozenset({"argsort", "sort"})
_SHIFTS = frozenset({"add", "mul", "sub", "neg", "div"})
_CURVES = frozenset({
    "log", "log2", "log10", "log1p", "exp", "exp2", "reciprocal", "rsqrt", "sqrt", "softmax", "log_softmax", "sigmoid",
})  # fmt: skip
"""Functions of a rank, which make no sense of an index."""
_COMPARES = frozenset({"lt", "le", "gt", "ge", "less", "greater", "less_equal", "greater_equal"})
_DRAWS = frozenset(
    {"rand", "randn", "rand_like", "randn_like", "uniform", "normal", "randperm", "exponential", "randint"}
)


def _orders(flow: Dataflow) -> Iterator[list[int]]:
    """By line: the calls that sort something that is neither random nor an order itself."""
    lines: dict[int | None, list[int]] = defaultdict(list)
    for row, call in calls_named(flow, _SORTS):
        is_sort = call.kind == "operation" and call.inputs and call.outputs
        if is_sort and flow.is_by_program(call) and flow.has_step_after(row) and not _is_of_draws(flow, row):
            lines[call.call_site].append(row)
    yield from lines.values()


def _is_of_draws(flow: Dataflow, row: int) -> bool:
    tensor = tensor_before(flow, flow.log.calls[row].inputs[0].tensor, row, KEEPS_INDEXES)
    made = flow.newest_producer(tensor, row)
    return made is not None and plain_name(flow.log.calls[made].function) in _DRAWS | _SORTS


class _Value(Struct, frozen=True):
    """Something that holds the indexes of an order, perhaps shifted."""

    tensor: int
    row: int


def _use_as_rank(flow: Dataflow, row: int) -> int | None:
    """The call that takes an order for ranks; None if there is none, or if something uses it as an index."""
    call = flow.log.calls[row]
    waiting, found, count = [_Value(call.outputs[-1].tensor, row)], list[int](), 0
    while waiting and count < _MAX_FOLLOWED:
        value = waiting.pop()
        for user in flow.users(value.tensor, value.row):
            count += 1
            taker = flow.log.calls[user]
            name = plain_name(taker.function)
            if not taker.outputs or taker.kind != "operation":
                return None  # It leaves torch: what it is for is not known.
            if name.endswith("_as") and taker.inputs[0].tensor != value.tensor:
                continue  # It gives its shape only.
            is_below = name == "div" and _is_below(taker, value.tensor)
            if name in KEEPS_INDEXES or (name in _SHIFTS and _is_alone(taker) and not is_below):
                waiting.append(_Value(taker.outputs[0].tensor, user))
            elif is_below or _is_curve(taker, name):
                found += [user] if _reaches_a_loss(flow, user) else []
            elif name in _COMPARES and _is_with_numbers(flow, user, value.tensor):
                found += [user] if masks_what_was_sorted(flow, row, user) else []
            elif name in _LOOKS_UP and weighs_what_was_sorted(flow, row, user, value.tensor):
                found.append(user)
            else:
                return None
    return found[0] if found and not waiting else None


def _is_alone(call: Call) -> bool:
    return len({use.tensor for use in call.inputs}) == 1


def _is_with_numbers(flow: Dataflow, row: int, tensor: int) -> bool:
    """Whether a call compares the indexes with one number, or with one for each row."""
    call = flow.log.calls[row]
    if _is_alone(call):
        return type(call.scalars.get("1")) in (int, float)
    other = next(use.tensor for use in call.inputs if use.tensor != tensor)
    made = value_maker(flow, other, row)
    shape = shape_of(flow, other if made is None else made[1].outputs[0].tensor)
    return not shape or shape[-1] == 1


def _is_curve(call: Call, name: str) -> bool:
    """Whether a call computes a function of ranks alone, that is no straight line."""
    return name in _CURVES or (name == "pow" and _is_alone(call))


def _is_below(call: Call, tensor: int) -> bool:
    """Whether a number, or numbers, are divided by the ranks."""
    is_second = len(call.inputs) == _BOTH and call.inputs[1].tensor == tensor
    return is_second or (len(call.inputs) == 1 and call.function.endswith(("rtruediv__", "rdiv__")))


def _reaches_a_loss(flow: Dataflow, row: int) -> bool:
    """Whether the result of a call is combined with something that has a history, before the next step."""
    reached = {use.tensor for use in flow.log.calls[row].outputs}
    waiting = [(use.tensor, row) for use in flow.log.calls[row].outputs]
    while waiting and len(reached) < _MAX_REACHED:
        tensor, after = waiting.pop()
        for user in flow.users(tensor, after):
            call = flow.log.calls[user]
            if call.kind != "operation" or flow.step_before(user) > row:
                continue
            if any(use.requires_grad for use in call.outputs):
                return True
            new = [use.tensor for use in call.outputs if use.tensor not in reached]
            reached.update(new)
            waiting += [(each, user) for each in new]
    return False


_LOOKS_UP = frozenset({"getitem", "index_select", "gather", "take", "take_along_dim", "embedding"})
