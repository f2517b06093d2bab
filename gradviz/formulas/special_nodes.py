"""Describes the nodes that torch implements by hand and that its file of derivatives therefore lacks."""

from __future__ import annotations

from msgspec import Struct


class SpecialNode(Struct, frozen=True, omit_defaults=True, gc=False):
    """One kind of node without a formula in torch's file."""

    name: str
    """``grad_fn.name()`` without its namespace: ``AccumulateGrad``."""
    sentence: str
    """Its purpose."""
    gradients: tuple[str, ...]
    """What it does with the gradient that arrives, one sentence each."""
    traps: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    """Names for its edges, in order."""
    words: tuple[str, ...] = ()
    """What users call to make one."""


def special_node(node_name: str) -> SpecialNode | None:
    """The description of a node, by its name with or without ``torch::autograd::``; None for all others."""
    return _BY_NAME.get(node_name.rpartition("::")[2])


def special_node_called(word: str) -> SpecialNode | None:
    """The description of the node that `word` makes: ``checkpoint``, ``compile``."""
    return next((each for each in SPECIAL_NODES if word in each.words), None)


SPECIAL_NODES: tuple[SpecialNode, ...] = (
    SpecialNode(
        "AccumulateGrad",
        "The end of every path: it belongs to one leaf (a parameter, or an input that requires grad).",
        (
            "leaf.grad = grad, where .grad was None",
            "leaf.grad += grad, where there was one, in place; under create_graph=True leaf.grad = leaf.grad + grad",
            "all paths that reach the leaf in one backward are summed before it runs",
        ),
        (
            "Nothing sets .grad back: without zero_grad() the gradients of several steps add up.",
            "Where no gradient arrives .grad stays as it was, None or old; this differs from a gradient of zeros.",
            "A hook of the tensor runs before it, one of register_post_accumulate_grad_hook after it.",
        ),
        words=("grad",),
    ),
    SpecialNode(
        "CopySlices",
        "What a tensor's history becomes when a view of it is changed in place: x[0] = v, x[:, 1].mul_(2).",
        (
            "of the tensor before the change: grad, except for the changed part; there it is what the operation "
            "inside makes of it (0 where the part was overwritten)",
            "of what was written: the part of grad, through the node of the operation inside",
        ),
        ("A tensor saved before the change makes backward raise: its version differs.",),
        inputs=("before", "written"),
    ),
    SpecialNode(
        "CopyBackwards",
        "Backward of copy_: the values of another tensor were written into this one.",
        ("of the source: grad, in its dtype and on its device", "of what was overwritten: 0"),
        inputs=("overwritten", "source"),
    ),
    SpecialNode(
        "GraphRoot",
        "Where the engine begins: it passes the gradient given to backward() to the first nodes.",
        ("grad = 1 for a loss of one element, or gradient= of backward, grad_outputs= of grad",),
        words=("backward",),
    ),
    SpecialNode(
        "UndefinedGrad",
        "Passes values on, and sends an undefined gradient back, which the engine treats as zero.",
        ("of every input: undefined",),
    ),
    SpecialNode(
        "UndefinedGradBackward",
        "The backward of UndefinedGrad, where the graph of a backward is kept.",
        ("of every input: undefined",),
    ),
    SpecialNode(
        "Error",
        "Raises as soon as backward reaches it: this computation has no gradient of the requested order.",
        ("none: it raises, and its message says why",),
        ("It also replaces a backward that was marked once_differentiable, when it is to be differentiated.",),
    ),
    SpecialNode(
        "DelayedError",
        "Passes tensors on with an Error as their grad_fn: they may be used, but not differentiated.",
        ("none: that Error raises",),
    ),
    SpecialNode(
        "NotImplemented",
        "Replaces an operation whose derivative torch lacks, such as floor_divide.",
        ("none: it raises 'derivative for ... is not implemented'",),
    ),
    SpecialNode(
        "Scatter",
        "Splits a batch over several devices, as DataParallel does.",
        ("the gradients of the parts, put together again on the first device",),
    ),
    SpecialNode(
        "Gather",
        "Puts the results of several devices together, as DataParallel does.",
        ("the part of grad that belongs to each device",),
    ),
    SpecialNode(
        "SendRpcBackward",
        "Tensors were sent to another process, whose backward sends the gradient here.",
        ("what the other process sends",),
    ),
    SpecialNode(
        "RecvRpcBackward",
        "Tensors came from another process, which computes their gradient.",
        ("grad, sent to the other process",),
    ),
    SpecialNode(
        "BackwardHookFunctionBackward",
        "Put around a module that has full backward hooks, so that they see its gradients.",
        ("grad, or what the hooks make of it",),
        ("Changing the module's result in place raises: it is a view made by this function.",),
        words=("register_full_backward_hook",),
    ),
    SpecialNode(
        "CheckpointFunctionBackward",
        "A checkpoint with use_reentrant=True: its forward kept no graph.",
        (
            "computes the forward again, with a graph, and calls backward on it inside this backward: what it "
            "reaches is in no graph that is visible from outside",
        ),
        ("Without an input that requires grad nothing inside gets a gradient.",),
        words=("checkpoint",),
    ),
    SpecialNode(
        "CompiledFunctionBackward",
        "Everything that torch.compile or AOTAutograd compiled into one function.",
        (
            "a graph of its own, traced when the forward was compiled, computes all of them at once: no formulas per "
            "operation are left",
        ),
        ("It cannot be differentiated twice.",),
        words=("compile",),
    ),
)

_BY_NAME = {each.name: each for each in SPECIAL_NODES}
