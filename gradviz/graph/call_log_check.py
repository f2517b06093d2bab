"""Whether every reference of a call log points somewhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from gradviz.graph.graph_check import InvalidGraph

if TYPE_CHECKING:
    from gradviz.graph.call_log import Call, CallLog, LoggedTensor


def check_references(log: CallLog) -> None:
    """Raise `InvalidGraph` at the first call, tensor or optimizer that refers to something that is not there."""
    sizes = {
        "call": len(log.calls),
        "tensor": len(log.tensors),
        "call site": len(log.call_sites),
        "scope": len(log.scopes),
        "optimizer": len(log.optimizers),
        "definition": len(log.definitions),
    }
    for what, number, index in _to_what_stands_before(log):
        if index is not None and not 0 <= index < number:
            raise InvalidGraph(f"{what} {number} refers to {what} {index}, which does not stand before it")
    for what, references in _references(log):
        for table, index in references:
            if index is not None and not 0 <= index < sizes[table]:
                raise InvalidGraph(f"{what} refers to {table} {index} of {sizes[table]}")
    if log.dropped_at is not None and not 0 <= log.dropped_at <= len(log.calls):
        raise InvalidGraph(f"calls are missing before call {log.dropped_at} of {len(log.calls)}")


def _to_what_stands_before(log: CallLog) -> Iterator[tuple[str, int, int | None]]:
    yield from (("call", number, call.inside) for number, call in enumerate(log.calls))
    yield from (("call site", number, site.caller) for number, site in enumerate(log.call_sites))
    yield from (("scope", number, scope.parent) for number, scope in enumerate(log.scopes))


def _references(log: CallLog) -> Iterator[tuple[str, Iterable[tuple[str, int | None]]]]:
    for number, call in enumerate(log.calls):
        yield f"call {number}", _of_call(call)
    for number, tensor in enumerate(log.tensors):
        yield f"tensor {number}", _of_tensor(tensor)
    for number, optimizer in enumerate(log.optimizers):
        yield f"optimizer {number}", [("tensor", index) for group in optimizer.groups for index in group]
    for number, scope in enumerate(log.scopes):
        yield f"scope {number}", [("call site", scope.call_site)]
    for moment in log.moments:
        yield "a moment", [("call", moment)]


def _of_call(call: Call) -> Iterator[tuple[str, int | None]]:
    yield "call site", call.call_site
    yield "call site", call.grad_mode_site
    yield "scope", call.scope
    yield "optimizer", call.optimizer
    yield "definition", call.definition
    for use in call.inputs:
        yield "tensor", use.tensor
    for use in call.outputs:
        yield "tensor", use.tensor


def _of_tensor(tensor: LoggedTensor) -> Iterator[tuple[str, int | None]]:
    yield "call", tensor.first_seen
    yield "call", tensor.producer
    yield "call", tensor.alive_after
    yield "tensor", tensor.gradient_of
    yield "tensor", tensor.from_numpy_of
