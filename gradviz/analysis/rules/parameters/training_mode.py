"""GV709."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import at_line, call_words, line_outside_modules, location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.layer_calls import drops_attention, is_training, word_of_layer
from gradviz.analysis.dataflow.tensor_words import names_of
from gradviz.analysis.finding import Finding, Location, location_of_line
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.sources.lines.lines_of_training import (
    is_put_back,
    line_of_model,
    line_of_train,
    line_that_trains_all,
)
from gradviz.analysis.rules.bases.sources.lines.lines_that_switch_back import line_that_switches_back
from gradviz.analysis.rules.bases.told_modes import asks_for_the_mode, gets_input_again
from gradviz.graph.traversal import scopes_around


class TrainingMode(Rule):
    """A finished model computes targets or features while its dropout or batch normalization is in training mode.

    What it finds
    -------------
    A model that nothing trains any more (a teacher, a feature extractor), called without gradients and in training
    mode, whose results go into the loss of another one; a model with dropout, or with batch normalization and results
    that are compared with data, that is evaluated in training mode; a function with dropout, such as
    ``scaled_dot_product_attention``, that is not told that its model is evaluated. A copy that follows a trained model
    is left alone, and so are several calls with the same input, which average over dropout, and dropout in the frozen
    layers of a model whose trained layers drop values, too.

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
        flow = case.dataflow
        told, lines = set[str](), set[Location | None]()
        for row, call in enumerate(flow.log.calls):
            is_active = is_training(call) is True or drops_attention(call)
            if call.scope is None or not is_active or any(use.requires_grad for use in call.outputs):
                continue
            around = list(scopes_around(flow.log.scopes, call.scope))
            paths = [flow.log.scopes[scope].path for scope in around]
            outermost, path = around[-1], paths[-1]
            if not told.isdisjoint(paths):
                continue
            # A teacher may be a part of what trains: the outermost module that nothing trains.
            finished = next((scope for scope in reversed(around) if self._is_finished(case, row, scope)), None)
            if finished is not None and _is_average(case, row, outermost):
                continue
            if (
                finished is not None
                and finished != outermost
                and self._drops_like_the_rest(case, row, finished, outermost)
            ):
                told.add(flow.log.scopes[finished].path)
            elif finished is not None:
                path = flow.log.scopes[finished].path
                told.add(path)
                is_told = asks_for_the_mode(case, row, flow.rows_inside(outermost))
                is_part = finished != outermost or is_put_back(case, row, path)
                finding = self._finding(case, row, path, is_part=is_part) if is_told else self._without_mode(case, row)
                if finding.location not in lines:
                    yield finding
                lines.add(finding.location)
            elif self._is_evaluation(case, row, outermost):
                told.add(path)
                is_asked = asks_for_the_mode(case, row, flow.rows_inside(outermost))
                yield self._of_evaluation(case, row, outermost) if is_asked else self._without_mode(case, row)

    def _is_evaluation(self, case: Case, row: int, outermost: int) -> bool:
        """Whether a trained model drops values where gradients are off, and no loss uses the result.

        Batch normalization alone counts where the result is compared with data: else its statistics may be computed
        anew, or pictures be made to look at.
        """
        flow, histories = case.dataflow, case.histories
        call = flow.log.calls[row]
        if call.grad_mode == "enabled" or not histories.steps:
            return False
        if word_of_layer(call) != "dropout" and not _is_compared(flow, row):
            return False
        members = flow.rows_inside(outermost)
        own = {use.tensor for number in members for use in flow.log.calls[number].inputs}
        is_trained = not own.isdisjoint(histories.trained & histories.reached)
        return is_trained and not _is_average(case, row, outermost) and not self._goes_into_a_loss(case, row)

    def _of_evaluation(self, case: Case, row: int, outermost: int) -> Finding:
        flow = case.dataflow
        path = flow.log.scopes[outermost].path
        here = self._line_of_result(case, row, outermost)
        switch = line_of_train(case, here)
        return self.finding(
            f"{path or 'a model'} is evaluated{at_line(here)} in training mode: its "
            f"{word_of_layer(flow.log.calls[row])} works as in training",
            symptom="grad_wrong",
            why="modules are in training mode until eval() is called; no_grad() does not change that",
            fix=f"call {path or 'the model'}.eval() before the evaluation, and train() after it",
            location=switch or here,
            symptom_location=here if switch is not None else location_of_call(flow, row),
            tensors=names_of(flow, [use.tensor for use in flow.log.calls[row].outputs]),
            evidence={"function": flow.log.calls[row].function},
        )

    def _without_mode(self, case: Case, row: int) -> Finding:
        flow = case.dataflow
        name = call_words(flow.log.calls[row])
        is_attention = drops_attention(flow.log.calls[row])
        return self.finding(
            f"{name} {'drops weights' if is_attention else 'works'} as in training when the model is evaluated: it is "
            "not told in which mode its module is",
            symptom="grad_wrong",
            why="the function drops values unless it is told not to: eval() changes only modules",
            fix="pass dropout_p=p if self.training else 0.0 to it, where p is the rate"
            if is_attention
            else "pass training=self.training to it, or use torch.nn.Dropout",
            location=location_of_call(flow, row),
            tensors=names_of(flow, [use.tensor for use in flow.log.calls[row].outputs]),
            evidence={"function": flow.log.calls[row].function},
        )

    def _line_of_result(self, case: Case, row: int, outermost: int) -> Location | None:
        """The line that uses the result of the outermost module first; where gradients are off, callers of a line are
        not recorded."""
        flow = case.dataflow
        last = flow.rows_inside(outermost)[-1]
        users = (user for use in flow.log.calls[last].outputs for user in flow.users(use.tensor, after=last))
        user = min(users, default=None)
        return location_of_line(line_outside_modules(flow, row)) if user is None else location_of_call(flow, user)

    def _is_finished(self, case: Case, row: int, outermost: int) -> bool:
        """Whether nothing changes the model after this call, and its result goes into the loss of another one."""
        flow, histories = case.dataflow, case.histories
        calls = flow.log.calls
        members = flow.rows_inside(outermost)
        own = {use.tensor for number in members for use in calls[number].inputs}
        parameters = {number for number in own if histories.tensor(number).role == "parameter"}
        if not parameters:
            # The program calls the layers of a model one by one: those beside this one are of the same model.
            model = flow.log.scopes[outermost].path.rpartition(".")[0]
            parameters = set(histories.parameters_below(model)) if model else parameters
        is_stepped = any(histories.last_step.get(number, row) > row for number in parameters)
        if not parameters or is_stepped or gets_input_again(flow, outermost, members):
            return False
        # An average of a trained model is made anew at each step, behind the call or before it.
        since = flow.step_before(row)
        if any(flow.changes(number, since, len(calls)) for number in parameters):
            return False
        if any(flow.data_assignments.get(number, [since])[-1] > since for number in parameters):
            return False
        return self._goes_into_a_loss(case, row)

    def _drops_like_the_rest(self, case: Case, row: int, finished: int, outermost: int) -> bool:
        """Whether it is a dropout in frozen layers of a model, and the trained layers behind them drop values as well:
        so do adapters in a frozen model, training that begins at a later layer, and a frozen model that mixes what it
        reads with a trained prefix."""
        flow, calls = case.dataflow, case.dataflow.log.calls
        if word_of_layer(calls[row]) != "dropout":
            return False
        around = outermost if self._feeds_trained_layers(case, row) else _model_around(flow, row, finished)
        return any(
            (
                (is_training(calls[each]) is True and word_of_layer(calls[each]) == "dropout")
                or drops_attention(calls[each])
            )
            and any(use.requires_grad for use in calls[each].outputs)
            for each in flow.rows_inside(around)
        )

    def _feeds_trained_layers(self, case: Case, row: int) -> bool:
        """Whether layers read the result that the next step trains: then it is a feature of their model, and no
        target."""
        flow = case.dataflow
        backward = case.histories.backward_after(row)
        step = next((each for each in case.histories.steps if backward is not None and each > backward), None)
        if step is None or not flow.log.calls[row].outputs:
            return False
        trained = {use.tensor for use in flow.log.calls[step].inputs}
        below = flow.descendants(flow.log.calls[row].outputs[0].tensor, row, backward)
        return any(use.tensor in trained for each in below for use in flow.log.calls[each].inputs)

    def _goes_into_a_loss(self, case: Case, row: int) -> bool:
        """Whether a result of a call is used in what a later backward goes through."""
        flow, calls = case.dataflow, case.dataflow.log.calls
        backward = case.histories.backward_after(row)
        if backward is None or not flow.has_step_after(backward):
            return False
        reached = case.backward_calls.reached(backward).members
        below = flow.descendants(calls[row].outputs[0].tensor, row, backward) if calls[row].outputs else ()
        return any(each in reached for each in below)

    def _finding(self, case: Case, row: int, path: str, *, is_part: bool) -> Finding:
        flow = case.dataflow
        words = word_of_layer(flow.log.calls[row])
        used = location_of_line(line_outside_modules(flow, row))
        back = self._line_that_switches_back(case, row) if path else None
        switch = back or (line_that_trains_all(case, row) if is_part else None)
        here = switch or line_of_model(case, path, used) or used
        made = "features" if self._feeds_trained_layers(case, row) else "targets"
        return self.finding(
            f"{path or 'a model'} computes {made}{at_line(used)} in training mode: its {words} works as in training, "
            "though nothing trains it any more",
            symptom="grad_wrong",
            why="train() of a model is also that of all its parts, the finished ones too"
            if is_part or back is not None
            else "modules are in training mode until eval() is called; no_grad() does not change that",
            fix=f"call {path}.eval() again behind this line; or put back the mode that each module had, not one for all"
            if back is not None
            else f"call {path or 'the model'}.eval() again after each train() of what it is a part of"
            if is_part
            else f"call {path or 'the model'}.eval() before the loop",
            location=here,
            symptom_location=used if switch is not None else location_of_call(flow, row),
            tensors=names_of(flow, [use.tensor for use in flow.log.calls[row].outputs]),
            evidence={"function": flow.log.calls[row].function},
        )

    def _line_that_switches_back(self, case: Case, row: int) -> Location | None:
        """The line that puts a part back into training mode which was in evaluation mode in a step before."""
        flow, scope = case.dataflow, case.dataflow.log.calls[row].scope
        if scope is None:
            return None
        own = flow.log.scopes[scope].path
        before = [
            each
            for each, call in enumerate(flow.log.calls[:row])
            if is_training(call) is False and call.scope is not None and flow.log.scopes[call.scope].path == own
        ]
        last = next((each for each in before[: -_MOST_TRIED - 1 : -1] if self._goes_into_a_loss(case, each)), None)
        return None if last is None else line_that_switches_back(case, last, row)


