"""The cause of a cut, from the kind of the cut and the path of its values afterwards."""

from __future__ import annotations

from typing import Literal

from gradviz.analysis.cuts.missing_gradients import CutOff
from gradviz.analysis.dataflow.cuts import REENTRANT_CHECKPOINT
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.graph.call_log import Call

CutCause = Literal[
    "detached",
    "no_grad_block",
    "data_access",
    "numpy_roundtrip",
    "tensor_rewrap",
    "non_differentiable_op",
    "integer_cast",
    "create_graph_missing",
    "second_derivative_zero",
]
_INTO_INTEGERS = ("__int__", "__index__")
_WRAPPED = "__array_wrap__"
"""With this method NumPy's functions return a tensor if they got one."""
_BY_KIND: dict[str, CutCause] = {
    "detach": "detached",
    "data": "data_access",
    "no_grad": "no_grad_block",
    "inference": "no_grad_block",
    "value": "tensor_rewrap",
    "numpy": "numpy_roundtrip",
    "rewrap": "tensor_rewrap",
    "parameter": "tensor_rewrap",
    "cast": "integer_cast",
    "not_differentiable": "non_differentiable_op",
    "custom": "non_differentiable_op",
    "other": "non_differentiable_op",
}


def cause_of(flow: Dataflow, found: CutOff) -> CutCause | None:
    """The cause of a cut; None if the cut is no mistake (a frozen parameter, a checkpoint)."""
    cut, call = found.cut, flow.log.calls[found.cut.call]
    if cut.kind in ("buffer", "in_place"):
        return "detached" if call.grad_mode == "enabled" else "no_grad_block"
    if cut.kind in ("detach", "data"):
        exit_call = exit_on_path(flow, found)
        if exit_call is not None:
            return "numpy_roundtrip" if _gives_array(flow.log.calls[exit_call]) else _of_number(flow, exit_call)
    if cut.kind == "value":
        return _of_number(flow, cut.call)
    if is_gradient(call):
        return "create_graph_missing" if lacks_create_graph(call) else "second_derivative_zero"
    if found.is_draw:
        return "non_differentiable_op"
    if call.function == REENTRANT_CHECKPOINT:
        return None
    return _BY_KIND.get(cut.kind)


def is_gradient(call: Call) -> bool:
    """Whether a call computed gradients."""
    return call.function == "torch.autograd.grad"


def lacks_create_graph(call: Call) -> bool:
    """Whether a call computed gradients that would have a history with ``create_graph=True``."""
    return is_gradient(call) and not call.scalars.get("create_graph")


def exit_on_path(flow: Dataflow, found: CutOff) -> int | None:
    """The call where the values left torch, if no tensor between it and the cut has a gradient."""
    calls = flow.log.calls
    left = {reentry.exit for reentry in found.cut_path.reentries if not calls[reentry.exit].outputs}
    for row in found.cut_path.calls:
        if row in left or calls[row].function.endswith(_WRAPPED):
            return row
        if any(use.has_grad_fn for use in calls[row].outputs):
            break
    return None


def blamed_call(flow: Dataflow, found: CutOff) -> int:
    """The call whose line should change: where values left torch, if the cut only made that possible."""
    exit_call = exit_on_path(flow, found) if found.cut.kind in ("detach", "data") else None
    return found.cut.call if exit_call is None else exit_call


def _gives_array(call: Call) -> bool:
    return call.function.endswith((".numpy", ".__array__", _WRAPPED))


def _of_number(flow: Dataflow, row: int) -> CutCause:
    """The cause for a Python number: a cast if a floating-point tensor became an integer, otherwise a copy."""
    call = flow.log.calls[row]
    is_floating = all("int" not in flow.log.tensors[use.tensor].facts.dtype for use in call.inputs)
    return "integer_cast" if call.function.endswith(_INTO_INTEGERS) and is_floating else "tensor_rewrap"
