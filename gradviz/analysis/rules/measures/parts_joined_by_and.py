"""GV968."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import call_words, calls_named, location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.layer_calls import take_parameters
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.graph.call_log import Call


class PartsJoinedByAnd(Rule):
    """The rest of a data set is taken as ``~(train & validation)``, which is all of it.

    What it finds
    -------------
    Two masks that both select something and have nothing in common are joined with ``&``, what comes out is inverted,
    and all three masks select from the same data. No element is in both parts, so the inverse selects every
    element. Masks that share an element, the inverse of a mask that is not used for the same data, and masks
    of what no model reads or returns are left alone.

    Why it matters
    --------------
    What is meant to be held out has the samples of the training in it, and those by which the best model was chosen:
    the number that is reported is too good.

    Example
    -------
    x = torch.randn(60, 4)
    y = x[:, 0] + 0.1 * torch.randn(60)
    train, validation = torch.arange(60) < 20, torch.arange(60) >= 50
    test = ~(train & validation)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in range(5):
        loss = (model(x[train]).flatten() - y[train]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        for part in (validation, test):
            print((model(x[part]).flatten() - y[part]).square().mean())

    Instead
    -------
    x = torch.randn(60, 4)
    y = x[:, 0] + 0.1 * torch.randn(60)
    train, validation = torch.arange(60) < 20, torch.arange(60) >= 50
    test = ~(train | validation)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in range(5):
        loss = (model(x[train]).flatten() - y[train]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        for part in (validation, test):
            print((model(x[part]).flatten() - y[part]).square().mean())
    """

    code = "GV968"
    name = "parts_joined_by_and"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        for row, call in calls_named(flow, _INVERSES):
            joined = flow.makers(call.inputs[0].tensor, row, 1) if call.inputs else ()
            for made, above in joined:
                is_rest = _share_nothing(flow, above, made) and _select_from_the_same(flow, above, call)
                masks = [use.tensor for use in (*above.inputs, *call.outputs)]
                if is_rest and all(_concerns_a_model(flow, each) for each in masks):
                    yield self._finding(flow, made, above)

    def _finding(self, flow: Dataflow, row: int, joined: Call) -> Finding:
        values = flow.values_of(joined.outputs[0], row)
        return self.finding(
            f"{call_words(joined)} joins two masks that have nothing in common, so its inverse selects everything",
            symptom="none",
            why="what is taken as the rest has the samples of both parts in it, too",
            fix="join the masks with or before they are inverted: ~(train | validation)",
            location=location_of_call(flow, row),
            tensors=(),
            evidence={} if values is None else {"elements": values.count},
        )


_INVERSES = frozenset({"invert", "bitwise_not", "logical_not"})
_ANDS = frozenset({"and", "rand", "iand", "bitwise_and", "logical_and", "mul"})
_SELECTIONS = frozenset({"getitem", "masked_select"})
_BOTH = 2


def _share_nothing(flow: Dataflow, call: Call, row: int) -> bool:
    """Whether a call joins two masks with ``&``, each of which selects something, and nothing is selected by both."""
    if plain_name(call.function) not in _ANDS or len(call.inputs) != _BOTH or not call.outputs:
        return False
    if any(flow.log.tensors[use.tensor].facts.dtype != "bool" for use in (*call.inputs, *call.outputs)):
        return False
    out, *parts = (flow.values_of(use, row) for use in (call.outputs[0], *call.inputs))
    return out is not None and out.maximum == 0 and all(each is not None and each.maximum == 1 for each in parts)


def _select_from_the_same(flow: Dataflow, joined: Call, inverse: Call) -> bool:
    """Whether the inverse and both masks select from the same tensor, or from tensors that the same line indexes."""
    rest = _selected(flow, inverse.outputs[0].tensor) if inverse.outputs else set[object]()
    return all(not rest.isdisjoint(_selected(flow, use.tensor)) for use in joined.inputs)


def _concerns_a_model(flow: Dataflow, mask: int) -> bool:
    """Whether something that a mask selects comes from parameters, or goes into a computation with them: masks of
    missing values choose what is written, or shown."""
    rows = [row for row in flow.users(mask) if plain_name(flow.log.calls[row].function) in _SELECTIONS]
    around = (
        each
        for row in rows
        for use in flow.log.calls[row].outputs
        for each in (*flow.descendants(use.tensor, row), *flow.ancestors(use.tensor, row + 1))
    )
    return take_parameters(flow, around)


def _selected(flow: Dataflow, mask: int) -> set[object]:
    """The tensors from which a mask selects, and the lines where it does."""
    calls = ((row, flow.log.calls[row]) for row in flow.users(mask))
    taken = ((row, call) for row, call in calls if plain_name(call.function) in _SELECTIONS)
    return {
        place
        for row, call in taken
        for place in (call.inputs[0].tensor, location_of_call(flow, row))
        if place is not None
    }
