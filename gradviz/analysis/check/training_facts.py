"""What a program trains, as it ran: what each loss is made of, and what the optimizers hold.

Autograd differentiates what is written. Whether that is meant, only its author knows: a mean over one axis in place of
another is as good for autograd. So where no rule found anything, these facts are shown to compare with what was meant.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.cuts.dead_terms import ADDS_TERMS, live_terms
from gradviz.analysis.dataflow.axes import NORMALIZERS, REDUCTIONS, axes_of
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.tensor_words import name_of, optimizer_words, together
from gradviz.analysis.finding import Location
from gradviz.analysis.parameters.whole_modules import whole_modules
from gradviz.graph.call_log import Call, LoggedOptimizer
from gradviz.graph.number_words import counted

_MAX_LOSSES = 3
_MAX_TERMS = 6
_MAX_SHOWN = 4
_MAX_FACTORS = 20
_MAX_VISITS = 300
_FEW_STEPS = 2
_WORK_ALONG_AXES = REDUCTIONS | NORMALIZERS | {"cosine_similarity", "pairwise_distance"}
_RUNNING = (".running_mean", ".running_var")
"""Of normalization layers: in evaluation mode they do not change, and nobody trains them."""


class TrainingFact(Struct, frozen=True):
    """One fact about what was trained."""

    title: str
    """``loss``, ``term``, ``optimizer``, ``not trained``, ``shared``."""
    text: str
    location: Location | None = None
    """The line that the fact is about."""


def training_facts(case: Case) -> tuple[TrainingFact, ...]:
    """Of the losses in their last backward call; empty for a program that made fewer than two steps."""
    if len(case.histories.steps) < _FEW_STEPS:
        return ()
    return (*_losses(case), *_optimizers(case), *_constants(case), *_shared_parameters(case))


# -- losses ------------------------------------------------------------------------------------------------------------


def _losses(case: Case) -> Iterator[TrainingFact]:
    """The terms of each loss; those that were computed in the same way on the same line are one fact."""
    for backward in _last_of_each_place(case)[-_MAX_LOSSES:]:
        for root in case.dataflow.log.calls[backward].roots:
            terms = _terms_of(case.dataflow, backward, root.tensor)
            title = "loss" if len(terms) == 1 else "term of loss"
            for (words, location), values in list(terms.items())[:_MAX_TERMS]:
                last = f"last value {together(values)}" if values else ""
                yield TrainingFact(title, "; ".join(filter(None, (words, last))), location)
            if len(terms) > _MAX_TERMS:
                yield TrainingFact(title, f"and {len(terms) - _MAX_TERMS:,} more")


def _last_of_each_place(case: Case) -> list[int]:
    """The last backward call of each line of the program, though functions that call it have several callers."""
    rows = case.histories.last_backward_of_each_line
    return sorted({location_of_call(case.dataflow, row): row for row in sorted(rows)}.values())


def _terms_of(flow: Dataflow, backward: int, root: int) -> dict[tuple[str, Location | None], list[str]]:
    """How each number is computed that a loss is the sum of, and where, in order; with their values."""
    terms = sorted((_made_at(flow, *term), *term) for term in live_terms(flow, backward, root))
    found: dict[tuple[str, Location | None], list[str]] = {}
    for made, tensor, before in terms:
        value = _value_in_loss(flow, tensor, before, backward)
        found.setdefault(_how_computed(flow, tensor, before, made), []).extend([value] if value else [])
    return found


def _made_at(flow: Dataflow, tensor: int, before: int) -> int:
    made = flow.newest_producer(tensor, before)
    return before if made is None else made


def _value_in_loss(flow: Dataflow, tensor: int, user: int, backward: int) -> str:
    """What a term adds to a loss, with its factors; "" if it was not read.

    Args:
        user: the call that adds the term or multiplies it with a factor.
    """
    calls = flow.log.calls
    for _ in range(_MAX_FACTORS):
        if user >= backward or plain_name(calls[user].function) in ADDS_TERMS:
            break
        tensor = calls[user].outputs[0].tensor
        user = next((row for row in flow.users(tensor, user) if calls[row].outputs), backward)
    values = flow.values(tensor, user)
    if values is None or values.minimum is None or values.count != 1:
        return ""
    return f"{-values.minimum if _is_subtracted(calls, tensor, user) else values.minimum:.3g}"


def _is_subtracted(calls: Sequence[Call], tensor: int, user: int) -> bool:
    """Whether it is ``y`` of ``x - y``, or of ``1 - y``."""
    call = calls[user] if user < len(calls) else None
    if call is None or plain_name(call.function) != "sub":
        return False
    return call.inputs[0].tensor != tensor or (len(call.inputs) == 1 and "__r" in call.function)


def _how_computed(flow: Dataflow, tensor: int, before: int, made: int) -> tuple[str, Location | None]:
    """How one number of a loss was computed since the last parameters that it depends on, and the line."""
    rows = _reductions_above(flow, tensor, before)
    words = [_reduction_words(flow, flow.log.calls[row]) for row in rows[-_MAX_SHOWN:]]
    if len(rows) > _MAX_SHOWN:
        words.insert(0, "...")
    return ", then ".join(words), location_of_call(flow, rows[-1] if rows else made)


def _reductions_above(flow: Dataflow, tensor: int, before: int) -> list[int]:
    """Calls that reduce or normalize axes, between the last parameters and a number; of a loop, only the last."""
    waiting, seen, found = [(tensor, before)], set[int](), dict[tuple[int | None, str], int]()
    while waiting and len(seen) < _MAX_VISITS:
        row = flow.newest_producer(*waiting.pop())
        if row is None or row in seen:
            continue
        seen.add(row)
        call = flow.log.calls[row]
        if call.kind != "operation" or any(use.is_live_leaf for use in call.inputs):
            continue
        if _is_reduction(flow, call):
            key = call.call_site, plain_name(call.function)
            found[key] = max(row, found.get(key, -1))
        waiting += [(use.tensor, row) for use in call.live_inputs]
    return sorted(found.values())


def _is_reduction(flow: Dataflow, call: Call) -> bool:
    name = plain_name(call.function)
    is_of_number = all(size == 1 for size in shape_of(flow, call.inputs[0].tensor)) if call.inputs else True
    return (name in _WORK_ALONG_AXES or _is_loss(call)) and not is_of_number


def _is_loss(call: Call) -> bool:
    return "reduction" in call.scalars or plain_name(call.function).endswith(("_loss", "cross_entropy"))


def _reduction_words(flow: Dataflow, call: Call) -> str:
    """``mse_loss of 128 x 32 and 128 x 32, mean``; ``sum over axis 1 of 128 x 4``; ``mean of all 128``."""
    name, shapes = plain_name(call.function), [shape_of(flow, use.tensor) for use in call.inputs]
    if _is_loss(call):
        kind = call.scalars.get("reduction")
        return f"{name} of {' and '.join(map(_shape_words, shapes[:2]))}" + (f" ({kind})" if kind else "")
    axes = axes_of(call, len(shapes[0]))
    over = f"over axis {together(map(str, axes))} of" if axes else "of all" if name in REDUCTIONS else "of"
    return f"{name} {over} {_shape_words(shapes[0])}"


def _shape_words(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape)) or "1"


# -- what is trained ---------------------------------------------------------------------------------------------------


def _optimizers(case: Case) -> Iterator[TrainingFact]:
    """One of each line that makes some."""
    log = case.dataflow.log
    made = {log.calls[row].optimizer: row for row in reversed(case.dataflow.rows_of_kind("add_param_group"))}
    by_line: dict[Location | None, list[LoggedOptimizer]] = {}
    for number, optimizer in enumerate(log.optimizers):
        if optimizer.steps:
            location = location_of_call(case.dataflow, made[number]) if number in made else None
            by_line.setdefault(location, []).append(optimizer)
    for location, optimizers in list(by_line.items())[-_MAX_LOSSES:]:
        others = f"; the last of {len(optimizers):,}" if len(optimizers) > 1 else ""
        yield TrainingFact("optimizer", _optimizer_words(optimizers[-1]) + others, location)


def _optimizer_words(optimizer: LoggedOptimizer) -> str:
    rates = dict.fromkeys(rate for rate in optimizer.learning_rates if rate is not None)
    decays = dict.fromkeys(decay for decay in optimizer.weight_decays if decay)
    last = " and ".join(f"{rate:.3g}" for rate in rates)
    first = optimizer.first_rate
    parts = [
        f"{optimizer_words(optimizer)}: {optimizer.class_name}" if optimizer.names else optimizer.class_name,
        counted(sum(map(len, optimizer.groups)), "tensor"),
        counted(optimizer.steps, "step"),
        f"learning rate {f'from {first:.3g} to ' if first is not None and optimizer.rate_changes else ''}{last}"
        if last
        else "learning rate not known: no group has one that is a plain number",
    ]
    if decays:
        parts.append(f"weight decay {' and '.join(f'{decay:.3g}' for decay in decays)}")
    return ", ".join(parts)


def _constants(case: Case) -> Iterator[TrainingFact]:
    """Buffers of floating point that were used for the last losses, and that nothing changed since the first step."""
    flow, last = case.dataflow, case.histories.last_backward_of_each_line
    since = min(map(flow.step_before, last), default=0)
    used = dict.fromkeys(use.tensor for call in flow.log.calls[since:] for use in call.inputs)
    kept = [number for number in used if _is_constant(case, number)]
    if kept:
        names = (f"{name_of(flow.log.tensors[number])} ({_shape_words(shape_of(flow, number))})" for number in kept)
        yield TrainingFact("not trained", f"{together(names)}: {'a buffer' if len(kept) == 1 else 'buffers'}")


def _is_constant(case: Case, number: int) -> bool:
    flow, first = case.dataflow, case.histories.steps[0]
    tensor = flow.log.tensors[number]
    name = name_of(tensor)
    is_named_buffer = tensor.role == "buffer" and name is not None and not name.endswith(_RUNNING)
    return is_named_buffer and "float" in tensor.facts.dtype and not flow.changes(number, first, len(flow.log.calls))


def _shared_parameters(case: Case) -> Iterator[TrainingFact]:
    """Those that several calls use for one backward call."""
    flow, histories = case.dataflow, case.histories
    by_count: dict[int, dict[int, None]] = {}
    for backward in histories.last_backward_of_each_line:
        since = flow.step_before(backward)
        roots = flow.log.calls[backward].roots
        above = {row for use in roots for row in flow.ancestors(use.tensor, backward, since)}
        for number in sorted(histories.reached_by[backward] & histories.trained):
            rows = [row for row in flow.users(number, since) if row in above and flow.log.calls[row].node_count]
            if len(rows) > 1:
                by_count.setdefault(len(rows), {})[number] = None
    every = [histories.name(number) for number in histories.trained]
    for count, numbers in sorted(by_count.items())[-_MAX_LOSSES:]:
        names = together(whole_modules([histories.name(number) for number in numbers], every))
        yield TrainingFact("shared", f"{names} (each parameter is used {count:,} times for one backward)")
