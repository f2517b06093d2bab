"""GV853."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import at_line, callers, location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.tensor_words import names_of
from gradviz.analysis.finding import Finding, Location, location_of_line
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.evaluations.loaded_states import handed_over_by_line


class LoadedAndDrawnAgain(Rule):
    """Weights are loaded into a model, and its parameters are initialized after that.

    What it finds
    -------------
    A line that loads values into parameters, copies into them what another function made, or makes parameters of given
    vectors, and more than half of these are overwritten by an initialization (``normal_()``, ``zeros_()``, functions of
    ``nn.init``) before anything has used them. A head that is drawn again is left alone: the first matrix that was
    loaded stays as it is. So are copies of a layer, as those of a stack of equal ones.

    Why it matters
    --------------
    ``model.apply(init_weights)`` visits every layer, also those that were loaded. What was pretrained is gone, nothing
    raises, and the model trains from scratch with the small learning rate of fine-tuning.

    Example
    -------
    def init_weights(module):
        if isinstance(module, torch.nn.Linear):
            torch.nn.init.normal_(module.weight, std=0.02)
            torch.nn.init.zeros_(module.bias)

    trained, body, head = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4), torch.nn.Linear(4, 2)
    model = torch.nn.Sequential(body, head)
    body.load_state_dict(trained.state_dict())
    model.apply(init_weights)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        loss = model(torch.randn(8, 4)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    def init_weights(module):
        if isinstance(module, torch.nn.Linear):
            torch.nn.init.normal_(module.weight, std=0.02)
            torch.nn.init.zeros_(module.bias)

    trained, body, head = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4), torch.nn.Linear(4, 2)
    model = torch.nn.Sequential(body, head)
    model.apply(init_weights)
    body.load_state_dict(trained.state_dict())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        loss = model(torch.randn(8, 4)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV853"
    name = "loaded_and_drawn_again"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        for location, filled in _filled_by_line(case).items():
            drawn = {each: again for each in filled if (again := _drawn_again(flow, *each)) is not None}
            if (
                flow.has_step_after(filled[-1][1])
                and len(drawn) > _MIN_SHARE * len(filled)
                and _first_matrix(flow, filled) in drawn
            ):
                yield self._finding(case, location, drawn, len(filled))

    def _finding(self, case: Case, loaded: Location, drawn: dict[_Filled, int], count: int) -> Finding:
        flow = case.dataflow
        location = _line_of_initialization(flow, list(drawn.values()))
        one = count == 1
        return self.finding(
            f"{'the tensor' if one else f'{len(drawn):,} of the {count:,} tensors'} that {'is' if one else 'are'} "
            f"loaded{at_line(loaded)} {'is' if one else 'are'} initialized here before anything uses "
            f"{'it' if one else 'them'}: what was loaded is lost",
            symptom="grad_wrong",
            why="an initialization overwrites parameters in place, whatever they held",
            fix="initialize first and load after that, or initialize only the new layers: head.apply(init_weights)",
            location=location,
            symptom_location=loaded if loaded != location else None,
            tensors=names_of(flow, [tensor for tensor, _row in drawn]),
            evidence={"loaded": count, "initialized": len(drawn)},
        )


_Filled = tuple[int, int]
"""A tensor, and the call that filled it."""

_MIN_SHARE = 0.5
_DRAW = frozenset({
    "uniform", "normal", "zero", "zeros", "ones", "fill", "constant", "trunc_normal", "kaiming_uniform",
    "kaiming_normal", "xavier_uniform", "xavier_normal", "orthogonal", "eye", "dirac", "sparse", "exponential",
})  # fmt: skip


def _filled_by_line(case: Case) -> dict[Location, list[_Filled]]:
    flow, lines = case.dataflow, defaultdict[Location, list[_Filled]](list)
    for location, rows in handed_over_by_line(case).items():
        lines[location].extend((flow.log.calls[row].inputs[0].tensor, row) for row in rows)
    for number in flow.log.parameters:
        row = _made_of_values(flow, number)
        if row is not None and (made := location_of_call(flow, row)) is not None:
            lines[made].append((number, row))
    return lines


def _made_of_values(flow: Dataflow, number: int) -> int | None:
    """The call that gave a matrix its memory and values: ``nn.Embedding.from_pretrained(torch.tensor(vectors))``."""
    row = flow.log.tensors[min(flow.sharing_memory(number))].producer
    if row is None or len(shape_of(flow, number)) <= 1 or not _are_given(flow, row):
        return None
    return row


_OF_VALUES = frozenset({"from_numpy", "tensor", "as_tensor"})
_KEEP_VALUES = frozenset({"float", "to", "stack", "cat", "clone", "detach", "data", "contiguous"})


def _are_given(flow: Dataflow, row: int) -> bool:
    """Whether what a call returns are values from outside of torch, or from a file.

    A copy of another layer, as ``deepcopy()`` makes of each layer of a stack, has random values: they may be drawn
    again. So may those of ``torch.empty(...)`` on a device.
    """
    call = flow.log.calls[row]
    if plain_name(call.function) in _OF_VALUES:
        return True
    if plain_name(call.function) not in _KEEP_VALUES or not call.inputs:
        return False
    for use in call.inputs:
        made = flow.newest_producer(use.tensor, row)
        is_of_layer = any(flow.log.tensors[each].role == "parameter" for each in flow.sharing_memory(use.tensor))
        if is_of_layer or (made is not None and not _are_given(flow, made)):
            return False
    return True


def _drawn_again(flow: Dataflow, given: int, row: int) -> int | None:
    """The initialization that overwrites what was loaded, if it is the next call that takes it."""
    users = [each for shared in flow.sharing_memory(given) for each in flow.users(shared, row)]
    for user in sorted(set(users)):
        call = flow.log.calls[user]
        name = plain_name(call.function)
        if name in _PASS_ON or call.function in _FLAG or call.kind in _NO_USE:
            continue
        is_changed = any(use.tensor == call.inputs[0].tensor for use in call.outputs)
        return user if is_changed and name in _DRAW else None
    return None


_PASS_ON = frozenset({"data", "detach", "requires_grad"})
_NO_USE = frozenset({"add_param_group", "register_module", "zero_grad"})
_FLAG = frozenset({"torch.Tensor.requires_grad.__set__"})


def _first_matrix(flow: Dataflow, filled: list[_Filled]) -> _Filled:
    """The first matrix of a model that is loaded: a new head leaves it as it is."""
    return next((each for each in filled if len(shape_of(flow, each[0])) > 1), filled[0])


def _line_of_initialization(flow: Dataflow, rows: list[int]) -> Location | None:
    """The innermost line from which all of these calls were made: that of ``model.apply(init_weights)``."""
    lines = [[location_of_line(site) for site in callers(flow, row)] for row in rows]
    common = set(lines[0]).intersection(*lines[1:])
    return next((line for line in lines[0] if line in common), lines[0][0] if lines[0] else None)
