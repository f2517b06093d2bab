"""Cuts: calls with an input that requires grad and a result, or a number, that does not.

A cut alone is no mistake: programs cut to make targets, metrics and moving averages. It is one if a tensor that should
get a gradient gets none because of it; `gradviz.analysis.dataflow.dataflow` finds what is above and below a cut.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import Literal

from msgspec import Struct

from gradviz.graph.call_log import Call, CallLog, TensorUse

CutKind = Literal[
    "detach",
    "data",
    "no_grad",
    "inference",
    "value",
    "numpy",
    "rewrap",
    "parameter",
    "requires_grad_off",
    "cast",
    "not_differentiable",
    "buffer",
    "in_place",
    "custom",
    "other",
]
"""``value``: a Python number left torch (``item``, ``float``, ``tolist``, ``bool``); ``rewrap``: ``torch.tensor(t)``;
``parameter``: made a parameter of a module; ``cast``: to integers or truth values; ``not_differentiable``: a function
that has no derivative (``argmax``, comparisons); ``buffer``: a result was written into a buffer of a module;
``in_place``: a result was written into a tensor that has no part in the graph; ``custom``: an ``autograd.Function``
returned it without a gradient."""


class Cut(Struct, frozen=True, repr_omit_defaults=True):
    """One call that cuts."""

    call: int
    """Index in `CallLog.calls`."""
    kind: CutKind
    live_inputs: tuple[int, ...]
    """Tensors that required grad."""
    dead_outputs: tuple[int, ...]
    """Tensors that do not; empty if a number or an array left torch."""
    call_site: int | None
    """The line to blame: of the call, or where gradients were switched off."""


def find_cuts(log: CallLog) -> Iterator[Cut]:
    """Every cut, in the order of the calls, except calls inside of custom functions, steps and backward calls."""
    with_closure = {call.inside for call in log.calls if call.kind == "backward"}
    for number, call in enumerate(log.calls):
        if call.kind not in _CAN_CUT or call.raised is not None or _is_hidden(log, call, with_closure):
            continue
        if call.kind == "register_parameter":
            yield from _made_parameter(number, call)
            continue
        live = tuple(dict.fromkeys(use.tensor for use in call.inputs if use.requires_grad))
        if not live or call.function in TAKES_ONLY_THE_SHAPE or _takes_each_for_itself(call):
            continue
        dead = tuple(dict.fromkeys(use.tensor for use in call.outputs if _is_dead(use, call)))
        dead = dead or _overwritten_leaves(call)
        if dead or is_exit(call):
            kind = _kind(log, call, dead)
            blames_switch = kind in ("no_grad", "inference") and call.grad_mode_site is not None
            yield Cut(number, kind, live, dead, call.grad_mode_site if blames_switch else call.call_site)


def _takes_each_for_itself(call: Call) -> bool:
    """Whether each result comes from one input, so that a result without a gradient is no cut."""
    return call.grad_mode == "enabled" and call.function.startswith(_ONE_BY_ONE)


def _overwritten_leaves(call: Call) -> tuple[int, ...]:
    """Trained leaves that got the values of a tensor with a history while gradients were off."""
    if call.grad_mode == "enabled" or not any(use.has_grad_fn for use in call.inputs):
        return ()
    return tuple(use.tensor for use in call.changed if use.is_live_leaf) if overwrites(call) else ()


def overwrites(call: Call) -> bool:
    """Whether a call replaces the values of one tensor with those of another."""
    return call.function in _OVERWRITE


def is_exit(call: Call) -> bool:
    """Whether a call turned a tensor into something that is not a tensor."""
    return call.function in EXITS


EXITS = frozenset(
    f"torch.Tensor.{name}"
    for name in (
        *("item", "tolist", "__float__", "__int__", "__bool__", "__index__", "__complex__", "numpy", "__array__"),
        *("equal", "allclose", "is_nonzero"),
    )
)
TAKES_ONLY_THE_SHAPE = frozenset(
    {f"torch.{name}_like" for name in ("zeros", "ones", "empty", "full", "rand", "randn", "randint")}
    | {f"torch.Tensor.new_{name}" for name in ("zeros", "ones", "empty", "full", "empty_strided")}
)
"""Calls that make a tensor like another one, without its values."""
_ONE_BY_ONE = (
    "torch.broadcast_tensors", "torch.functional.broadcast_tensors", "torch.meshgrid", "torch.functional.meshgrid",
    "torch.atleast_", "torch.functional.atleast_", "torch._foreach_",
)  # fmt: skip
REENTRANT_CHECKPOINT = "CheckpointFunction.apply"
"""The call of torch's reentrant checkpoint, which is a custom function."""
_CAN_CUT = frozenset({"operation", "custom", "compiled", "register_parameter"})
_HIDING = frozenset({"custom", "backward", "step"})
_OVERWRITE = frozenset(f"torch.Tensor.{name}" for name in ("copy_", "set_", "data.__set__"))
_INTEGERS = frozenset({"bool", "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64"})
_CASTS = frozenset({"long", "int", "short", "char", "byte", "bool", "to", "type", "type_as", "__int__", "view"})
REWRAPS = frozenset({
    "torch.tensor", "torch.as_tensor", "torch.asarray", "torch.Tensor.new_tensor", "torch.autograd.Variable",
})  # fmt: skip


