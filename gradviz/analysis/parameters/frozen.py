"""Tensors that do not require grad though a gradient is wanted of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from gradviz.analysis.dataflow.refusals import is_refused_hook, refused_roots
from gradviz.analysis.finding import Place, place_of_line
from gradviz.analysis.parameters.parameter_fates import ParameterFates
from gradviz.graph.call_log import Call, TensorUse

_FLOATING = ("float", "bfloat", "complex")


def asked_without_flag(fates: ParameterFates) -> Iterator[tuple[int, int]]:
    """Leaves of which a gradient is asked for, with the call that asks; only what something was computed from."""
    read = frozenset(fates.reads_of_no_gradient)
    for row, call in enumerate(fates.log.calls):
        if row in read:
            asked = call.inputs[:1]
        elif is_refused_hook(call):
            asked = () if _parameters(fates, _leaves_above(fates, refused_roots(call), row)) else call.inputs[:1]
        elif call.kind == "backward" and call.raised is not None:
            asked = call.asked
        else:
            continue
        yield from ((use.tensor, row) for use in asked if _is_meant(fates, use, row))


def _is_meant(fates: ParameterFates, use: TensorUse, row: int) -> bool:
    if use.requires_grad or not fates.tensor(use.tensor).facts.dtype.startswith(_FLOATING):
        return False
    is_cut = any(use.tensor in cut.dead_outputs for cut in fates.flow.cuts_reaching(use.tensor, before=row))
    return not is_cut and any(each < row for each in fates.forward_uses(use.tensor))


def loss_of_frozen(fates: ParameterFates) -> Iterator[tuple[int, list[int]]]:
    """Calls refused for a tensor above which nothing requires grad and nothing is cut, with what should have."""
    for row, call in enumerate(fates.log.calls):
        roots = refused_roots(call)
        if not roots or not fates.flow.is_in_plain_sight(call):
            continue
        if any(_uses_what_trains(fates, above) for root in roots for above in fates.flow.ancestors(root, before=row)):
            continue
        cuts = (cut for root in roots for cut in fates.flow.cuts_reaching(root, before=row))
        if any(cut.kind != "requires_grad_off" for cut in cuts):
            continue
        leaves = _leaves_above(fates, roots, row)
        to_train = [number for number in leaves if number in fates.trained]
        parameters = _parameters(fates, leaves)
        others = [number for number in leaves if fates.tensor(number).names][-1:]
        if to_train or parameters or others:
            yield row, to_train or parameters or others


def _parameters(fates: ParameterFates, leaves: list[int]) -> list[int]:
    return [number for number in leaves if fates.tensor(number).role == "parameter"]


def _uses_what_trains(fates: ParameterFates, row: int) -> bool:
    """Whether calls inside of another one took what requires grad: as in a reentrant checkpoint, where it is lost."""
    return any(fates.log.calls[inner].live_inputs for inner in fates.flow.inside(row))


def _leaves_above(fates: ParameterFates, roots: Sequence[int], before: int) -> list[int]:
    """What the loss was computed from and nobody computed, or an optimizer has all the same, the newest last."""
    found: dict[int, None] = {}
    for root in roots:
        for row in fates.flow.ancestors(root, before=before):
            for use in fates.log.calls[row].inputs:
                makers = fates.flow.producers(use.tensor, row)
                is_given = use.tensor in fates.trained or all(
                    not fates.log.calls[maker].inputs or _only_fills(fates.log.calls[maker]) for maker in makers
                )
                if is_given and fates.tensor(use.tensor).facts.dtype.startswith(_FLOATING):
                    found[use.tensor] = None
    return sorted(found, key=lambda number: fates.made_by(number) or 0)


def _only_fills(call: Call) -> bool:
    return all(use.tensor == call.inputs[0].tensor for use in call.outputs)


def frozen_in_optimizer(fates: ParameterFates) -> Iterator[tuple[list[int], int | None]]:
    """What an optimizer steps though it never trains, and the call that froze it, if that came after.

    A model that was given whole, with a part of it frozen before, is no mistake. What shows that training was meant:
    the tensors required grad when the optimizer got them, or all of a group never did, or they are no parameters of a
    module, so that somebody chose them one by one.
    """
    for number, optimizer in enumerate(fates.log.optimizers):
        if not any(fates.log.calls[row].optimizer == number for row in fates.steps):
            continue
        for group in optimizer.groups:
            never = [tensor for tensor in group if not fates.is_ever_stepped_live(tensor)]
            late: dict[int, list[int]] = defaultdict(list)
            for tensor in never:
                row = _frozen_after(fates, tensor, number)
                if row is not None:
                    late[row].append(tensor)
            if late:
                yield [tensor for tensors in late.values() for tensor in tensors], min(late)
            elif never and len(never) == len(group):
                yield never, None
            elif plain := [tensor for tensor in never if fates.tensor(tensor).role == "tensor"]:
                yield plain, None


def _frozen_after(fates: ParameterFates, tensor: int, optimizer: int) -> int | None:
    """The call that froze the tensor when the optimizer had it, and it required grad."""
    given, use = fates.first_given(optimizer).get(tensor, (0, None))
    if use is None or not use.requires_grad:
        return None
    return next((row for row, flag in fates.flag_changes(tensor) if row > given and not flag), None)


def place_of_flag(fates: ParameterFates, row: int) -> Place | None:
    """The line that decided on the flag: that of the call, or whoever called a function that several lines call."""
    line = fates.flow.line_of(row)
    if line is None or line.caller is None:
        return place_of_line(line)
    callers = fates.callers_of_flagging[line.file, line.line]
    return place_of_line(fates.flow.line(line.caller) if len(callers) > 1 else line)
