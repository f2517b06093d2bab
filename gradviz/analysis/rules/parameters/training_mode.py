"""GV709."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import at_line, line_outside_modules, location_of_call
from gradviz.analysis.dataflow.dropout_calls import WORDS, is_training
from gradviz.analysis.dataflow.tensor_words import names_of
from gradviz.analysis.finding import Finding, location_of_line
from gradviz.analysis.rule import Rule
from gradviz.graph.traversal import scopes_around


class TrainingMode(Rule):
    """A finished model computes targets while its dropout or batch normalization is in training mode.

    What it finds
    -------------
    A model that nothing trains any more (a teacher, a feature extractor), called without gradients and in training
    mode, whose results go into the loss of another one. A copy that follows a trained model is left alone, and so are
    several calls with the same input: these average over dropout.

    Why it matters
    --------------
    With dropout on, the targets are other ones at each call, and noise is learned. Batch normalization in training mode
    depends on the batch, and updates the statistics of a model that was finished.

    Example
    -------
    teacher = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 2))
    student = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
    for step in range(3):
        x = torch.randn(5, 4)
        with torch.no_grad():
            wanted = teacher(x)
        optimizer.zero_grad()
        (student(x) - wanted).square().mean().backward()
        optimizer.step()

    Instead
    -------
    teacher = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 2))
    student = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
    teacher.eval()
    for step in range(3):
        x = torch.randn(5, 4)
        with torch.no_grad():
            wanted = teacher(x)
        optimizer.zero_grad()
        (student(x) - wanted).square().mean().backward()
        optimizer.step()
    """

    code = "GV709"
    name = "training_mode"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        told = set()
        for row, call in enumerate(case.dataflow.log.calls):
            if call.scope is None or is_training(call) is not True or any(use.requires_grad for use in call.outputs):
                continue
            outermost = list(scopes_around(case.dataflow.log.scopes, call.scope))[-1]
            path = case.dataflow.log.scopes[outermost].path
            if path not in told and self._is_finished(case, row, outermost):
                told.add(path)
                yield self._finding(case, row, path)

    def _is_finished(self, case: Case, row: int, outermost: int) -> bool:
        """Whether nothing changes the model after this call, and its result goes into the loss of another one."""
        flow, histories = case.dataflow, case.histories
        scopes, calls = flow.log.scopes, flow.log.calls
        members = [
            number
            for number in range(max(0, row - _NEAR), min(len(calls), row + _NEAR))
            if (scope := calls[number].scope) is not None and outermost in scopes_around(scopes, scope)
        ]
        own = {use.tensor for number in members for use in calls[number].inputs}
        parameters = {number for number in own if histories.tensor(number).role == "parameter"}
        stepped = {use.tensor for step in histories.steps if step > row for use in calls[step].inputs}
        if not parameters or parameters & stepped or self._is_repeated(case, outermost, members):
            return False
        if any(flow.changes(number, row, len(calls)) for number in parameters):
            return False
        return self._goes_into_a_loss(case, row)

    def _is_repeated(self, case: Case, outermost: int, members: list[int]) -> bool:
        """Whether the model gets the same input again, as averages over dropout do."""
        flow = case.dataflow
        path = flow.log.scopes[outermost].path
        users = flow.users(flow.log.calls[members[0]].inputs[0].tensor)
        scopes = (flow.log.calls[user].scope for user in users)
        outer = {list(scopes_around(flow.log.scopes, scope))[-1] for scope in scopes if scope is not None}
        return sum(flow.log.scopes[each].path == path for each in outer) > 1

    def _goes_into_a_loss(self, case: Case, row: int) -> bool:
        """Whether a result of a call is used in what a later backward goes through."""
        flow, calls = case.dataflow, case.dataflow.log.calls
        backward = next((each for each in case.histories.backward_calls if each > row), None)
        if backward is None or not flow.has_step_after(backward):
            return False
        reached = case.backward_calls.reached(backward).members
        below = flow.descendants(calls[row].outputs[0].tensor, row, backward) if calls[row].outputs else ()
        return any(each in reached for each in below)

    def _finding(self, case: Case, row: int, path: str) -> Finding:
        flow = case.dataflow
        words = WORDS[flow.log.calls[row].function]
        here = location_of_line(line_outside_modules(flow, row))
        return self.finding(
            f"{path or 'a model'} computes targets{at_line(here)} in training mode: its {words} works as in training, "
            "though nothing trains it any more",
            symptom="grad_wrong",
            why="modules are in training mode until eval() is called; no_grad() does not change that",
            fix=f"call {path or 'the model'}.eval() before the loop",
            location=here,
            symptom_location=location_of_call(flow, row),
            tensors=names_of(flow, [use.tensor for use in flow.log.calls[row].outputs]),
            evidence={"function": flow.log.calls[row].function},
        )


_NEAR = 2_000
"""Calls before and after one in which the rest of the same module call is looked for."""
