"""Tensors that do not require grad although the program needs their gradient."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterator, Sequence
from itertools import permutations, takewhile

from msgspec import Struct

from gradviz.analysis.dataflow.refused_calls import frozen_above, is_refused_hook, refused_roots
from gradviz.analysis.finding import Location, location_of_line
from gradviz.analysis.parameters.frozen_by_default import TextOf, picked_by_program
from gradviz.analysis.parameters.parameter_histories import GIVES_A_GRADIENT, ParameterHistories
from gradviz.analysis.parameters.unused_parameters import is_made_by_library
from gradviz.capture.capture import ScriptError
from gradviz.graph.call_log import Call, TensorUse


def found_no_parameters(error: ScriptError | None) -> bool:
    """Whether the program ended because an optimizer got nothing."""
    return error is not None and "empty parameter list" in error.message


def asked_without_flag(histories: ParameterHistories) -> Iterator[tuple[int, int]]:
    """Leaves whose gradient is requested, with the call that requests it; only leaves that were used."""
    read = frozenset(histories.reads_of_no_gradient)
    for row, call in enumerate(histories.log.calls):
        if row in read:
            asked = call.inputs[:1]
        elif is_refused_hook(call):
            leaves = _leaves_above(histories, refused_roots(call), row)
            asked = () if _parameters(histories, leaves) else call.inputs[:1]
        elif call.kind == "backward" and call.raised is not None:
            asked = call.asked
        else:
            continue
        yield from ((use.tensor, row) for use in asked if _is_meant(histories, use, row))


def _is_meant(histories: ParameterHistories, use: TensorUse, row: int) -> bool:
    if use.requires_grad or not histories.tensor(use.tensor).facts.is_differentiable:
        return False
    is_cut = any(
        use.tensor in cut.dead_outputs and cut.kind != "requires_grad_off"
        for cut in histories.flow.cuts_reaching(use.tensor, before=row)
    )
    return not is_cut and any(each < row for each in histories.forward_uses(use.tensor))


def loss_of_frozen(histories: ParameterHistories) -> Iterator[tuple[int, list[int]]]:
    """Calls refused because no leaf above a tensor requires grad, although nothing is cut; with these leaves."""
    for row, call in enumerate(histories.log.calls):
        roots = refused_roots(call)
        if not roots or not histories.flow.is_by_program(call):
            continue
        above = {each for root in roots for each in histories.flow.ancestors(root, before=row)}
        asked = {use.tensor for use in call.asked if use.requires_grad}
        if any(_uses_what_trains(histories, each) or _takes(histories, each, asked) for each in above):
            continue
        frozen = frozen_above(histories.flow, row, histories.trained)
        if frozen:
            yield row, frozen
            continue
        cuts = (cut for root in roots for cut in histories.flow.cuts_reaching(root, before=row))
        if any(cut.kind != "requires_grad_off" for cut in cuts):
            continue
        leaves = _leaves_above(histories, roots, row)
        to_train = [number for number in leaves if number in histories.trained]
        parameters = _parameters(histories, leaves)
        if histories.trained and not to_train and not parameters:
            continue  # It uses no model at all.
        others = [number for number in leaves if histories.tensor(number).names][-1:]
        if to_train or parameters or others:
            yield row, to_train or parameters or others


def _parameters(histories: ParameterHistories, leaves: list[int]) -> list[int]:
    return [number for number in leaves if histories.tensor(number).role == "parameter"]


def _uses_what_trains(histories: ParameterHistories, row: int) -> bool:
    """Whether calls inside of another one used tensors that require grad, as in a reentrant checkpoint, which loses
    them."""
    return any(histories.log.calls[inner].live_inputs for inner in histories.flow.inside(row))


def _takes(histories: ParameterHistories, row: int, asked: Container[int]) -> bool:
    """Whether a call got one of the tensors of which gradients are asked, which require grad: where its result does
    not, gradients are off."""
    return any(use.tensor in asked for use in histories.log.calls[row].live_inputs)


def _leaves_above(histories: ParameterHistories, roots: Sequence[int], before: int) -> list[int]:
    """The leaves above the roots, and computed tensors that an optimizer holds, the newest last."""
    found: dict[int, None] = {}
    for root in roots:
        for row in histories.flow.ancestors(root, before=before):
            for use in histories.log.calls[row].inputs:
                makers = histories.flow.producers(use.tensor, row)
                is_given = use.tensor in histories.trained or all(
                    not histories.log.calls[maker].inputs or _only_fills(histories.log.calls[maker]) for maker in makers
                )
                if is_given and histories.tensor(use.tensor).facts.is_differentiable:
                    found[use.tensor] = None
    return sorted(found, key=lambda number: histories.made_by(number) or 0)


def _only_fills(call: Call) -> bool:
    return all(use.tensor == call.inputs[0].tensor for use in call.outputs)


def frozen_in_optimizer(histories: ParameterHistories, text_of: TextOf) -> Iterator[tuple[list[int], int | None]]:
    """Tensors that an optimizer holds but never trains, and the call that froze them, if that came later.

    A whole model in an optimizer, with a part of it frozen before, is no mistake. These show that training was meant:
    the tensors required grad when the optimizer got them; a whole group, or a whole model beside others, never did;
    or they are no parameters of a module, nor constants of a library, so the program chose them one by one; or a
    default froze them, and the program chose them beside others. One that trained for a while counts only if it was
    frozen again and again: freezing once may be a plan, as in the stages of a training.
    """
    by_hand = _moved_by_given_gradients(histories)
    for number, optimizer in enumerate(histories.log.optimizers):
        if number not in histories.steps_by_optimizer:
            continue
        # Another optimizer may have trained them before, as in a pretraining.
        steps = (histories.log.calls[row] for row in histories.steps_by_optimizer[number])
        live = {use.tensor for step in steps for use in step.inputs if use.requires_grad}
        told = set(by_hand)
        for group in optimizer.groups:
            given = [tensor for tensor in group if tensor not in by_hand]
            never = [tensor for tensor in given if tensor not in live or _is_frozen_repeatedly(histories, tensor)]
            late: dict[int, list[int]] = defaultdict(list)
            for tensor in never:
                row = _frozen_after(histories, tensor, number)
                if row is not None:
                    late[row].append(tensor)
            if late:
                found = [tensor for tensors in late.values() for tensor in tensors]
            elif never and len(never) == len(group):
                found = never
            else:
                plain = [tensor for tensor in never if _is_chosen_alone(histories, tensor)]
                whole = _whole_models(histories, group, never)
                found = plain or [tensor for tensor in whole if histories.tensor(tensor).role == "parameter"]
            if found:
                told.update(found)
                yield found, min(late, default=None)
        picked = [each for each in picked_by_program(histories, number, text_of) if each not in told]
        if picked:
            yield picked, None


def _is_chosen_alone(histories: ParameterHistories, number: int) -> bool:
    """Whether a tensor belongs to no module: a library may list its constants with the parameters of a model."""
    return histories.tensor(number).role == "tensor" and not is_made_by_library(histories, number)


def _moved_by_given_gradients(histories: ParameterHistories) -> frozenset[int]:
    """Tensors that steps move by what the program assigns to their ``.grad``, which needs no ``requires_grad``: a
    direction that it computed itself, or the gradient of a copy."""
    calls = (call for call in histories.log.calls if call.function == GIVES_A_GRADIENT and len(call.inputs) > 1)
    given = {call.inputs[0].tensor for call in calls}
    return frozenset(tensor for tensor in given if histories.tensor(tensor).is_moved is not False)


class TiedToFrozen(Struct, frozen=True):
    """A parameter of two modules: it is frozen, as all of one module is, while the other module trains."""

    tensor: int
    trained: str
    """Its name in the module that trains."""
    frozen: str
    """Its name in the other one."""


def tied_to_frozen(histories: ParameterHistories) -> Iterator[TiedToFrozen]:
    """Those that no optimizer trains, in programs that train at least a third of what they use, and not only biases:
    adapters and the training of biases leave the rest frozen on purpose."""
    used = [number for number in histories.log.parameters if histories.forward_uses(number)]
    sizes = {number: histories.tensor(number).facts.elements or 0 for number in used}
    trained = {number for number in used if histories.is_ever_stepped_live(number)}
    if _MIN_SHARE * sum(sizes[number] for number in trained) < sum(sizes.values()):
        return
    for number in used:
        tensor = histories.tensor(number)
        if number in trained or len(tensor.facts.shape) == 1 or histories.requires_grad_at_last(number):
            continue
        for one, other in permutations(tensor.names, 2):
            depth = _shared_words(one, other)
            in_one, in_other = (depth and _trains_below(histories, each, depth, trained) for each in (one, other))
            if in_one and not in_other:
                yield TiedToFrozen(number, one, other)
                break


_MIN_SHARE = 3


def _shared_words(one: str, other: str) -> int:
    """How many words two names of parameters have in common, from the outermost module inwards."""
    pairs = zip(one.split("."), other.split("."), strict=False)
    return len(list(takewhile(lambda pair: pair[0] == pair[1], pairs)))


def _trains_below(histories: ParameterHistories, name: str, depth: int, trained: set[int]) -> bool:
    """Whether anything trains in the part of a model that a name belongs to, so many words from the outermost."""
    part = ".".join(name.split(".")[: depth + 1])
    return not trained.isdisjoint(histories.parameters_below(part))


def _is_frozen_repeatedly(histories: ParameterHistories, tensor: int) -> bool:
    """Whether several calls froze it, none of them unfreezes it, and it was not trained after the first."""
    changes = histories.flag_changes(tensor)
    frozen = [row for row, flag in changes if not flag]
    if len(frozen) < _MIN_FREEZING or len(frozen) < len(changes):
        return False
    later = [step for step in histories.steps if step > frozen[0] and _is_held_by(histories, tensor, step)]
    return len(later) >= _MIN_FREEZING and not any(
        use.requires_grad for step in later for use in histories.log.calls[step].inputs if use.tensor == tensor
    )


_MIN_FREEZING = 2


def _is_held_by(histories: ParameterHistories, tensor: int, step: int) -> bool:
    return any(use.tensor == tensor for use in histories.log.calls[step].inputs)


def _whole_models(histories: ParameterHistories, group: Sequence[int], never: Sequence[int]) -> list[int]:
    """Those that are all that the group has of a model: the program named this model when it filled the group."""
    living = {_model(histories, number) for number in group if number not in set(never)}
    return [number for number in never if (model := _model(histories, number)) and model not in living]


def _model(histories: ParameterHistories, number: int) -> str:
    """The variable that holds the model of a parameter; empty if it is a part of nothing."""
    model, dot, _ = histories.name(number).partition(".")
    return model if dot else ""


def _frozen_after(histories: ParameterHistories, tensor: int, optimizer: int) -> int | None:
    """The call that froze the tensor after the optimizer had got it, when it still required grad."""
    given, use = histories.first_given(optimizer).get(tensor, (0, None))
    if use is None or not use.requires_grad:
        return None
    return next((row for row, flag in histories.flag_changes(tensor) if row > given and not flag), None)


def location_of_flag(histories: ParameterHistories, row: int) -> Location | None:
    """The line that set the flag; if it is in a function that several lines call, the line that called it."""
    line = histories.flow.line_of(row)
    if line is None or line.caller is None:
        return location_of_line(line)
    callers = histories.callers_of_flagging[line.file, line.line]
    return location_of_line(histories.flow.line(line.caller) if len(callers) > 1 else line)
