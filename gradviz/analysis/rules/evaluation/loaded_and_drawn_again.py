"""GV853."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import at_line, callers, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.tensor_words import names_of
from gradviz.analysis.finding import Finding, Location, location_of_line
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.evaluations.loaded_states import loads_by_line


class LoadedAndDrawnAgain(Rule):
    """Weights are loaded into a model, and its parameters are initialized after that.

    What it finds
    -------------
    A line that loads values into parameters, of which more than half are overwritten by an initialization
    (``normal_()``, ``zeros_()``, functions of ``nn.init``) before anything has used them. A head that is drawn
    again is left alone: the first matrix that was loaded stays as it is.

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
        for location, rows in loads_by_line(case).items():
            drawn = {row: again for row in rows if (again := _drawn_again(flow, row)) is not None}
            if (
                flow.has_step_after(rows[-1])
                and len(drawn) > _MIN_SHARE * len(rows)
                and _first_matrix(flow, rows) in drawn
            ):
                yield self._finding(case, location, drawn, len(rows))

    def _finding(self, case: Case, loaded: Location, drawn: dict[int, int], count: int) -> Finding:
        flow = case.dataflow
        location = _line_of_initialization(flow, list(drawn.values()))
        tensors = [flow.log.calls[row].inputs[0].tensor for row in drawn]
        return self.finding(
            f"{len(drawn):,} of the {count:,} tensors that are loaded{at_line(loaded)} are initialized here before "
            "anything uses them: what was loaded is lost",
            symptom="grad_wrong",
            why="an initialization overwrites parameters in place, whatever they held",
            fix="initialize first and load after that, or initialize only the new layers: head.apply(init_weights)",
            location=location,
            symptom_location=loaded if loaded != location else None,
            tensors=names_of(flow, tensors),
            evidence={"loaded": count, "initialized": len(drawn)},
        )


_MIN_SHARE = 0.5
_DRAW = frozenset({
    "uniform", "normal", "zero", "zeros", "ones", "fill", "constant", "trunc_normal", "kaiming_uniform",
    "kaiming_normal", "xavier_uniform", "xavier_normal", "orthogonal", "eye", "dirac", "sparse", "exponential",
})  # fmt: skip


def _drawn_again(flow: Dataflow, row: int) -> int | None:
    """The initialization that overwrites what was loaded, if it is the next call that takes it."""
    given = flow.log.calls[row].inputs[0].tensor
    users = [each for shared in flow.sharing_memory(given) for each in flow.users(shared, row)]
    for user in sorted(set(users)):
        call = flow.log.calls[user]
        if plain_name(call.function) in _PASS_ON or call.kind in ("add_param_group", "zero_grad"):
            continue
        is_changed = any(use.tensor == call.inputs[0].tensor for use in call.outputs)
        return user if is_changed and plain_name(call.function) in _DRAW else None
    return None


def _first_matrix(flow: Dataflow, rows: list[int]) -> int | None:
    """The row that loads the first matrix of a model: a new head leaves it as it is."""
    return next((row for row in rows if len(shape_of(flow, flow.log.calls[row].inputs[0].tensor)) > 1), rows[0])


_PASS_ON = frozenset({"data", "detach", "requires_grad", "requires_grad.__set__"})


def _line_of_initialization(flow: Dataflow, rows: list[int]) -> Location | None:
    """The innermost line from which all of these calls were made: that of ``model.apply(init_weights)``."""
    lines = [[location_of_line(site) for site in callers(flow, row)] for row in rows]
    common = set(lines[0]).intersection(*lines[1:])
    return next((line for line in lines[0] if line in common), lines[0][0] if lines[0] else None)
