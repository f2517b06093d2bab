"""GV701."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import location_of_call
from gradviz.analysis.dataflow.layer_calls import is_training
from gradviz.analysis.dataflow.refused_calls import is_refused_hook, refused_roots
from gradviz.analysis.dataflow.tensor_words import names_of, optimizer_words
from gradviz.analysis.finding import CutSeen, Finding, Location
from gradviz.analysis.parameters.frozen_by_default import frozen_when_made
from gradviz.analysis.parameters.frozen_parameters import (
    TiedToFrozen,
    asked_without_flag,
    found_no_parameters,
    frozen_in_optimizer,
    location_of_flag,
    loss_of_frozen,
    tied_to_frozen,
)
from gradviz.analysis.parameters.parameter_histories import ParameterHistories
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.sources.guarded_updates import guards_own_update
from gradviz.analysis.rules.bases.sources.lines.lines_of_freezing import (
    line_of_tie,
    location_where_flagged,
    switch_without_effect,
    told_at_iterator,
    told_at_switch,
    used_up_iterator,
)
from gradviz.analysis.rules.bases.sources.own_files import own_files


class RequiresGradFalse(Rule):
    """The program needs the gradient of a tensor that does not require grad.

    What it finds
    -------------
    A tensor whose ``.grad`` is read, or that is passed to `torch.autograd.grad`, but that never required grad, also
    where the program only moves it if it has one; a loss,
    or a tensor that should get a hook, if everything that it was computed from is frozen; parameters that were frozen
    after an optimizer got them, and stay so; a parameter group in which every tensor is frozen; an embedding that
    ``from_pretrained`` froze by default, if an optimizer got it without the module around it, or a group of an
    optimizer is empty (else a note); a parameter of a module that trains, if it is that of a frozen module as well. A
    frozen part of a model is no finding.

    Why it matters
    --------------
    Autograd records only operations on tensors that require grad. Other tensors get no ``.grad``, and an optimizer
    skips them without a message.

    Example
    -------
    model = torch.nn.Linear(4, 2)
    x = torch.randn(3, 4)
    model(x).sum().backward()
    print(x.grad)

    Instead
    -------
    model = torch.nn.Linear(4, 2)
    x = torch.randn(3, 4, requires_grad=True)
    model(x).sum().backward()
    print(x.grad)
    """

    code = "GV701"
    name = "requires_grad_false"
    severity = "error"
    yields_to = ("copied_onto_itself",)

    def check(self, case: Case) -> Iterator[Finding]:
        histories = case.histories
        if found_no_parameters(case.capture.error):
            yield from self._nothing_for_optimizer(histories)
            return
        reported: set[int] = set()
        lines = defaultdict[tuple[Location | None, Location | None], set[str]](set)
        for number, row in asked_without_flag(histories):
            if number not in reported and not _goes_on_without(case, number, row):
                reported.add(number)
                line = location_where_flagged(histories, number), location_of_call(histories.flow, row)
                tensor = histories.tensor(number)
                if line in lines and tensor.role == "tensor" and lines[line].issuperset(tensor.names):
                    continue  # a tensor like one that was told, of an earlier step
                lines[line].update(tensor.names)
                yield self._asked(histories, number, row, is_raised=case.capture.error is not None)
        if reported:
            return
        for row, tensors in loss_of_frozen(histories):
            yield self._loss(case, histories, row, tensors)
            return
        told = set[int]()
        for frozen, freezing in frozen_in_optimizer(histories, case.source_line):
            told.update(frozen)
            if all(_is_normalization_at_rest(histories, each) for each in frozen):
                continue
            made = frozen_when_made(histories, frozen[0], case.source_line)
            found = self._in_optimizer(histories, frozen, freezing, made)
            switch = switch_without_effect(case, frozen)
            used = None if found.location is None else used_up_iterator(case, found.location)
            if switch is not None:
                found = told_at_switch(found, *switch)
            elif used is not None:
                found = told_at_iterator(found, used)
            yield found
        for tied in tied_to_frozen(histories):
            yield self._tied(case, tied)
        for number in histories.log.parameters if histories.reached_by else ():
            made = None if number in told else frozen_when_made(histories, number, case.source_line)
            if made is not None and histories.forward_uses(number):
                yield self._by_default(histories, number, made)

    def _nothing_for_optimizer(self, histories: ParameterHistories) -> Iterator[Finding]:
        """An optimizer got an empty list, because the program left out what is frozen, and that is everything."""
        frozen = [
            n
            for n in histories.log.parameters
            if (changes := histories.flag_changes(n)) and not changes[-1][1] and histories.tensor(n).names
        ]
        if frozen:
            yield self.finding(
                f"an optimizer got no parameters: {histories.together(frozen)} {'is' if len(frozen) == 1 else 'are'} "
                "frozen",
                symptom="raises",
                why="the program gives the optimizer only what requires grad, and nothing is left",
                fix="freeze only what should not train, or unfreeze the rest before the optimizer is made",
                location=location_where_flagged(histories, frozen[0]),
                tensors=names_of(histories.flow, frozen),
                evidence={"parameters": len(frozen)},
            )

    def _asked(self, histories: ParameterHistories, number: int, row: int, *, is_raised: bool) -> Finding:
        flag = location_where_flagged(histories, number)
        return self.finding(
            f"{histories.name(number)} does not require grad, so backward() leaves its .grad at None",
            symptom="raises" if is_raised else "grad_none",
            why="autograd does not record operations on inputs of which none requires grad",
            fix="call requires_grad_() on it before its first use, or make it with requires_grad=True",
            location=flag,
            symptom_location=location_of_call(histories.flow, row),
            tensors=names_of(histories.flow, [number]),
        )

    def _loss(self, case: Case, histories: ParameterHistories, row: int, tensors: list[int]) -> Finding:
        call = histories.log.calls[row]
        root = refused_roots(call)[0]
        what, why, fix = (histories.name(root), *_NO_HOOK) if is_refused_hook(call) else ("the loss", *_NO_GRAD_FN)
        return self.finding(
            f"nothing that {what} was computed from requires grad: {histories.together(tensors)} "
            f"{'does' if len(tensors) == 1 else 'do'} not",
            symptom="raises",
            why=why,
            fix=fix,
            location=location_where_flagged(histories, tensors[0]),
            symptom_location=location_of_call(histories.flow, row),
            tensors=names_of(histories.flow, tensors),
            cut=CutSeen("requires_grad=False", root=case.backward_calls.refused_root(row, root)),
        )

    def _tied(self, case: Case, tied: TiedToFrozen) -> Finding:
        histories = case.histories
        frozen, tie = location_where_flagged(histories, tied.tensor), line_of_tie(case, tied)
        return self.finding(
            f"{tied.trained} is {tied.frozen}, which is frozen: the rest of that module trains, and this does not",
            severity="warning",
            symptom="grad_none",
            why="two names for one parameter: who freezes it under one of them freezes it under the other",
            fix=f"unfreeze it, or give {tied.trained.rpartition('.')[0]} a parameter of its own",
            location=tie or frozen,
            symptom_location=frozen if tie not in (None, frozen) else None,
            tensors=names_of(histories.flow, [tied.tensor]),
        )

    def _by_default(self, histories: ParameterHistories, number: int, made: Location) -> Finding:
        made_empty = (each for each in histories.log.optimizers if any(each.groups) and not all(each.groups))
        empty = next(made_empty, None)
        missed = "" if empty is None else f", and a parameter group of {optimizer_words(empty)} is empty"
        return self.finding(
            f"{histories.name(number)} does not train: from_pretrained() froze it, as this line does not say freeze="
            + missed,
            severity="note" if empty is None else "warning",
            symptom="grad_none",
            why="nn.Embedding.from_pretrained() freezes what it makes unless it is told not to",
            fix="pass freeze=False if it should train, and freeze=True if it should not",
            location=made,
            tensors=names_of(histories.flow, [number]),
        )

    def _in_optimizer(
        self, histories: ParameterHistories, tensors: list[int], row: int | None, made: Location | None
    ) -> Finding:
        one = len(tensors) == 1
        it = "it" if one else "them"
        who = f"{histories.together(tensors)} {'is' if one else 'are'} in the optimizer"
        has_trained = any(histories.is_ever_stepped_live(each) for each in tensors)
        trains = f"train{'s' if one else ''}"
        joined = None if row is not None or made is not None else _where_it_joined(histories, tensors[0])
        return self.finding(
            f"{who}, but {f'no longer {trains} after some steps' if has_trained else f'never {trains}'}: "
            + (
                f"{'it was' if one else 'they were'} frozen after the optimizer got {it}, and nothing unfreezes {it}"
                if row is not None
                else f"{'it was' if one else 'they were'} frozen when the optimizer got {it}, after its first steps"
                if joined is not None
                else f"{'it does' if one else 'they do'} not require grad"
            ),
            severity="warning",
            symptom="grad_none",
            why="a tensor that does not require grad gets no .grad, and the optimizer skips it",
            fix=_UNFREEZE if made is None else _NO_DEFAULT,
            location=location_of_flag(histories, row)
            if row is not None
            else made or joined or location_where_flagged(histories, tensors[0]),
            symptom_location=None if joined is None else location_where_flagged(histories, tensors[0]),
            tensors=names_of(histories.flow, tensors),
            evidence={"parameters": len(tensors)},
        )


def _where_it_joined(histories: ParameterHistories, number: int) -> Location | None:
    """The line that gave a frozen tensor to an optimizer which had made steps before: it was to train from there on."""
    for optimizer in histories.optimizers_of(number):
        row, use = histories.first_given(optimizer).get(number, (None, None))
        steps = histories.steps_by_optimizer.get(optimizer, [])
        if row is not None and use is not None and not use.requires_grad and steps and steps[0] < row:
            return location_of_call(histories.flow, row)
    return None


_UNFREEZE = "unfreeze what should train (check which names the call really matches); remove the rest from the optimizer"
_NO_DEFAULT = (
    "from_pretrained() freezes what it makes unless it is told not to: pass freeze=False, or leave this out of the "
    "optimizer"
)
_NO_GRAD_FN = (
    "a loss has a grad_fn only if something that it was computed from requires grad",
    "set requires_grad on what should train, before the loss is computed",
)
_NO_HOOK = (
    "a tensor gets a gradient only if something that it was computed from requires grad, so the hook would never run",
    "call requires_grad_() on the input before its first use: then a frozen model can stay frozen",
)


_ASKS = re.compile(r"\.grad\s+is\s+(not\s+)?None|\b(if|and|or|not)\s+([\w.]+\.grad\b(?!\.)|\w+\([\w.]+\.grad\))")


def _is_normalization_at_rest(histories: ParameterHistories, number: int) -> bool:
    """Whether a frozen factor or shift belongs to a batch normalization whose statistics rest, too, while the model
    trains: to stop all of it is usual in fine-tuning."""
    calls = (histories.log.calls[row] for row in reversed(histories.forward_uses(number)))
    training = (call for call in calls if any(use.requires_grad for use in call.outputs))
    last = next(training, None)
    return last is not None and is_training(last) is False


def _goes_on_without(case: Case, number: int, row: int) -> bool:
    """Whether the line that reads a gradient asks whether it is there: then it goes on without it.

    A tensor that no module has, and that is only moved by its own gradient, should have one.
    """
    location = location_of_call(case.dataflow, row)
    if location is None or not _ASKS.search(case.source_line(location) or ""):
        return False
    if case.dataflow.log.tensors[number].role != "tensor":
        return True
    return not any(guards_own_update(tree, location.line) for file, tree in own_files(case) if file == location.file)
