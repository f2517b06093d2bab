"""Calls that torch refused because nothing that a tensor was computed from requires grad.

They are backward calls, and hooks on tensors that no gradient will ever come to.
"""

from __future__ import annotations

from gradviz.graph.call_log import Call

_HOOKS = frozenset({"torch.Tensor.retain_grad", "torch.Tensor.register_hook"})


def is_refused_hook(call: Call) -> bool:
    """Whether a gradient was asked for, in advance, of a tensor that will get none."""
    return call.function in _HOOKS and call.raised is not None and not any(use.requires_grad for use in call.inputs)


def refused_roots(call: Call) -> tuple[int, ...]:
    """The tensors that it was refused for, as numbers of the log; none where it was not."""
    if is_refused_hook(call):
        return tuple(use.tensor for use in call.inputs[:1])
    if call.kind != "backward" or call.raised is None:
        return ()
    return () if any(use.requires_grad for use in call.roots) else tuple(use.tensor for use in call.roots)
