"""Tensors in the memory of a trained matrix that compute a loss without its gradient: weights that were to be tied.

A detached view that a program keeps has the values of the matrix at every step, and none of its gradient. Programs also
keep one to call the same layers without training them; so it only counts where the loss uses the view in another way
than the matrix: as a decoder uses the matrix of the encoder, or an output layer that of an embedding.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.reached_calls import reached_by
from gradviz.analysis.parameters.parameter_histories import ParameterHistories
from gradviz.graph.call_log import Call, TensorUse

_TURNS = frozenset({"t", "T", "mT", "transpose", "swapaxes", "swapdims", "permute", "adjoint"})
_VIEWS = _TURNS | {"view", "reshape", "getitem", "unsqueeze", "squeeze", "detach", "contiguous", "flatten", "data"}
_PRODUCTS = frozenset({"linear", "matmul", "mm", "addmm", "bmm", "mv"})
_MAX_VIEWS = 40
_MATRIX = 2
Way = tuple[str, bool]
"""The kind of a use, and whether it is of the matrix as it stands or turned."""


class DetachedTie(Struct, frozen=True):
    """A tensor that takes the place of a parameter."""

    parameter: int
    view: int
    use: int
    """A call that computes with it."""


def detached_ties(histories: ParameterHistories) -> Iterator[DetachedTie]:
    """One for each such parameter, in the last step of each line that calls backward."""
    flow = histories.flow
    told = set[int]()
    for backward in histories.last_trained_backward_of_each_line:
        since = flow.step_before(backward)
        found = histories.reached_by.get(backward, frozenset()) & histories.trained
        kept = {each: _kept_views(histories, each, since) for each in sorted(found - told)} if since else {}
        members = reached_by(flow, backward).members if any(kept.values()) else frozenset()
        for parameter, views in kept.items():
            own = dict(_ways(flow, parameter, since, members)) if views else {}
            for view in views if own else []:
                ways = dict(_ways(flow, view, since, members))
                if ways and own.keys().isdisjoint(ways) and parameter not in told:
                    told.add(parameter)
                    yield DetachedTie(parameter, view, next(iter(ways.values())))


def _kept_views(histories: ParameterHistories, parameter: int, before: int) -> list[int]:
    """Tensors without a gradient in the memory of a matrix that are older than the newest step."""
    flow = histories.flow
    if len(shape_of(flow, parameter)) < _MATRIX or flow.data_replacements(parameter):
        return []
    count = histories.tensor(parameter).facts.elements or 0
    views = (each for each in flow.sharing_memory(parameter) if each != parameter)
    return [
        each
        for each in views
        if not histories.tensor(each).requires_grad
        and (histories.tensor(each).facts.elements or 0) <= count
        and _made(histories, each) < before
        and flow.users(each, before)
    ]


def _made(histories: ParameterHistories, number: int) -> int:
    tensor = histories.tensor(number)
    made = tensor.first_seen if tensor.producer is None else tensor.producer
    return len(histories.log.calls) if made is None else made


def _ways(flow: Dataflow, tensor: int, after: int, members: frozenset[int]) -> Iterator[tuple[Way, int]]:
    """The ways in which calls that train use a matrix, also behind views of it, each with such a call."""
    storage, last = flow.log.tensors[tensor].storage, max(members, default=0)
    waiting, seen = [(tensor, _is_turned(flow, tensor, after, storage))], {tensor}
    while waiting and len(seen) < _MAX_VIEWS:
        given, is_turned = waiting.pop()
        for user in flow.users(given, after):
            call = flow.log.calls[user]
            if user > last:
                break
            name, made = plain_name(call.function), call.outputs[0].tensor if call.outputs else None
            if name in _VIEWS and made is not None and flow.log.tensors[made].storage == storage:
                if made not in seen:
                    seen.add(made)
                    waiting.append((made, is_turned != (name in _TURNS)))
            elif user in members:
                use = next(each for each in call.inputs if each.tensor == given)
                yield from ((way, user) for way in _way(call, name, use, is_turned))


def _is_turned(flow: Dataflow, tensor: int, before: int, storage: int | None) -> bool:
    """Whether a view shows the transpose of what its memory was made for."""
    is_turned = False
    for _, call in flow.makers(tensor, before, _MAX_VIEWS):
        if not call.inputs or flow.log.tensors[call.inputs[0].tensor].storage != storage:
            break
        is_turned ^= plain_name(call.function) in _TURNS
    return is_turned


def _way(call: Call, name: str, use: TensorUse, is_turned: bool) -> Iterator[Way]:
    if name in _PRODUCTS:
        is_left = use is call.inputs[0] and name != "addmm"
        yield "product", is_turned != (name == "linear" or is_left)
    elif name == "embedding" or name.startswith("conv"):
        yield name, False