def _is_hidden(log: CallLog, call: Call, with_closure: Container[int | None]) -> bool:
    """Whether a call is inside a custom function, a step or a backward call. An optimizer's closure is not hidden:
    gradients are on there, or it calls backward."""
    inside = call.inside
    while inside is not None:
        enclosing = log.calls[inside]
        is_closure = enclosing.kind == "step" and (call.grad_mode == "enabled" or inside in with_closure)
        if enclosing.kind in _HIDING and not is_closure:
            return True
        inside = enclosing.inside
    return False


def _is_dead(use: TensorUse, call: Call) -> bool:
    """Whether an output lost its gradient here; False if it never depended on the live inputs."""
    if use.requires_grad:
        is_new_leaf = use.is_leaf and all(given.tensor != use.tensor for given in call.inputs)
        return is_new_leaf and call.function in REWRAPS
    return not call.function.endswith("requires_grad_") or any(
        given.tensor == use.tensor and given.requires_grad for given in call.inputs
    )


def _made_parameter(number: int, call: Call) -> Iterator[Cut]:
    arguments = {use.place: use.tensor for use in call.inputs}
    if "source" in arguments:
        yield Cut(number, "parameter", (arguments["source"],), (arguments["new"],), call.call_site)


def _kind(log: CallLog, call: Call, dead: tuple[int, ...]) -> CutKind:
    name = call.function.rpartition(".")[2]
    if call.kind == "custom":
        return "custom"
    if by_name := _BY_NAME.get(call.function):
        return by_name
    if call.function in REWRAPS:
        return "rewrap"
    if is_exit(call):
        return "numpy" if name in ("numpy", "__array__") else "value"
    changed = {use.tensor for use in call.changed}
    if any(number in changed for number in dead):
        return "buffer" if all(log.tensors[number].role == "buffer" for number in dead) else "in_place"
    if all(log.tensors[number].facts.dtype in _INTEGERS for number in dead):
        return "cast" if name in _CASTS else "not_differentiable"
    if call.grad_mode != "enabled":
        return "inference" if call.grad_mode == "inference" else "no_grad"
    return "other"


_BY_NAME: dict[str, CutKind] = {
    "torch.Tensor.detach": "detach",
    "torch.detach": "detach",
    "torch.Tensor.detach_": "detach",
    "torch.Tensor.data": "data",
    "torch.Tensor.requires_grad_": "requires_grad_off",
    "torch.Tensor.requires_grad.__set__": "requires_grad_off",
}


def is_detach(call: Call) -> bool:
    """Whether a call gives the same values without a gradient: ``detach()``, ``.data``."""
    return _BY_NAME.get(call.function) in ("detach", "data")
