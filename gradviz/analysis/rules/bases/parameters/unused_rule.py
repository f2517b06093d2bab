"""What is told of parameters from which a loss computes nothing, or only what it does not use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from gradviz.analysis.case import Case
from gradviz.analysis.compiled.compiled_functions import cut_in_compiled_code
from gradviz.analysis.dataflow.call_words import at_line, call_words
from gradviz.analysis.dataflow.cuts import Cut
from gradviz.analysis.dataflow.overwritten_variables import overwriting_of
from gradviz.analysis.dataflow.tensor_words import names_of
from gradviz.analysis.finding import Finding, Location, Severity, location_of_line
from gradviz.analysis.parameters.parameter_histories import ParameterHistories
from gradviz.analysis.parameters.unused_parameters import UnusedParameters
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.parameters.hidden_code import hidden_code
from gradviz.analysis.rules.bases.parameters.left_out_of_forward import forward_that_leaves_out
from gradviz.analysis.rules.bases.parameters.lost_results import (
    line_that_keeps_before,
    loop_over_layers,
    use_it,
    written_into_data,
)
from gradviz.analysis.rules.bases.parameters.read_as_numbers import line_that_reads
from gradviz.analysis.rules.bases.parameters.unused_heads import (
    is_not_chosen,
    is_output_left,
    is_scored,
    is_used_by_another_model,
    loop_that_ends_early,
)
from gradviz.graph.compilations import GradientCut


class UnusedRule(Rule):
    """Has the findings on parameters that are in an optimizer and get no gradient."""

    def never_used(self, case: Case, group: UnusedParameters) -> Iterator[Finding]:
        """What is told of parameters from which nothing is computed: apart for each line that cuts them off, or
        that reads their numbers."""
        by_cut: dict[tuple[GradientCut | None, Location | None], list[int]] = {}
        for number in group.tensors:
            names = case.histories.tensor(number).names
            cut = cut_in_compiled_code(case.capture, names) if group.instead is None and not group.is_chosen else None
            read = None if group.is_chosen else line_that_reads(case, number)
            by_cut.setdefault((cut, read), []).append(number)
        for (cut, read), tensors in by_cut.items():
            part = replace(group, tensors=tuple(tensors))
            if part.is_chosen:
                yield self._never_chosen(case.histories, part)
            elif cut is None:
                yield self._unused(case, part, read)
            else:
                is_compiled = cut not in case.capture.uncompiled_cuts
                yield self._cut_in_compiled_code(case.histories, part, cut, is_compiled=is_compiled)

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

    def _unused(self, case: Case, group: UnusedParameters, read: Location | None) -> Finding:
        """`read` is the line that reads them as numbers, if there is one."""
        histories = case.histories
        severity: Severity = "note" if group.is_of_library else "warning"
        verb = "is" if len(group.tensors) == 1 else "are"
        made = location_of_line(histories.line_where_made(group.tensors[0]))
        hidden = hidden_code(histories) if group.instead is None else None
        pronoun = "it" if len(group.tensors) == 1 else "them"
        left_out = None
        if hidden is not None:
            what = f"no gradient comes back from {hidden.what}"
            why = f"either forward does not call it, or its result is cut off: gradviz cannot see calls {hidden.where}"
            fix = f"check again with {hidden.shown_by} in the environment: then every call is visible"
        elif any(map(histories.is_used_without_gradient, group.tensors)):
            used = f"only what detach() or .data gives of {pronoun} is used, without a gradient"
            what = f"{used}{_instead(histories, group)}"
            why = "for the loss such a copy is a constant"
            fix = "use the parameter itself, or take it out of the optimizer"
        elif read is not None:
            its = "its number is" if len(group.tensors) == 1 else "their numbers are"
            what = f"only {its} read{at_line(read)}: no gradient comes back from there"
            why = f"for the loss a Python number is a constant, and nothing else is computed from {pronoun}"
            fix = f"compute with the parameter itself there, or take {pronoun} out of the optimizer"
        elif group.is_set_by_name:
            what = f"nothing is ever computed from {pronoun}: setattr() gave the model a child that forward never calls"
            why, fix = (
                _NAMES_WITH_DOTS,
                "model.set_submodule(name, module), or setattr() on the parent that has the child",
            )
        elif histories.is_only_copied(group.tensors[0]):
            what = f"only a copy of the model, which follows {pronoun}, uses {pronoun}"
            why, fix = "forward never uses it, so the loss does not depend on it", _CALL_OR_REMOVE
            left_out = forward_that_leaves_out(case, group.tensors[0])
            group = replace(group, location=None)  # the line that copies them
        elif group.instead is None and is_not_chosen(case, group):
            severity = "note"
            what = f"nothing is computed from {pronoun}: the program chose other parts of the model"
            why, fix = "forward uses the part that it is told, and this one was not asked for", _IF_MEANT
        elif group.instead is None and is_used_by_another_model(case, group):
            severity = "note"
            what = f"nothing is computed from {pronoun}: only another model of this class uses its own"
            why, fix = "this model was trained with a setting that does not need that part", _IF_MEANT
        else:
            what = f"nothing is ever computed from {pronoun}{_instead(histories, group)}"
            why, fix = "forward never uses it, so the loss does not depend on it", _CALL_OR_REMOVE
            left_out = forward_that_leaves_out(case, group.tensors[0])
        here = read or (group.location if left_out is None else left_out[0])
        return self.finding(
            f"{histories.together(group.tensors)} {verb} in the optimizer, but {what}",
            severity=severity,
            symptom="grad_none",
            why=why,
            fix=fix,
            location=here or made,
            symptom_location=made if here and made != here else None,
            tensors=names_of(histories.flow, group.tensors),
            evidence={"parameters": len(group.tensors)},
        )

    def all_used_for_nothing(self, case: Case, groups: Iterable[UnusedParameters]) -> Iterator[Finding]:
        """What is told of parameters of which only results are computed that no loss uses; once for each loop over
        layers, whose results are lost on several lines."""
        loops: dict[tuple[Location, tuple[str, str]], UnusedParameters] = {}
        for group in groups:
            loop = loop_over_layers(case, group)
            words = _KEPT_BEFORE if loop is None else _ONLY_THE_LAST
            line = loop or (None if group.is_of_library else line_that_keeps_before(case, group))
            if line is None:
                yield self.used_for_nothing(case, group)
            else:
                known = loops.setdefault((line, words), replace(group, tensors=(), location=line))
                loops[line, words] = replace(known, tensors=(*known.tensors, *group.tensors))
        for (_, words), group in loops.items():
            yield self._of_loop(case, group, *words)

    def _of_loop(self, case: Case, group: UnusedParameters, what: str, fix: str) -> Finding:
        return self.finding(
            f"{case.histories.together(group.tensors)} are used, but no loss uses the result: {what}",
            symptom="grad_none",
            why=_RESULT_IS_LOST,
            fix=fix,
            location=group.location,
            tensors=names_of(case.dataflow, group.tensors),
            evidence={"parameters": len(group.tensors)},
        )

    def used_for_nothing(self, case: Case, group: UnusedParameters) -> Finding:
        """What is told of parameters of which only results are computed that no loss uses."""
        histories = case.histories
        lost = None if group.last is None else overwriting_of(histories.flow, group.last, case.source_line)
        hidden = hidden_code(histories)
        severity: Severity = "warning"
        what, why = "no loss uses the result", _RESULT_IS_LOST
        location = group.location if lost is None else lost.overwritten
        if lost is not None:
            what += f": {lost.variable} is assigned again before anything reads it"
            fix = use_it(lost)
        elif hidden is not None:
            what, why, fix = f"no gradient comes back from {hidden.what}", hidden.loses, hidden.look
        elif written := written_into_data(case, group):
            what, why = f"the result is written into the .data of {written}", _DATA_HAS_NO_HISTORY
            fix = (
                "compute with the result itself: F.linear(x, weight), or torch.func.functional_call(model, weights, x)"
            )
        elif is_output_left(case, group) and (loop := loop_that_ends_early(case, group)) is not None:
            what += ", though the other results of the same line are used"
            fix, location = "use it in the loss, too: zip() ends with the shortest of its lists", loop
        elif is_output_left(case, group) and is_scored(case, group):
            what += ", though the program uses the same one where gradients are off"
            fix = "use it in the loss, too"
        elif group.is_of_library or is_output_left(case, group):
            severity = "note"
            fix = _IF_MEANT
        else:
            fix = "use the result, or remove the computation"
        return self.finding(
            f"{histories.together(group.tensors)} {'is' if len(group.tensors) == 1 else 'are'} used, but {what}",
            severity=severity,
            symptom="grad_none",
            why=why,
            fix=fix,
            location=location,
            symptom_location=None if lost is None else lost.computed,
            tensors=names_of(histories.flow, group.tensors),
            evidence={"parameters": len(group.tensors)},
        )

    def cut_before_hidden_code(self, histories: ParameterHistories, cut: Cut, tensors: tuple[int, ...]) -> Finding:
        """What is told of parameters that a line cuts off before code in which no calls are known."""
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

    def used_out_of_sight(self, histories: ParameterHistories, tensors: tuple[int, ...]) -> Finding:
        """What is told of parameters whose uses were not recorded."""
        are = "is" if len(tensors) == 1 else "are"
        if histories.tensor(tensors[0]).is_in_script:
            where, why = "inside of TorchScript", "calls inside of TorchScript"
            fix = "check again with PYTORCH_JIT=0 in the environment, which shows every call"
        else:
            where, why = "on another thread", "calls on other threads"
            fix = "look for detach(), no_grad() and item() in the code of that thread, or run it on the main thread"
        return self.finding(
            f"{histories.together(tensors)} {are} used {where}, but no backward reaches what was computed there",
            symptom="grad_none",
            why=f"{why} are not recorded: the result may be unused, or cut off there",
            fix=fix,
            location=location_of_line(histories.line_where_made(tensors[0])),
            tensors=names_of(histories.flow, tensors),
            evidence={"parameters": len(tensors)},
        )


_ONLY_THE_LAST = (
    "this line calls one layer after the other, and only the result of the last one is used",
    "give each layer what the one before has returned, x = layer(x), or keep the results of all of them",
)
_KEPT_BEFORE = (
    "this line keeps what each layer takes, and so not what the last one returns",
    "keep the result behind the layer, or that of the last one behind the loop as well",
)
_NAMES_WITH_DOTS = "setattr() does not follow the dots of a name into submodules: it adds a child with that very name"
_DATA_HAS_NO_HISTORY = "a tensor and its .data share values, not history: for the loss what was written is a constant"
_RESULT_IS_LOST = "its result is overwritten or not used before backward, so no gradient comes back"
_IF_MEANT = (
    "nothing, if that model computes more than this loss needs; else use the result, or take these parameters out of "
    "the optimizer"
)
_CALL_OR_REMOVE = "call it in forward, or remove it from the model"
_REMEDY_OF_SWITCH = "compute it outside of torch.no_grad(), or take these parameters out of the optimizer"


def _instead(histories: ParameterHistories, group: UnusedParameters) -> str:
    if group.instead is None:
        return ""
    own, other = (histories.name(each).split(".") for each in (group.tensors[0], group.instead))
    apart = next((level for level, (one, two) in enumerate(zip(own, other, strict=True)) if one != two), -1)
    return f"; {'.'.join(other[: apart + 1])}, of the same shape, is called twice there"
