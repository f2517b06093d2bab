"""GV715."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import location_of_call, plain_name
from gradviz.analysis.dataflow.tensor_words import names_of
from gradviz.analysis.dataflow.values.origins import is_all_zero
from gradviz.analysis.finding import Finding, location_of_line
from gradviz.analysis.rule import Rule


class FrozenAtZero(Rule):
    """A matrix is frozen while all of its values are zero.

    What it finds
    -------------
    Parameters with at least two axes that are all zeros, do not require grad, and are used as a factor while other
    parameters are trained: the second factor of an adapter (LoRA) that was frozen with the model around it.

    Why it matters
    --------------
    What is multiplied by it is zero and stays zero: this part of the model does nothing. It was made to be trained from
    zero on, and nothing raises, because other parameters still get gradients.

    Example
    -------
    class Adapter(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.base = torch.nn.Linear(4, 4)
            self.a = torch.nn.Parameter(torch.randn(2, 4))
            self.b = torch.nn.Parameter(torch.zeros(4, 2))
        def forward(self, x):
            return self.base(x) + x @ self.a.t() @ self.b.t()
    adapter, head = Adapter(), torch.nn.Linear(4, 1)
    for parameter in adapter.parameters():
        parameter.requires_grad = False
    optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
    for step in range(3):
        optimizer.zero_grad()
        head(adapter(torch.randn(8, 4))).square().mean().backward()
        optimizer.step()

    Instead
    -------
    class Adapter(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.base = torch.nn.Linear(4, 4)
            self.a = torch.nn.Parameter(torch.randn(2, 4))
            self.b = torch.nn.Parameter(torch.zeros(4, 2))
        def forward(self, x):
            return self.base(x) + x @ self.a.t() @ self.b.t()
    adapter, head = Adapter(), torch.nn.Linear(4, 1)
    for parameter in adapter.base.parameters():
        parameter.requires_grad = False
    optimizer = torch.optim.SGD([*head.parameters(), adapter.a, adapter.b], lr=0.1)
    for step in range(3):
        optimizer.zero_grad()
        head(adapter(torch.randn(8, 4))).square().mean().backward()
        optimizer.step()
    """

    code = "GV715"
    name = "frozen_at_zero"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow, histories = case.dataflow, case.histories
        frozen = [number for number in flow.log.parameters if histories.steps and _is_frozen_zero(case, number)]
        if not frozen:
            return
        changes = [row for row, flag in histories.flag_changes(frozen[0]) if not flag]
        made = location_of_line(histories.line_where_made(frozen[0]))
        location = location_of_call(flow, changes[-1]) if changes else made
        one = len(frozen) == 1
        yield self.finding(
            f"{histories.together(frozen)} {'is' if one else 'are'} frozen, with nothing but zeros in "
            f"{'it' if one else 'them'}: what is multiplied by {'it' if one else 'them'} stays zero",
            symptom="grad_none",
            why="a factor that starts at zero adds nothing until it is trained",
            fix="leave it out of the freezing (freeze the model before the new layers are put in, or set "
            "requires_grad_(True) on them afterwards), and give it to the optimizer with the layers beside it",
            location=location,
            symptom_location=made if made != location else None,
            tensors=(*names_of(flow, frozen), *_starved(case, frozen)),
            evidence={"parameters": len(frozen)},
        )


def _starved(case: Case, frozen: list[int]) -> list[str]:
    """The leaves that get a gradient of zero because they are multiplied with the zeros."""
    calls, factors = case.dataflow.log.calls, {*frozen}
    zeros = (each for each in case.zero_gradients if each.call is not None)
    found = (
        leaf
        for zero in zeros
        if any(use.tensor in factors for use in calls[zero.call or 0].inputs)
        for leaf in zero.leaves
    )
    return list(dict.fromkeys(found))


_FACTORS = frozenset({"matmul", "linear", "mm", "bmm", "mul", "conv1d", "conv2d", "conv3d", "einsum", "addmm"})
_MOVES = frozenset({"t", "T", "mT", "transpose", "view", "reshape", "permute", "to", "contiguous"})


def _is_frozen_zero(case: Case, number: int) -> bool:
    flow, histories = case.dataflow, case.histories
    tensor = flow.log.tensors[number]
    if tensor.role != "parameter" or len(tensor.facts.shape) < 2 or histories.is_ever_stepped_live(number):
        return False
    if histories.requires_grad_at_last(number):
        return False
    # It may have been made after a pretraining.
    first = next((step for step in histories.steps if step > (histories.made_by(number) or 0)), histories.steps[-1])
    is_changed = bool(flow.changes(number, first, len(flow.log.calls)))
    return not is_changed and any(_is_zero_factor(case, number, row) for row in flow.users(number, first))


def _is_zero_factor(case: Case, number: int, row: int) -> bool:
    """Whether a call, or the one after a transposition, multiplies the zeros, with gradients on."""
    flow = case.dataflow
    call = flow.log.calls[row]
    values = flow.values(number, row)
    if values is None or not is_all_zero(values) or call.grad_mode != "enabled":
        return False
    name = plain_name(call.function)
    if name in _MOVES and call.outputs:
        made = call.outputs[0].tensor
        is_same = sorted(shape_of(flow, made)) == sorted(shape_of(flow, number))
        return is_same and any(plain_name(flow.log.calls[user].function) in _FACTORS for user in flow.users(made, row))
    return name in _FACTORS
