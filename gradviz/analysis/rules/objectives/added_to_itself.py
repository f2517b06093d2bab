"""GV662."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.axes import axis_of
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.tensor_words import tensor_words
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.signed_terms import OPERAND, number_of
from gradviz.graph.call_log import Call
from gradviz.graph.traversal import scopes_around


class AddedToItself(Rule):
    """A module adds a tensor to itself, where its input should have been added.

    What it finds
    -------------
    ``x + x`` of one tensor of a batch in the forward of a trained module, where ``x`` is a name that got a new value on
    the way: the input of the module, which a residual connection adds, is nowhere any more. Also ``sum([x, x])``,
    ``stack([x, x]).sum(0)`` and ``torch._foreach_add(xs, xs)``. One of both may be behind a dropout, or multiplied with
    ``alpha``.

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
        flow = case.dataflow
        lines: dict[int, list[int]] = defaultdict(list)
        for row, call in enumerate(flow.log.calls):
            if call.call_site is not None and call.scope is not None and _may_add(call) and flow.has_step_after(row):
                lines[call.call_site].append(row)
        for site, rows in lines.items():
            found = [] if flow.log.call_sites[site].is_library else [_added_to_itself(flow, row) for row in rows]
            # A line that adds other tensors as well, in the rounds of a loop, adds what it should.
            if found and found[0] is not None and None not in found:
                yield self._finding(flow, rows[0], found[0])

    def _finding(self, flow: Dataflow, row: int, tensor: int) -> Finding:
        return self.finding(
            f"{tensor_words(flow, tensor)} is added to itself: the sum is twice the same, and the input of the module "
            "is not in it",
            symptom="grad_wrong",
            why="a name that got a new value on the way does not stand for the input any more, so this is no residual "
            "connection",
            fix="give the results on the way another name, and add the input to the last one: x + h",
            location=location_of_call(flow, row),
        )


def _added_to_itself(flow: Dataflow, row: int) -> int | None:
    """The tensor of a batch that a call of the program adds to itself."""
    tensor = next((each for one in flow.lists.singles(row) if (each := _doubled(flow, row, one))), None)
    is_told = tensor is not None and len(shape_of(flow, tensor)) >= _BATCH and flow.is_by_program(flow.log.calls[row])
    return tensor if is_told else None


_BATCH = 2
_MOST_CALLS = 4
_KEEPS = frozenset({"clone", "contiguous", "dropout", "alpha_dropout", "feature_dropout"})
_ADDS = frozenset({"add", "_foreach_add", "sum"})


def _may_add(call: Call) -> bool:
    name = plain_name(call.function)
    is_of_number = name == "add" and len(call.inputs) < _BATCH  # as Python's ``sum()`` begins
    return name in _ADDS and not is_of_number and all(use.has_grad_fn for use in call.inputs)


def _doubled(flow: Dataflow, row: int, call: Call) -> int | None:
    """The tensor with a history that a call adds to itself: ``x + x``, ``x + 0.5 * dropout(x)``, ``sum([x, x])``,
    ``stack([x, x]).sum(0)``."""
    if plain_name(call.function) == "sum" and len(call.inputs) == 1:
        made = flow.newest_producer(call.inputs[0].tensor, row)
        stacked = None if made is None else flow.log.calls[made]
        is_over_parts = axis_of(call, len(shape_of(flow, call.inputs[0].tensor))) == 0
        if stacked is None or not is_over_parts or plain_name(stacked.function) != "stack":
            return None
        parts = [use.tensor for use in stacked.inputs]
    elif plain_name(call.function) != "add" or number_of(call, "alpha", missing=1.0) <= 0:
        return None
    else:
        parts = [use.tensor for use in call.inputs]
        if len(parts) == _BATCH and (parts[0] != parts[1] or "alpha" in call.scalars):
            parts = [_source(flow, each, row) for each in parts]
            parts = parts if _is_made_in(flow, parts[0], row) else []
    return parts[0] if len(parts) == _BATCH and parts[0] == parts[1] else None


def _source(flow: Dataflow, tensor: int, before: int) -> int:
    """A tensor before a number was added that is 0, as Python's ``sum()`` begins, or it went through a dropout."""
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