_MOST_TRIED = 60
"""Calls of a part, such as those of a validation, among which one of the training is looked for."""


def _is_average(case: Case, row: int, outermost: int) -> bool:
    """Whether a module gets the same input several times between two steps: its answers under several dropout masks
    are averaged."""
    flow = case.dataflow
    since = flow.step_before(row)
    end = next((step for step in case.histories.steps if step > row), len(flow.log.calls))
    return gets_input_again(flow, outermost, flow.rows_inside(outermost), range(since, end))


def _model_around(flow: Dataflow, row: int, scope: int) -> int:
    """The scope of a module that has parameters, or of the one around a dropout, which has none."""
    around = list(scopes_around(flow.log.scopes, flow.log.calls[row].scope))
    own = (use.tensor for each in flow.rows_inside(scope) for use in flow.log.calls[each].inputs)
    has_parameters = any(flow.log.tensors[number].role == "parameter" for number in own)
    return scope if has_parameters else around[min(around.index(scope) + 1, len(around) - 1)]


def _is_compared(flow: Dataflow, row: int) -> bool:
    """Whether what becomes of a result, before the next step, is compared with data: by a loss, or as equal or not."""
    end = next((step for step in flow.rows_of_kind("step") if step > row), len(flow.log.calls))
    outputs = flow.log.calls[row].outputs
    below = flow.descendants(outputs[0].tensor, row, end) if outputs else ()
    return any(
        plain_name(flow.log.calls[each].function) in _COMPARES and len(flow.log.calls[each].inputs) > 1
        for each in below
    )


_COMPARES = frozenset({
    "cross_entropy", "nll_loss", "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy",
    "binary_cross_entropy_with_logits", "eq", "ne",
})  # fmt: skip
