"""GV980."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import DIFFERENCES, at_line, calls_named, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.tensor_words import names_of
from gradviz.analysis.finding import Finding, Location, location_of_line
from gradviz.analysis.parameters.frozen_parameters import location_of_flag
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.evaluations.loaded_states import loads_by_line
from gradviz.analysis.rules.bases.evaluations.network_outputs import Layer, layer_behind


class NewLayerStaysRandom(Rule):
    """A layer that was made for a new task is frozen together with the layers that were trained before.

    What it finds
    -------------
    A line that freezes several matrices, of which others were loaded or trained before, among them one that is
    still as it was drawn at random, that nothing trains later, and that computes what a loss takes, or that was made
    when the others had been loaded or trained, as adapters are. Random features before a layer that is trained are left
    alone, as are random projections of which a vector that is trained scales the results.

    Why it matters
    --------------
    The head of a new task knows nothing yet. Where it is frozen with the pretrained layers, adapters and other layers
    before it have to work around a random projection: the loss falls a little, and stays high.

    Example
    -------
    body, head, other = torch.nn.Linear(4, 4), torch.nn.Linear(4, 3), torch.nn.Linear(4, 4)
    body.load_state_dict(other.state_dict())
    model = torch.nn.Sequential(body, head)
    for parameter in model.parameters():
        parameter.requires_grad = False
    prompt = torch.nn.Parameter(torch.zeros(4))
    optimizer = torch.optim.SGD([prompt], lr=0.1)
    for step in range(3):
        loss = torch.nn.functional.cross_entropy(model(torch.randn(8, 4) + prompt), torch.arange(8) % 3)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    body, head, other = torch.nn.Linear(4, 4), torch.nn.Linear(4, 3), torch.nn.Linear(4, 4)
    body.load_state_dict(other.state_dict())
    model = torch.nn.Sequential(body, head)
    for parameter in body.parameters():
        parameter.requires_grad = False
    prompt = torch.nn.Parameter(torch.zeros(4))
    optimizer = torch.optim.SGD([prompt, *head.parameters()], lr=0.1)
    for step in range(3):
        loss = torch.nn.functional.cross_entropy(model(torch.randn(8, 4) + prompt), torch.arange(8) % 3)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV980"
    name = "new_layer_stays_random"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        loaded, heads = _loaded(case), _heads(case.dataflow)
        for location, frozen in _frozen_by_line(case).items():
            known = [each for each in frozen if each in loaded or case.histories.is_ever_stepped_live(each)]
            added = {each for each in _made_later(case, frozen, known) if not _feeds_trained(case, each)}
            drawn = [each for each in frozen if each in (heads | added) - set(known) and _stays_random(case, each)]
            if drawn and (added or len(known) >= _MIN_SHARE * len(frozen)):
                yield self._finding(case, location, drawn, len(known))

    def _finding(self, case: Case, location: Location, drawn: list[int], known: int) -> Finding:
        made = location_of_line(case.histories.line_where_made(drawn[0]))
        one = len(drawn) == 1
        others = "a matrix that was" if known == 1 else f"{known:,} matrices that were"
        return self.finding(
            f"{case.histories.together(drawn)} {'was' if one else 'were'} drawn at random{at_line(made)}, and "
            f"{'is' if one else 'are'} frozen here with {others} loaded or trained before: nothing ever trains "
            f"{'it' if one else 'them'}",
            symptom="grad_none",
            why="a new layer knows nothing yet: what is trained around it has to make do with a random projection",
            fix="freeze before the new layer is put in, or set requires_grad_(True) on it afterwards, and give it to "
            "the optimizer",
            location=location,
            symptom_location=made if made != location else None,
            tensors=names_of(case.dataflow, drawn),
            evidence={"drawn": len(drawn), "known": known},
        )


_MIN_SHARE = 0.5
_MAX_FOLLOWED = 8
_DRAWS = frozenset({
    "normal", "uniform", "xavier_uniform", "xavier_normal", "kaiming_uniform", "kaiming_normal", "trunc_normal",
})  # fmt: skip


def _frozen_by_line(case: Case) -> dict[Location, list[int]]:
    """By the line that freezes them, the matrices that stay frozen while others are trained."""
    histories, lines = case.histories, defaultdict[Location, list[int]](list)
    for number in case.dataflow.log.parameters if histories.steps else ():
        off = [row for row, flag in histories.flag_changes(number) if not flag]
        if off and not histories.requires_grad_at_last(number) and len(shape_of(case.dataflow, number)) > 1:
            location = location_of_flag(histories, off[-1])
            if location is not None:
                lines[location].append(number)
    return lines


def _loaded(case: Case) -> set[int]:
    flow = case.dataflow
    rows = (row for rows in loads_by_line(case).values() for row in rows)
    return {each for row in rows for each in flow.sharing_memory(flow.log.calls[row].inputs[0].tensor)}


def _made_later(case: Case, frozen: list[int], known: list[int]) -> set[int]:
    """Those that were made when the others had been loaded or trained, if they compute before one of the others does:
    they were put in between, and are no random features of what the others compute."""
    flow = case.dataflow
    end = len(flow.log.calls)
    changes = {each: flow.changes(each, -1, end) for each in frozen}
    since = max(
        (next((row for row in changes[each] if _trains_or_loads(flow, row)), end) for each in known), default=end
    )
    later = {each: rows[0] for each, rows in changes.items() if rows and rows[0] > since}
    made = min(later.values(), default=end)
    used = {each: row for each in frozen if (row := _first_use(case, each, made)) is not None}
    added = later.keys() & used.keys()
    first = min((used[each] for each in added), default=end)
    return added if any(used[each] > first for each in used.keys() - added) else set()


def _feeds_trained(case: Case, number: int) -> bool:
    """Whether the first parameter that meets what a matrix computes is trained: then the matrix is random on purpose,
    and what is trained chooses among its results (LoRA-FA, VeRA)."""
    flow, uses = case.dataflow, case.histories.forward_uses(number)
    tensor, users, has_met_data = number, uses[-1:], False
    for _ in range(_MAX_FOLLOWED):
        call = flow.log.calls[users[0]] if users else None
        if call is None or not call.outputs:
            break
        others = [use.tensor for use in call.inputs if use.tensor != tensor]
        parameters = [each for each in others if flow.log.tensors[each].role == "parameter"]
        if has_met_data and others:
            return not case.histories.trained.isdisjoint(parameters)
        has_met_data = has_met_data or len(others) > len(parameters)
        tensor = call.outputs[0].tensor
        users = flow.users(tensor, users[0])
    return False


def _first_use(case: Case, number: int, since: int) -> int | None:
    return next((row for row in case.histories.forward_uses(number) if row > since), None)


def _trains_or_loads(flow: Dataflow, row: int) -> bool:
    call = flow.log.calls[row]
    return call.kind == "step" or plain_name(call.function) == "copy"


def _stays_random(case: Case, number: int) -> bool:
    """Whether a matrix holds what it was drawn with to the end."""
    flow = case.dataflow
    changes = [plain_name(flow.log.calls[row].function) for row in flow.changes(number, -1, len(flow.log.calls))]
    return bool(changes) and set(changes) <= _DRAWS


def _heads(flow: Dataflow) -> set[Layer | None]:
    """The layers whose results losses of a training take."""
    losses = calls_named(flow, DIFFERENCES | {"cross_entropy", "nll_loss", "binary_cross_entropy_with_logits"})
    return {
        layer_behind(flow, use.tensor, row)
        for row, call in losses
        if flow.has_step_after(row)
        for use in call.live_inputs
    }
