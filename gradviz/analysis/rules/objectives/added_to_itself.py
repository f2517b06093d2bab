"""GV662."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.tensor_words import tensor_words
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.signed_terms import OPERAND, number_of
from gradviz.graph.traversal import scopes_around


class AddedToItself(Rule):
    """A module adds a tensor to itself, where its input should have been added.

    What it finds
    -------------
    ``x + x`` of one tensor of a batch in the forward of a trained module, where ``x`` is a name that got a new value on
    the way: the input of the module, which a residual connection adds, is nowhere any more. One of both may be behind a
    dropout, or multiplied with ``alpha``.

    Why it matters
    --------------
    The sum is twice the result, and there is no way around the layers: the residual connection does not exist. Deep
    networks then train slowly or not at all.

    Example
    -------
    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)

        def forward(self, x):
            x = torch.relu(self.first(x))
            x = self.second(x)
            return x + x

    model = torch.nn.Sequential(Block(), Block())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        optimizer.zero_grad()
        model(torch.randn(8, 4)).square().mean().backward()
        optimizer.step()

    Instead
    -------
    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)

        def forward(self, x):
            h = torch.relu(self.first(x))
            h = self.second(h)
            return x + h

    model = torch.nn.Sequential(Block(), Block())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        optimizer.zero_grad()
        model(torch.randn(8, 4)).square().mean().backward()
        optimizer.step()
    """

    code = "GV662"
    name = "added_to_itself"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow, told = case.dataflow, set[int | None]()
        for row, call in enumerate(flow.log.calls):
            if call.call_site in told or call.scope is None or not _is_sum_of_one(flow, row):
                continue
            tensor = call.inputs[0].tensor
            is_own = call.call_site is not None and not flow.log.call_sites[call.call_site].is_library
            if (
                is_own
                and len(shape_of(flow, tensor)) >= _BATCH
                and flow.is_by_program(call)
                and flow.has_step_after(row)
            ):
                told.add(call.call_site)
                words = tensor_words(flow, tensor)
                yield self.finding(
                    f"{words} is added to itself: the sum is twice the same, and the input of the module is not in it",
                    symptom="grad_wrong",
                    why="a name that got a new value on the way does not stand for the input any more, so this is no "
                    "residual connection",
                    fix="give the results on the way another name, and add the input to the last one: x + h",
                    location=location_of_call(flow, row),
                )


_BATCH = 2
_MOST_CALLS = 4
_KEEPS = frozenset({"clone", "contiguous", "dropout", "alpha_dropout", "feature_dropout"})


def _is_sum_of_one(flow: Dataflow, row: int) -> bool:
    """Whether a call adds a tensor that has a history to itself: also times a number, or behind a dropout."""
    call = flow.log.calls[row]
    if plain_name(call.function) != "add" or len(call.inputs) != _BATCH:
        return False
    if not all(use.has_grad_fn for use in call.inputs) or number_of(call, "alpha", missing=1.0) <= 0:
        return False
    if call.inputs[0].tensor == call.inputs[1].tensor and "alpha" not in call.scalars:
        return True
    one, other = (_source(flow, use.tensor, row) for use in call.inputs)
    return one == other and _is_made_in(flow, one, row)


def _source(flow: Dataflow, tensor: int, before: int) -> int:
    """A tensor before a number was added that is 0, or it went through a dropout."""
    for row, call in flow.makers(tensor, before, _MOST_CALLS):
        name = plain_name(call.function)
        is_nothing = name == "add" and len(call.inputs) == 1 and number_of(call, *OPERAND, missing=1.0) == 0
        if not is_nothing and not (name in _KEEPS and len(call.inputs) == 1 and row < before):
            break
        tensor = call.inputs[0].tensor
    return tensor


def _is_made_in(flow: Dataflow, tensor: int, row: int) -> bool:
    """Whether the module in which a call runs, or one in it, has computed a tensor: it is not what the module got."""
    made, scopes = flow.newest_producer(tensor, row), flow.log.scopes
    around = flow.log.calls[row].scope
    return made is not None and around is not None and around in scopes_around(scopes, flow.log.calls[made].scope)
