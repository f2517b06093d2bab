"""Calls that torch refused because nothing that a tensor was computed from requires grad: backward calls, and hooks on
tensors that can never get a gradient."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence

from msgspec import Struct

from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.capture.capture import Capture
from gradviz.graph.call_log import Call, TensorUse, words_of_error

_HOOKS = frozenset({"torch.Tensor.retain_grad", "torch.Tensor.register_hook"})


def is_refused_hook(call: Call) -> bool:
    """Whether a hook was refused because its tensor will never get a gradient."""
    return call.function in _HOOKS and call.raised is not None and not any(use.requires_grad for use in call.inputs)


def refused_roots(call: Call) -> tuple[int, ...]:
    """The tensors for which a call was refused, as numbers of the log; empty if it was not."""
    if is_refused_hook(call):
        return tuple(use.tensor for use in call.inputs[:1])
    if call.kind != "backward" or call.raised is None:
        return ()
    return () if any(use.requires_grad for use in call.roots) else tuple(use.tensor for use in call.roots)


def frozen_above(flow: Dataflow, call: int, wanted: Container[int]) -> list[int]:
    """If a backward was refused: those of the wanted tensors that its roots were computed from without any cut, and
    that do not require grad."""
    cuts = {cut.call for cut in flow.cuts}
    waiting = [(root, call) for root in refused_roots(flow.log.calls[call])]
    seen: set[int] = set()
    found: dict[int, None] = {}
    while waiting:
        for row in flow.producers(*waiting.pop()):
            if row in seen or row in cuts:
                continue
            seen.add(row)
            for use in flow.log.calls[row].inputs:
                if use.tensor in wanted and not use.requires_grad:
                    found[use.tensor] = None
                waiting.append((use.tensor, row))
    return sorted(found)


def calls_that_ended(capture: Capture, flow: Dataflow) -> list[int]:
    """The calls that raised the error with which the program ended; more than one where calls inside of calls did, or
    where the program went on after it at first."""
    error = capture.error
    said = None if error is None else words_of_error(error.type_name, error.message)
    return [row for row, call in enumerate(flow.log.calls) if said is not None and call.raised == said]


# In-place changes that torch refused, and the views that led to the tensor.


class RefusedChange(Struct, frozen=True):
    """A refused in-place change that ended the program."""

    call: int
    said: str
    """torch's message, as far as the log keeps it."""
    target: TensorUse
    """The tensor that the call would have changed."""
    views: tuple[int, ...]
    """Calls that made it a view of another tensor, from that tensor on."""
    base: int
    """The tensor that it is a view of; itself if it is none."""


def refused_changes(capture: Capture, flow: Dataflow, words: Sequence[str]) -> Iterator[RefusedChange]:
    """The changes that torch refused with one of these messages."""
    if capture.error is None or capture.error.in_backward:
        return
    for row, call in enumerate(flow.log.calls):
        said = (call.raised or "").partition(": ")[2]
        if (
            said
            and call.inputs
            and capture.error.message.startswith(said[:_COMPARED])
            and any(w in said for w in words)
        ):
            target = call.inputs[0]
            views = views_between(flow, target.tensor, row)
            base = flow.log.calls[views[0]].inputs[0].tensor if views else target.tensor
            yield RefusedChange(row, said, target, views, base)


_COMPARED = 60


def views_between(flow: Dataflow, tensor: int, before: int, base: int | None = None) -> tuple[int, ...]:
    """Calls that made a tensor a view of another one, first to last, up to `base`."""
    memory = flow.memory_of(tensor)  # not all tensors in it: a data set may have thousands of views
    found: list[int] = []
    while tensor != base:
        maker = flow.first_producer(tensor, before)
        inputs = () if maker is None else flow.log.calls[maker].inputs
        bases = [use.tensor for use in inputs if flow.memory_of(use.tensor) == memory]
        if maker is None or not bases or bases[0] == tensor or maker in found:
            break
        found.append(maker)
        tensor = bases[0]
    return tuple(reversed(found))
