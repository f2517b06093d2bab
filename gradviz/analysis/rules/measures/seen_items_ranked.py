"""GV957."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import call_words, calls_named, location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.tensor_words import names_of
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.evaluations.ranked_items import MASKS, are_of_training, are_scored
from gradviz.graph.call_log import Call, TensorUse


class SeenItemsRanked(Rule):
    """Recommended items are scored though the ranking also has the items of the training.

    What it finds
    -------------
    ``topk()`` or ``argsort()`` of the scores of all items, for users of another table, where the best ones are compared
    with held-out items, and nothing has taken the items out that each user had in training: no score was
    overwritten or masked, and no list was filtered. Also the scores of an autoencoder, for items of which it got some.
    Rankings of a few candidates, of the next item after others, and of the training itself are left alone.

    Why it matters
    --------------
    A model that is trained on what a user has chosen scores exactly this highest. The first places go to items that
    cannot be among the held-out ones, so recall and NDCG are far too low, and the better the model has learned, the
    lower they are.

    Example
    -------
    pairs = (torch.rand(30, 40) < 0.2).nonzero()
    order = torch.randperm(len(pairs))
    train, test = pairs[order[60:]], pairs[order[:60]]
    users, items = torch.nn.Embedding(30, 8), torch.nn.Embedding(40, 8)
    optimizer = torch.optim.Adam([*users.parameters(), *items.parameters()], lr=0.05)
    for step in range(5):
        u, i = train.T
        other = torch.randint(40, (len(u),))
        margin = (users(u) * (items(i) - items(other))).sum(1)
        loss = torch.nn.functional.softplus(-margin).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        scores = users.weight @ items.weight.T
        best = scores.topk(5, dim=1).indices
        print((best[test[:, 0]] == test[:, 1:]).any(1).float().mean())

    Instead
    -------
    pairs = (torch.rand(30, 40) < 0.2).nonzero()
    order = torch.randperm(len(pairs))
    train, test = pairs[order[60:]], pairs[order[:60]]
    users, items = torch.nn.Embedding(30, 8), torch.nn.Embedding(40, 8)
    optimizer = torch.optim.Adam([*users.parameters(), *items.parameters()], lr=0.05)
    for step in range(5):
        u, i = train.T
        other = torch.randint(40, (len(u),))
        margin = (users(u) * (items(i) - items(other))).sum(1)
        loss = torch.nn.functional.softplus(-margin).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        scores = users.weight @ items.weight.T
        scores[train[:, 0], train[:, 1]] = float("-inf")
        best = scores.topk(5, dim=1).indices
        print((best[test[:, 0]] == test[:, 1:]).any(1).float().mean())
    """

    code = "GV957"
    name = "seen_items_ranked"
    severity = "warning"
    yields_to = ("copy_changed",)

    def check(self, case: Case) -> Iterator[Finding]:
        flow, told = case.dataflow, set[object]()
        tables = _tables(case) if case.histories.reached_by else frozenset[int]()
        computed = _computed_tables(flow) if case.histories.reached_by else frozenset[_Table]()
        for row, call in calls_named(flow, _RANKS) if case.histories.reached_by else ():
            location = location_of_call(flow, row)
            if location in told or not _ranks_the_best(call):
                continue
            items = (
                _items_of_table(case, row, call, tables)
                or _items_of_computed(case, row, call, computed)
                or _items_of_input(case, row, call)
            )
            if items is not None and are_scored(case, row, call) and not are_of_training(case, row, call):
                told.add(location)
                yield self._finding(flow, row, items)

    def _finding(self, flow: Dataflow, row: int, items: int) -> Finding:
        call = flow.log.calls[row]
        count = shape_of(flow, call.inputs[0].tensor)[-1]
        return self.finding(
            f"{call_words(call)} ranks all {count:,} items, also those that each user had in training",
            symptom="none",
            why="the model scores these highest, and no held-out item is among them: they take the first places",
            fix='overwrite their scores before: scores[train_users, train_items] = float("-inf")',
            location=location_of_call(flow, row),
            tensors=names_of(flow, [items]),
            evidence={"items": count},
        )


_RANKS = frozenset({"topk", "argsort", "sort"})
_LOOK_UP = frozenset({"embedding", "getitem", "index_select"})
_PRODUCTS = frozenset({"matmul", "mm", "linear", "mv", "einsum"})
_BOTH = 2
_MAX_ABOVE = 40
_FEW_ABOVE = 4
_FEW = 2


def _ranks_the_best(call: Call) -> bool:
    flags = call.scalars
    if any(use.requires_grad for use in call.outputs) or not call.inputs:
        return False
    is_ascending = plain_name(call.function) != "topk" and not flags.get("descending", flags.get("2", False))
    return flags.get("largest", True) is True and not is_ascending


def _tables(case: Case) -> frozenset[int]:
    """Trained matrices whose rows were looked up by ids for a loss, or that two of them multiplied as a whole."""
    flow, found = case.dataflow, set[int]()
    for _, call in calls_named(flow, _LOOK_UP | _PRODUCTS):
        if not any(use.requires_grad for use in call.outputs) or len(call.inputs) != _BOTH:
            continue
        own = [use.tensor for use in call.inputs if use.tensor in case.histories.reached]
        if plain_name(call.function) in _LOOK_UP:
            found.update(own)
        else:
            both = [_matrix_behind(flow, use.tensor, flow.log.tensors[use.tensor].producer) for use in call.inputs]
            if all(each in case.histories.reached for each in both):
                found.update(each for each in both if each is not None)
    return frozenset(each for each in found if len(shape_of(flow, each)) == _BOTH)


_Table = tuple[Location | None, tuple[int, ...]]
"""The line that computes a matrix, and its shape."""


def _computed_tables(flow: Dataflow) -> frozenset[_Table]:
    """Matrices that are computed for a loss, which looks some of their rows up by ids: those of a graph network."""
    return frozenset(
        _table(flow, call.inputs[0].tensor, row)
        for row, call in calls_named(flow, ("getitem", "index_select"))
        if len(call.inputs) == _BOTH
        and call.inputs[0].has_grad_fn
        and len(shape_of(flow, call.inputs[0].tensor)) == _BOTH
        and flow.log.tensors[call.inputs[1].tensor].facts.dtype == "int64"
    )


def _table(flow: Dataflow, tensor: int, row: int) -> _Table:
    made = flow.first_producer(tensor, row)
    return None if made is None else location_of_call(flow, made), shape_of(flow, tensor)


def _items_of_computed(case: Case, row: int, call: Call, tables: frozenset[_Table]) -> int | None:
    """The matrix of items, if scores are its products with rows of another one, and nothing masks them."""
    flow = case.dataflow
    count = shape_of(flow, call.inputs[0].tensor)[-1:]
    for made, above in flow.makers(call.inputs[0].tensor, row, _FEW_ABOVE) if len(tables) >= _FEW else ():
        if _hides(case, made, above):
            return None
        if plain_name(above.function) not in _PRODUCTS or len(above.inputs) != _BOTH:
            continue
        behind = [_matrix_behind(flow, use.tensor, flow.first_producer(use.tensor, made)) for use in above.inputs]
        known = [each for each in behind if each is not None and _table(flow, each, made) in tables]
        items = [each for each in known if shape_of(flow, each)[:1] == count]
        return items[0] if len(items) == 1 and any(shape[:1] != count for _, shape in tables) else None
    return None


def _matrix_behind(flow: Dataflow, tensor: int, made: int | None) -> int | None:
    """The tensor that is transposed, or the tensor itself."""
    call = None if made is None else flow.log.calls[made]
    if (
        call is not None
        and plain_name(call.function) in ("T", "t", "transpose", "detach", "mT", "data")
        and call.inputs
    ):
        return call.inputs[0].tensor
    return tensor


def _items_of_table(case: Case, row: int, call: Call, tables: frozenset[int]) -> int | None:
    """The table of items, if scores of all its rows are ranked, for rows of another table, and nothing masks them."""
    flow = case.dataflow
    count = shape_of(flow, call.inputs[0].tensor)[-1:]
    if len(tables) < _FEW or not count:
        return None
    whole, looked_up = set[int](), set[int]()
    for made, above in flow.makers_above(call.inputs[0].tensor, row, _MAX_ABOVE, _onward):
        if above.kind != "operation":
            continue
        name = plain_name(above.function)
        own = {use.tensor for use in above.inputs} & tables
        if _hides(case, made, above):
            return None
        if name in ("embedding", "index_select", "getitem"):
            ids = [use for use in above.inputs if use.tensor not in own]
            is_all = bool(ids) and shape_of(flow, ids[0].tensor) == count and (count[0],) != (1,)
            for each in own:
                (whole if is_all and shape_of(flow, each)[:1] == count else looked_up).add(each)
        else:
            whole |= {each for each in own if shape_of(flow, each)[:1] == count}
            looked_up |= {each for each in own if shape_of(flow, each)[:1] != count}
    if not whole or whole & looked_up or all(shape_of(flow, each)[:1] == count for each in looked_up):
        return None
    return max(whole, key=lambda each: shape_of(flow, each)[1])  # A bias for each item may be a table, too.


def _onward(call: Call) -> tuple[TensorUse, ...]:
    """What is looked at above a call: not what a step has made of parameters."""
    return call.inputs if call.kind == "operation" else ()


def _hides(case: Case, row: int, call: Call) -> bool:
    """Whether a call may take some scores out of a ranking."""
    name = plain_name(call.function)
    return name in MASKS or (name in ("add", "sub", "mul") and _takes_data(case, row, call))


def _takes_data(case: Case, row: int, call: Call) -> bool:
    """Whether a call combines scores with a wide tensor that no parameter is in: a mask, or scores of another kind."""
    flow = case.dataflow
    for use in call.inputs:
        if use.tensor in case.histories.reached or prod(shape_of(flow, use.tensor)) <= 1:
            continue
        above = flow.makers_above(use.tensor, row, _MAX_ABOVE, _onward)
        if not any(each.tensor in case.histories.reached for _, made in above for each in made.inputs):
            return True
    return False


def _items_of_input(case: Case, row: int, call: Call) -> int | None:
    """The weight of the first layer, if the scores are those of a network for a matrix of zeros and ones with one
    column for each score, which it is trained to return."""
    flow, trained = case.dataflow, case.histories.reached
    scores, first, at, masked = call.inputs[0].tensor, None, row, -1
    for made, above in flow.makers(scores, row, _MAX_ABOVE):
        if _hides(case, made, above):
            masked = max(masked, made)
        if plain_name(above.function) == "linear" and above.inputs[1].tensor in trained:
            first, at = above, made
    if first is None or masked > at or shape_of(flow, first.inputs[0].tensor) != shape_of(flow, scores):
        return None
    values = flow.values_of(first.inputs[0], at)
    is_choice = (
        values is not None and values.minimum == 0 and values.maximum == 1 and _FEW * values.zeros > values.count
    )
    weight = first.inputs[1].tensor
    return weight if is_choice and _restores_input(case, weight) else None


def _restores_input(case: Case, weight: int) -> bool:
    """Whether a loss takes the rows that a layer takes, too: the same tensor, or the same rows of the same data."""
    flow = case.dataflow
    for row in flow.users(weight):
        call = flow.log.calls[row]
        if plain_name(call.function) == "linear" and any(use.requires_grad for use in call.outputs):
            given = call.inputs[0].tensor
            alike = {given, *_taken_alike(flow, given, row)}
            end = flow.next_of_kind("backward", row)
            later = (each for tensor in alike for each in flow.users(tensor) if row < each < end)
            return any(flow.log.calls[each].live_inputs for each in later)
    return False


def _taken_alike(flow: Dataflow, tensor: int, row: int) -> set[int]:
    """What other calls take of the same data at the same places, until the next backward."""
    made = next(flow.makers(tensor, row, 1), None)
    if made is None or plain_name(made[1].function) != "getitem":
        return set()
    places, end = [use.tensor for use in made[1].inputs], flow.next_of_kind("backward", row)
    return {
        flow.log.calls[each].outputs[0].tensor
        for each in flow.users(places[0], made[0])
        if each < end
        and [use.tensor for use in flow.log.calls[each].inputs] == places
        and flow.log.calls[each].scalars == made[1].scalars
        and flow.log.calls[each].outputs
    }
