"""GV859."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import line_in_function_of, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding, Location, location_of_line
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.evaluations.loaded_states import loads_by_line


class LoadedAndOtherScored(Rule):
    """The best state is loaded into a new model, and the last one is scored.

    What it finds
    -------------
    After the last step of training, a state that is loaded into a model which nothing ever runs, where the model that
    was trained, of the same shapes, is run after that. A state that is taken only after the training is left alone.

    Why it matters
    --------------
    The score is the one of the last epoch. Whatever was chosen by the validation has no part in it.

    Example
    -------
    import copy

    x, y = torch.randn(40, 4), torch.randn(40, 1)
    model, best_model = torch.nn.Linear(4, 1), torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    best, state = float("inf"), None
    for epoch in range(4):
        loss = torch.nn.functional.mse_loss(model(x[:20]), y[:20])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if loss.item() < best:
            best, state = loss.item(), copy.deepcopy(model.state_dict())
    best_model.load_state_dict(state)
    with torch.no_grad():
        print(torch.nn.functional.mse_loss(model(x[20:]), y[20:]))

    Instead
    -------
    import copy

    x, y = torch.randn(40, 4), torch.randn(40, 1)
    model, best_model = torch.nn.Linear(4, 1), torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    best, state = float("inf"), None
    for epoch in range(4):
        loss = torch.nn.functional.mse_loss(model(x[:20]), y[:20])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if loss.item() < best:
            best, state = loss.item(), copy.deepcopy(model.state_dict())
    best_model.load_state_dict(state)
    with torch.no_grad():
        print(torch.nn.functional.mse_loss(best_model(x[20:]), y[20:]))
    """

    code = "GV859"
    name = "loaded_and_other_scored"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        steps = flow.rows_of_kind("step")
        for loaded, rows in loads_by_line(case).items() if steps else ():
            given = [flow.log.calls[row].inputs[0].tensor for row in rows]
            if rows[0] < steps[-1] or any(_is_used(case, tensor) for tensor in given):
                continue
            used = _use_of_trained(case, given, rows[-1])
            if used is not None and not _is_kept_at_end(flow, _parameter_of(flow, used), steps[-1], rows[0]):
                yield self._finding(case, loaded, rows[-1], used)

    def _finding(self, case: Case, loaded: Location, row: int, used: int) -> Finding:
        flow = case.dataflow
        return self.finding(
            f"the model that got a state at line {loaded.line} is never run: here runs the one that was trained to the "
            "end",
            symptom="none",
            why="the score is the one of the last step, not that of the state that was kept",
            fix="score the model that was loaded, or load the state into the model that is scored",
            location=location_of_line(line_in_function_of(flow, used, row)),
            symptom_location=loaded,
        )


_NO_USE = frozenset({"torch.Tensor.requires_grad.__set__", "torch.Tensor.copy_"})


def _is_used(case: Case, tensor: int) -> bool:
    """Whether anything reads a parameter, but for what initializes it."""
    flow = case.dataflow
    return any(
        flow.log.calls[row].kind != "operation" or not flow.log.calls[row].changed
        for shared in flow.sharing_memory(tensor)
        for row in flow.users(shared)
        if flow.log.calls[row].function not in _NO_USE and flow.log.calls[row].kind != "make_module"
    )


def _parameter_of(flow: Dataflow, row: int) -> int:
    given = flow.log.calls[row].inputs
    return next((use.tensor for use in given if flow.log.tensors[use.tensor].role == "parameter"), given[0].tensor)


def _is_kept_at_end(flow: Dataflow, trained: int, step: int, row: int) -> bool:
    """Whether a line that runs only behind the last step takes the state of the trained model: what is loaded may be
    that one, as to see that a file can be read."""
    taken = [
        each for each in flow.users(trained) if each < row and plain_name(flow.log.calls[each].function) == "detach"
    ]
    before = {flow.log.calls[each].call_site for each in taken if each < step}
    return any(each > step and flow.log.calls[each].call_site not in before for each in taken)


def _use_of_trained(case: Case, given: list[int], row: int) -> int | None:
    """The first call behind a row that uses trained parameters of the same shapes as others."""
    flow = case.dataflow
    shapes = sorted(shape_of(flow, tensor) for tensor in given)
    for optimizer in flow.log.optimizers:
        trained = [tensor for group in optimizer.groups for tensor in group]
        if not optimizer.steps or sorted(shape_of(flow, tensor) for tensor in trained) != shapes:
            continue
        later = [min(flow.users(tensor, row), default=None) for tensor in trained]
        if None not in later:
            return min(each for each in later if each is not None)
    return None
