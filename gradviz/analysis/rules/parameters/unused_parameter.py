"""GV704."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from msgspec.structs import replace

from gradviz.analysis.case import Case
from gradviz.analysis.compiled.compiled_functions import cut_in_compiled_code
from gradviz.analysis.cuts.lost_terms import LostTerm
from gradviz.analysis.dataflow.call_words import at_line, call_words, location_of_call
from gradviz.analysis.dataflow.cuts import Cut, overwrites
from gradviz.analysis.dataflow.overwritten_variables import Overwriting, overwriting_of
from gradviz.analysis.dataflow.tensor_words import names_of
from gradviz.analysis.finding import Finding, Location, location_of_line
from gradviz.analysis.parameters.copied_parameters import copies_in_optimizers, forgotten_parameters
from gradviz.analysis.parameters.parameter_histories import ParameterHistories
from gradviz.analysis.parameters.unused_parameters import (
    Siblings,
    UnusedParameters,
    cut_before_hidden_code,
    losses_of_no_parameter,
    lost_before,
    never_used,
    refused_targets,
    used_for_nothing,
    used_on_other_threads,
)
from gradviz.analysis.rule import Rule
from gradviz.capture.capture import ScriptError
from gradviz.graph.compilations import GradientCut


class UnusedParameter(Rule):
    """A parameter that should train has no influence on the loss.

    What it finds
    -------------
    Parameters in an optimizer from which nothing is computed, or only results that the loss does not use; a loss that
    is computed and not used, because its variable is assigned again; tensors that
    are passed to `torch.autograd.grad` although the loss was not computed from them; parameters whose gradients
    `DistributedDataParallel` waits for forever.

    Why it matters
    --------------
    Such a parameter gets no gradient and keeps its random values. Most often the program calls another layer instead,
    or overwrites a result before its first use.

    Example
    -------
    class Gate(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.value = torch.nn.Linear(4, 4)
            self.gate = torch.nn.Linear(4, 4)

        def forward(self, x):
            return self.value(x) * torch.sigmoid(self.value(x))

    model = Gate()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(torch.randn(3, 4)).square().mean().backward()
    optimizer.step()

    Instead
    -------
    class Gate(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.value = torch.nn.Linear(4, 4)
            self.gate = torch.nn.Linear(4, 4)

        def forward(self, x):
            return self.value(x) * torch.sigmoid(self.gate(x))

    model = Gate()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(torch.randn(3, 4)).square().mean().backward()
    optimizer.step()
    """

    code = "GV704"
    name = "unused_parameter"
    severity = "warning"
    yields_to = (
        "stale_optimizer_params", "requires_grad_false", "not_registered", "broken_weight_tie",
        "function_hides_parameter", "copy_used_instead",
    )  # fmt: skip

    def check(self, case: Case) -> Iterator[Finding]:
        histories = case.histories
        for number, row in refused_targets(histories):
            yield self._refused_target(histories, number, row)
        if _waits_in_vain(case.capture.error):
            yield from self._distributed(histories)
            return
        reduced = {name for each in case.capture.parameters if each.gets_reduced_gradient for name in each.names}
        copies = copies_in_optimizers(histories, forgotten_parameters(histories))
        without_path = {number for found in case.cut_off for number in found.tensors}
        for group in _without(reduced, histories, never_used(histories, case.source_line)):
            if not (copies.keys() | without_path) >= set(group.tensors):
                yield from self._never_used(case, group)
        for term in case.lost_terms:
            yield self._lost(case, term)
        for row, root in losses_of_no_parameter(histories):
            yield self._nothing_in_loss(case, row, root)
        if case.capture.error is None:
            explained = {number for term in case.lost_terms for number in term.parameters}
            explained.update(number for found in case.cut_off for number in found.tensors)
            for group in _without(reduced, histories, used_for_nothing(histories, explained)):
                yield self._used_for_nothing(case, group)
            for cut, tensors in cut_before_hidden_code(histories, explained):
                yield self._cut_before_hidden_code(histories, cut, tensors)
            if elsewhere := used_on_other_threads(histories):
                yield self._used_on_other_threads(histories, elsewhere)

    def _cut_in_compiled_code(
        self, histories: ParameterHistories, group: UnusedParameters, cut: GradientCut, *, is_compiled: bool
    ) -> Finding:
        where = "in compiled code" if is_compiled else "in code that torch.compile left uncompiled"
        verb = "is" if len(group.tensors) == 1 else "are"
        function = cut.function.removeprefix("torch.").removeprefix("nn.functional.")
        off = f"gradients are switched off {where} where {function}() uses" if cut.is_grad_off else ""
        nothing = "nothing that compiled code returns is computed from" if not cut.function else ""
        pronoun = "it" if len(group.tensors) == 1 else "them"
        how = off or nothing or f"{function}() {where} cuts off what is computed from"
        return self.finding(
            f"{histories.together(group.tensors)} {verb} in the optimizer, but {how} {pronoun}",
            symptom="grad_none",
            why="the result of this line does not require grad, and no other way leads from there to the loss"
            if cut.function
            else "forward never uses its result, so the loss does not depend on it",
            fix=_REMEDY_OF_SWITCH
            if cut.is_grad_off
            else f"leave out {function}(), or take what is computed here out of the optimizer"
            if cut.function
            else "use it in forward, or remove it from the model",
            location=Location(cut.file, cut.line)
            if cut.line
            else location_of_line(histories.line_where_made(group.tensors[0])),
            tensors=names_of(histories.flow, group.tensors),
            evidence={"parameters": len(group.tensors)},
        )

    def _never_used(self, case: Case, group: UnusedParameters) -> Iterator[Finding]:
        by_cut: dict[GradientCut | None, list[int]] = {}
        for number in group.tensors:
            names = case.histories.tensor(number).names
            cut = cut_in_compiled_code(case.capture, names) if group.instead is None and not group.is_chosen else None
            by_cut.setdefault(cut, []).append(number)
        for cut, tensors in by_cut.items():
            part = replace(group, tensors=tuple(tensors))
            if part.is_chosen:
                yield self._never_chosen(case.histories, part)
            elif cut is None:
                yield self._unused(case.histories, part)
            else:
                is_compiled = cut not in case.capture.uncompiled_cuts
                yield self._cut_in_compiled_code(case.histories, part, cut, is_compiled=is_compiled)

    def _never_chosen(self, histories: ParameterHistories, group: UnusedParameters) -> Finding:
        steps = len(histories.steps)
        return self.finding(
            f"{histories.together(group.tensors)} got no input in {steps:,} step{'s' * (steps != 1)}: other modules of "
            "the same list were chosen each time",
            severity="note",
            symptom="grad_none",
            why="each module of this list computes with the rows that are chosen for it, and none were",
            fix="look at more steps; if it stays so, check what chooses: whether it is trained, and what balances it",
            location=location_of_line(histories.line_where_made(group.tensors[0])),
            tensors=names_of(histories.flow, group.tensors),
            evidence={"parameters": len(group.tensors), "steps": steps},
        )

    def _unused(self, histories: ParameterHistories, group: UnusedParameters) -> Finding:
        verb = "is" if len(group.tensors) == 1 else "are"
        made = location_of_line(histories.line_where_made(group.tensors[0]))
        hidden = _hidden_code(histories) if group.instead is None else None
        pronoun = "it" if len(group.tensors) == 1 else "them"
        if hidden is not None:
            what = f"no gradient comes back from {hidden.what}"
            why = f"either forward does not call it, or its result is cut off: gradviz cannot see calls {hidden.where}"
            fix = f"check again with {hidden.shown_by} in the environment: then every call is visible"
        elif any(map(histories.is_used_without_gradient, group.tensors)):
            used = f"only what detach() or .data gives of {pronoun} is used, without a gradient"
            what = f"{used}{_instead(histories, group.instead)}"
            why = "for the loss such a copy is a constant"
            fix = "use the parameter itself, or take it out of the optimizer"
        elif group.is_set_by_name:
            what = f"nothing is ever computed from {pronoun}: setattr() gave the model a child that forward never calls"
            why, fix = (
                _NAMES_WITH_DOTS,
                "model.set_submodule(name, module), or setattr() on the parent that has the child",
            )
        else:
            what = f"nothing is ever computed from {pronoun}{_instead(histories, group.instead)}"
            why, fix = "forward never uses it, so the loss does not depend on it", _CALL_OR_REMOVE
        return self.finding(
            f"{histories.together(group.tensors)} {verb} in the optimizer, but {what}",
            severity="note" if group.is_of_library else "warning",
            symptom="grad_none",
            why=why,
            fix=fix,
            location=group.location or made,
            symptom_location=made if group.location and made != group.location else None,
            tensors=names_of(histories.flow, group.tensors),
            evidence={"parameters": len(group.tensors)},
        )

    def _used_for_nothing(self, case: Case, group: UnusedParameters) -> Finding:
        histories = case.histories
        lost = None if group.last is None else overwriting_of(histories.flow, group.last, case.source_line)
        hidden = _hidden_code(histories)
        what, why = "no loss uses the result", _RESULT_IS_LOST
        if lost is not None:
            what += f": {lost.variable} is assigned again before anything reads it"
            fix = _use_it(lost)
        elif hidden is not None:
            what, why, fix = f"no gradient comes back from {hidden.what}", hidden.loses, hidden.look
        elif written := _written_into_data(case, group):
            what, why = f"the result is written into the .data of {written}", _DATA_HAS_NO_HISTORY
            fix = (
                "compute with the result itself: F.linear(x, weight), or torch.func.functional_call(model, weights, x)"
            )
        else:
            fix = "use the result, or remove the computation"
        return self.finding(
            f"{histories.together(group.tensors)} {'is' if len(group.tensors) == 1 else 'are'} used, but {what}",
            symptom="grad_none",
            why=why,
            fix=fix,
            location=group.location if lost is None else lost.overwritten,
            symptom_location=None if lost is None else lost.computed,
            tensors=names_of(histories.flow, group.tensors),
            evidence={"parameters": len(group.tensors)},
        )

    def _cut_before_hidden_code(self, histories: ParameterHistories, cut: Cut, tensors: tuple[int, ...]) -> Finding:
        function = call_words(histories.log.calls[cut.call])
        return self.finding(
            f"no gradient reaches {histories.together(tensors)}: {function} cuts off what is computed from "
            + ("it" if len(tensors) == 1 else "them"),
            symptom="grad_none",
            why="the result of this line does not require grad, and goes into code that torch.compile leaves "
            "uncompiled, where gradviz does not see each call",
            fix=f"leave out {function}, or take what is computed here out of the optimizer; with TORCHDYNAMO_DISABLE=1 "
            "in the environment every call is visible",
            location=location_of_line(histories.flow.line(cut.call_site)),
            tensors=names_of(histories.flow, tensors),
            evidence={"parameters": len(tensors)},
        )

    def _nothing_in_loss(self, case: Case, row: int, root: int) -> Finding:
        histories = case.histories
        group = next(lost_before(histories, row), None)
        maker = histories.flow.newest_producer(root, row)
        made = None if maker is None else location_of_call(histories.flow, maker)
        there = made if group is None else group.location
        who = "a trained parameter" if group is None else histories.together(group.tensors)
        return self.finding(
            f"no trained parameter is in the loss: what was computed from {who} does not go into it",
            severity="error",
            symptom="raises",
            why="a loss has a grad_fn only if something that it was computed from requires grad",
            fix="compute the loss from the output of the model",
            location=there or made,
            symptom_location=location_of_call(histories.flow, row),
            tensors=() if group is None else names_of(histories.flow, group.tensors),
        )

    def _lost(self, case: Case, term: LostTerm) -> Finding:
        flow, lost = case.dataflow, term.overwriting
        name = case.tensor_name(flow.log.calls[term.call].outputs[0].tensor) if lost is None else lost.variable
        here = _line_that_gets(case, term.call)
        who = case.histories.together(term.parameters)
        return self.finding(
            f"{name} is computed{at_line(here)} from {who}, and no loss uses it"
            + ("" if lost is None else f": line {lost.overwritten.line} assigns {lost.variable} again"),
            symptom="grad_none",
            why="what no backward starts from trains nothing",
            fix=f"add {name} to the loss, or leave out its computation" if lost is None else _use_it(lost),
            location=here if lost is None else lost.overwritten,
            symptom_location=None if lost is None else lost.computed,
            tensors=names_of(flow, term.parameters),
            evidence={"parameters": len(term.parameters)},
        )

    def _used_on_other_threads(self, histories: ParameterHistories, tensors: tuple[int, ...]) -> Finding:
        used = f"{histories.together(tensors)} {'is' if len(tensors) == 1 else 'are'} used on another thread"
        return self.finding(
            f"{used}, but no backward reaches what was computed there",
            symptom="grad_none",
            why="calls on other threads are not recorded: the result may be unused, or cut off there",
            fix="look for detach(), no_grad() and item() in the code of that thread, or run it on the main thread",
            location=location_of_line(histories.line_where_made(tensors[0])),
            tensors=names_of(histories.flow, tensors),
            evidence={"parameters": len(tensors)},
        )

    def _refused_target(self, histories: ParameterHistories, number: int, row: int) -> Finding:
        here = location_of_call(histories.flow, row)
        uses = histories.flow.producers(number, row)
        is_fresh = any(use.tensor == number and use.has_grad_fn for use in histories.log.calls[row].inputs)
        made = location_of_call(histories.flow, uses[-1]) if uses else None
        what = "it was made after, or beside, what the loss was computed from" if is_fresh else "no path leads to it"
        return self.finding(
            f"the loss was not computed from {histories.name(number)}, but autograd.grad() needs its gradient: {what}",
            severity="error",
            symptom="raises",
            why="only the very tensor that the computation started with has a gradient, not a copy or a view of it",
            fix="compute the loss from this tensor, or pass the tensor that it was computed from",
            location=made if is_fresh else _where_left_out(histories, number, row) or here,
            symptom_location=here,
            tensors=names_of(histories.flow, [number]),
        )

    def _distributed(self, histories: ParameterHistories) -> Iterator[Finding]:
        last = max(histories.reached_by, default=None)
        reached = histories.reached_by[last] if last is not None else frozenset()
        silent = [n for n in sorted(histories.trained) if histories.tensor(n).requires_grad and n not in reached]
        if last is None or not silent:
            return
        yield self.finding(
            f"{histories.together(silent)} had no influence on the loss of the last backward, but "
            "DistributedDataParallel waits for their gradients",
            severity="error",
            symptom="raises",
            why="DDP exchanges gradients when all parameters of the module have one, and some never get one in a step",
            fix="pass find_unused_parameters=True to DistributedDataParallel, or let every loss use all parameters",
            location=Siblings(histories).where_it_belongs(silent, any_sibling=True)[0],
            symptom_location=location_of_call(histories.flow, last),
            tensors=names_of(histories.flow, silent),
            evidence={"parameters": len(silent)},
        )


_NAMES_WITH_DOTS = "setattr() does not follow the dots of a name into submodules: it adds a child with that very name"


def _without(
    reduced: Collection[str], histories: ParameterHistories, groups: Iterable[UnusedParameters]
) -> Iterator[UnusedParameters]:
    """The groups without parameters that another rank uses: they got a gradient from there."""
    for group in groups:
        tensors = tuple(each for each in group.tensors if not {*histories.tensor(each).names} & {*reduced})
        if tensors:
            yield replace(group, tensors=tensors)


_DATA_HAS_NO_HISTORY = "a tensor and its .data share values, not history: for the loss what was written is a constant"
_RESULT_IS_LOST = "its result is overwritten or not used before backward, so no gradient comes back"
_CALL_OR_REMOVE = "call it in forward, or remove it from the model"
_REMEDY_OF_SWITCH = "compute it outside of torch.no_grad(), or take these parameters out of the optimizer"


class _HiddenCode(NamedTuple):
    """The words for code whose calls are not known."""

    what: str
    where: str
    shown_by: str
    loses: str
    look: str


_COMPILED = _HiddenCode(
    "compiled code",
    "that torch.compile runs",
    "TORCHDYNAMO_DISABLE=1",
    "the result is not used, or it goes without gradient through code that torch.compile leaves uncompiled, where "
    "gradviz does not see each call",
    "look where the result leaves compiled code: a number taken with .item(), a comparison, NumPy, a list",
)
_BELOW_PYTHON = _HiddenCode(
    "code below Python, such as TorchScript",
    "below Python",
    "PYTORCH_JIT=0",
    "the result is not used, or it is cut off in code below Python, where gradviz sees no calls",
    "use the result; if TorchScript does, check again with PYTORCH_JIT=0 in the environment, which shows every call",
)


def _hidden_code(histories: ParameterHistories) -> _HiddenCode | None:
    """What may use a parameter, or cut off its result, where no call is known."""
    if histories.has_compiled_code:
        return _COMPILED
    return _BELOW_PYTHON if histories.has_unseen_code else None


def _line_that_gets(case: Case, row: int) -> Location | None:
    """The line of a call; if it returns the result from a function, the line that gets it."""
    flow = case.dataflow
    line = flow.line_of(row)
    while line is not None and line.caller is not None:
        if not (case.source_line(location_of_line(line)) or "").lstrip().startswith("return "):
            break
        line = flow.log.call_sites[line.caller]
    return location_of_line(line)


def _written_into_data(case: Case, group: UnusedParameters) -> str:
    """The parameter into whose ``.data`` the last call puts the result; "" if it does something else."""
    log = case.dataflow.log
    call = None if group.last is None else log.calls[group.last]
    if call is None or not overwrites(call):
        return ""
    changed = {log.tensors[use.tensor].storage: use.tensor for use in call.changed}
    found = (number for number in log.parameters if log.tensors[number].storage in changed)
    return next((case.histories.name(each) for each in found if each not in changed.values()), "")


def _use_it(lost: Overwriting) -> str:
    name = lost.variable
    return f"use the earlier {name} too ({name} = {name} + ..., or as the input), or rename one of them"


def _instead(histories: ParameterHistories, instead: int | None) -> str:
    if instead is None:
        return ""
    module = histories.name(instead).rpartition(".")[0]
    return f"; {module}, of the same shape, is called twice there"


def _waits_in_vain(error: ScriptError | None) -> bool:
    return error is not None and error.message.startswith("Expected to have finished reduction")


def _where_left_out(histories: ParameterHistories, number: int, row: int) -> Location | None:
    """The line of the last result computed from it, which the loss does not use; else where its neighbour is used.

    Programs list tensors in the order of their use: a bias after its weight, a weight before the next one.
    """
    rows = [
        each for each in histories.flow.descendants(number, until=row, live=True) if histories.log.calls[each].outputs
    ]
    asked = [use.tensor for use in histories.log.calls[row].asked]
    here = asked.index(number)
    before, behind = asked[:here][::-1], asked[here + 1 :]
    is_bias = len(histories.tensor(number).facts.shape) < 2
    beside = [*before, *behind] if is_bias else [*behind, *before]
    rows = rows or [each for other in beside for each in histories.forward_uses(other) if each < row][:1]
    return location_of_call(histories.flow, rows[-1]) if rows else None
