"""GV860."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.loss_arguments import SHAPE_ONLY


class ResidualOfTheInput(Rule):
    """Each stage of a residual quantizer subtracts its code from the input, not from what the stage before has left.

    What it finds
    -------------
    Two or more differences from the same tensor, each of which goes on to the choice of the next code (``argmin``),
    where a later one subtracts the code that was chosen for the earlier one, and not the sum of both.

    Why it matters
    --------------
    The codes of a residual quantizer are added up: each has to say what those before it have not. From the third stage
    on, a code for the input less one code adds the input once more, and the sum of all codes is far from it.

    Example
    -------
    tables = [torch.nn.Parameter(torch.randn(8, 4)) for _ in range(3)]
    encoder = torch.nn.Linear(6, 4)
    optimizer = torch.optim.Adam([*tables, *encoder.parameters()], lr=0.01)
    for step in range(3):
        x = encoder(torch.randn(16, 6))
        residual, total = x, 0
        for table in tables:
            code = table[torch.cdist(residual.detach(), table.detach()).argmin(-1)]
            total = total + code
            residual = x - code
        loss = (total - x.detach()).square().mean() + (x - total.detach()).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    tables = [torch.nn.Parameter(torch.randn(8, 4)) for _ in range(3)]
    encoder = torch.nn.Linear(6, 4)
    optimizer = torch.optim.Adam([*tables, *encoder.parameters()], lr=0.01)
    for step in range(3):
        x = encoder(torch.randn(16, 6))
        residual, total = x, 0
        for table in tables:
            code = table[torch.cdist(residual.detach(), table.detach()).argmin(-1)]
            total = total + code
            residual = residual - code
        loss = (total - x.detach()).square().mean() + (x - total.detach()).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV860"
    name = "residual_of_the_input"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow, told = case.dataflow, set[int | None]()
        for backward in case.histories.last_trained_backward_of_each_line:
            for root in flow.log.calls[backward].roots:
                row = _difference_from_input(flow, root.tensor, backward)
                site = None if row is None else flow.log.calls[row].call_site
                if row is not None and site not in told:
                    told.add(site)
                    yield self._finding(flow, row)

    def _finding(self, flow: Dataflow, row: int) -> Finding:
        return self.finding(
            "the code of a later stage is subtracted from the input, so the next stage gets again what the stages "
            "before have already coded",
            symptom="grad_wrong",
            why="the codes of all stages are added up, so each has to be chosen for what those before it have left",
            fix="subtract it from what the stage got: residual = residual - code",
            location=location_of_call(flow, row),
        )


_CHOICES = frozenset({"argmin", "argmax", "min", "max", "topk", "sort"})
_PASSES = SHAPE_ONLY | {"detach", "add"}
_LOOKS_UP = frozenset({"getitem", "embedding", "index_select", "gather", "take_along_dim"})
_BOTH = 2
_MAX_PARTS = 40


def _difference_from_input(flow: Dataflow, root: int, backward: int) -> int | None:
    """The second difference from one tensor on the way to a choice, if it leaves out what the first one subtracted."""
    since = flow.step_before(backward)
    rows = flow.ancestors(root, backward, since)
    choices = [row for row in rows if _is_choice(flow, row)]
    if len(choices) <= _BOTH:
        return None
    chosen_of = {row: frozenset(flow.ancestors(flow.log.calls[row].inputs[0].tensor, row, since)) for row in choices}
    differences = {row: found for row in rows if (found := _subtracted(flow, row)) is not None}
    for row, (whole, code) in differences.items():
        parts = _parts(flow, code, row, since)
        if not any(row in chosen_of[each] for each in choices) or not _is_looked_up(flow, code, row):
            continue
        above = frozenset(flow.ancestors(code, row, since))
        for earlier, (of_earlier, other) in differences.items():
            if of_earlier != whole or earlier not in above:
                continue
            is_chosen_for = any(earlier in chosen_of[each] and each in above for each in choices)
            if is_chosen_for and _parts(flow, other, earlier, since).isdisjoint(parts):
                return row
    return None


def _is_looked_up(flow: Dataflow, code: int, row: int) -> bool:
    """Whether what is subtracted is a code, perhaps passed straight through, and not a sum of all codes until then that
    another call has made."""
    waiting, seen = [(code, row)], set[int]()
    while waiting and len(seen) < _MAX_PARTS:
        part, before = waiting.pop()
        seen.add(part)
        made = flow.newest_producer(part, before)
        name = "" if made is None else plain_name(flow.log.calls[made].function)
        if name in _LOOKS_UP:
            return True
        if made is not None and name in _PASSES | {"sub"}:
            waiting += [(use.tensor, made) for use in flow.log.calls[made].inputs if use.tensor not in seen]
    return False


def _is_choice(flow: Dataflow, row: int) -> bool:
    """Whether a call chooses places: indexes are among its results."""
    call = flow.log.calls[row]
    is_named = plain_name(call.function) in _CHOICES and bool(call.inputs)
    return is_named and any(flow.log.tensors[use.tensor].facts.dtype == "int64" for use in call.outputs)


def _subtracted(flow: Dataflow, row: int) -> tuple[int, int] | None:
    """The tensor from which a call subtracts another one, before it was detached or copied, and the other one."""
    call = flow.log.calls[row]
    if plain_name(call.function) != "sub" or len(call.inputs) != _BOTH or call.function.endswith("rsub__"):
        return None
    tensor, before = call.inputs[0].tensor, row
    for made, maker in flow.makers(tensor, before, _BOTH):
        if plain_name(maker.function) not in ("detach", "clone"):
            break
        tensor, before = maker.inputs[0].tensor, made
    return tensor, call.inputs[1].tensor


def _parts(flow: Dataflow, tensor: int, before: int, since: int) -> frozenset[int]:
    """The tensors of which a tensor is a sum, itself included, before it was detached."""
    waiting, seen = [(tensor, before)], set[int]()
    while waiting and len(seen) < _MAX_PARTS:
        part, row = waiting.pop()
        seen.add(part)
        made = flow.newest_producer(part, row)
        if made is not None and made >= since and plain_name(flow.log.calls[made].function) in _PASSES:
            waiting += [(use.tensor, made) for use in flow.log.calls[made].inputs if use.tensor not in seen]
    return frozenset(seen)
