"""Names of operations: after the function that the user called, or after the node; and names of data.

They are here and not in `rendering`, because users also write them on the command line.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from functools import lru_cache

from gradviz.graph.model import Constant, Node

NAMELESS = "constant"
"""The name of data that no variable holds."""
_WORD_BORDERS = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[0-9])(?=[A-Z][a-z])|(?<=[A-Z])(?=[A-Z][a-z])")
_BACKWARD = re.compile(r"Backward\d*$")
# The autograd name below the title says which kernel torch chose.
_ATTENTION_KERNEL = re.compile(r"^(ScaledDotProduct)[A-Z][a-z]+Attention(ForCpu)?$")
_OF_DISTRIBUTED_TENSORS = {"_ToTorchTensor": "to_local", "_FromTorchTensor": "from_local"}
"""Functions of torch itself, which are called after what they do to a DTensor."""
_CALL_OF_FUNCTION = "autograd.Function.apply"
_SPECIAL_METHODS = {
    "__iadd__": "add_",
    "__isub__": "sub_",
    "__imul__": "mul_",
    "__itruediv__": "div_",
    "__ipow__": "pow_",
    "__radd__": "add",
    "__rmul__": "mul",
    "__rpow__": "pow",
    "__rsub__": "sub",
    "__rmatmul__": "matmul",
    "__truediv__": "div",
    "__rtruediv__": "div",
    "__getitem__": "getitem",
    "__setitem__": "setitem",
}


def autograd_name(node: Node) -> str:
    """torch's name for a node, without the namespace: ``AccumulateGrad``."""
    return _without_namespace(node.name)


def constant_names(constant: Constant) -> tuple[str, ...]:
    """The names of an input that needs no gradient, or a word for what it is.

    The word is not ``data``: programs have variables of that name.
    """
    return constant.names or (NAMELESS if constant.kind == "data" else constant.kind,)


def stem_of(node_name: str) -> str:
    """``LogSoftmax`` for ``LogSoftmaxBackward0``, without the namespace."""
    return _BACKWARD.sub("", _without_namespace(node_name))


def _without_namespace(node_name: str) -> str:
    return node_name.rpartition("::")[2]


@lru_cache(maxsize=1000)
def operation_word(node_name: str) -> str:
    """``LogSoftmaxBackward0`` as users know it: ``log_softmax``."""
    if stem_of(node_name) in _OF_DISTRIBUTED_TENSORS:
        return _OF_DISTRIBUTED_TENSORS[stem_of(node_name)]
    stem = _ATTENTION_KERNEL.sub(r"\1Attention", stem_of(node_name))
    return _WORD_BORDERS.sub("_", stem).lower() or node_name


@lru_cache(maxsize=1000)
def call_word(forward_call: str) -> str:
    """``torch.nn.functional.linear`` without its module: ``linear``; ``torch.Tensor.__add__``: ``add``."""
    last = forward_call.rpartition(".")[2]
    return _SPECIAL_METHODS.get(last) or (last.strip("_") if last.startswith("__") else last)


def node_word(node: Node, *, shares_its_call: bool = False) -> str:
    """The title of an operation. If one call made several nodes, each has its own name."""
    if node.kind in ("custom", "compiled"):
        return stem_of(node.name) or node.name
    if node.forward_call and node.forward_call != _CALL_OF_FUNCTION and not shares_its_call:
        return call_word(node.forward_call)
    return operation_word(node.name)


Call = tuple[str | None, int | None, int | None]


def call_of(node: Node) -> Call:
    """A key that the nodes of one forward call share, if the call was recorded."""
    return node.forward_call, node.call_site, node.scope


def calls_of_several_names(nodes: Iterable[Node]) -> set[Call]:
    """Forward calls that made several different nodes, as cross_entropy makes log_softmax and nll_loss."""
    names: defaultdict[Call, set[str]] = defaultdict(set)
    for node in nodes:
        names[call_of(node)].add(node.name)
    return {call for call, found in names.items() if len(found) > 1}


def operation_names(node: Node) -> tuple[str, ...]:
    """The words that pictures may use for an operation, always in the same order: hints name the first that matches."""
    return _operation_names(node.name, node.forward_call)


@lru_cache(maxsize=1000)
def _operation_names(name: str, forward_call: str | None) -> tuple[str, ...]:
    words = (operation_word(name), call_word(forward_call)) if forward_call else (operation_word(name),)
    return tuple(dict.fromkeys(words))
