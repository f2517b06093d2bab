"""Words for single things: an operation, a shape, a count, a source line. Pure functions, used by `labels`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import prod

from gradviz.graph.model import CallSite, Node, TensorFacts

_WORD_BORDERS = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[0-9])(?=[A-Z][a-z])|(?<=[A-Z])(?=[A-Z][a-z])")
_BACKWARD = re.compile(r"Backward\d*$")
# Which kernel torch chose is in the autograd name below the title.
_ATTENTION_KERNEL = re.compile(r"^(ScaledDotProduct)[A-Z][a-z]+Attention(ForCpu)?$")
_SPECIAL_METHODS = {
    "__iadd__": "add_",
    "__isub__": "sub_",
    "__imul__": "mul_",
    "__itruediv__": "div_",
    "__ipow__": "pow_",
    "__radd__": "add",
    "__rmul__": "mul",
    "__rpow__": "pow",
    "__rmatmul__": "matmul",
    "__truediv__": "div",
    "__rtruediv__": "div",
    "__getitem__": "getitem",
    "__setitem__": "setitem",
}


def operation_word(node_name: str) -> str:
    """``LogSoftmaxBackward0`` as users know it: ``log_softmax``."""
    stem = _BACKWARD.sub("", node_name.rpartition("::")[2])
    stem = _ATTENTION_KERNEL.sub(r"\1Attention", stem)
    return _WORD_BORDERS.sub("_", stem).lower() or node_name


def call_word(forward_call: str) -> str:
    """``torch.nn.functional.linear`` without where it lives: ``linear``; ``torch.Tensor.__add__``: ``add``."""
    last = forward_call.rpartition(".")[2]
    return _SPECIAL_METHODS.get(last) or (last.strip("_") if last.startswith("__") else last)


def node_word(node: Node, *, shares_its_call: bool = False) -> str:
    """The title of an operation. One call may make several nodes; then each is called by its own name."""
    if node.kind in ("custom", "compiled"):
        return _BACKWARD.sub("", node.name.rpartition("::")[2]) or node.name
    if node.forward_call and not shares_its_call:
        return call_word(node.forward_call)
    return operation_word(node.name)


def autograd_word(node: Node) -> str:
    """torch's name for a node, without the namespace."""
    return node.name.rpartition("::")[2]


def shape_words(tensor: TensorFacts | None) -> str:
    """``[8, 64]``, with the dtype where it is not float32."""
    if tensor is None:
        return ""
    shape = "[" + ", ".join(map(str, tensor.shape)) + "]" if tensor.shape else "scalar"
    return shape if tensor.dtype == "float32" else f"{shape} {tensor.dtype}"


def full_tensor_words(tensor: TensorFacts) -> str:
    """Everything about a tensor: ``[8, 64] float32 on cuda:0``."""
    shape = "[" + ", ".join(map(str, tensor.shape)) + "]"
    layout = "" if tensor.layout == "strided" else f" {tensor.layout}"
    type_name = "" if tensor.type_name == "Tensor" else f"{tensor.type_name} "
    return f"{type_name}{shape} {tensor.dtype}{layout} on {tensor.device}"


def count_words(count: int) -> str:
    """Three digits at most: ``512``, ``85.1M``."""
    if count < 1000:
        return str(count)
    size = float(count)
    for unit in ("k", "M", "B"):
        size /= 1000
        if size < 999.5:
            return f"{size:.1f}{unit}" if size < 99.95 else f"{size:.0f}{unit}"
    return f"{size / 1000:.1f}T"


def element_count(tensors: Sequence[TensorFacts | None]) -> int:
    """Elements in all of them; a size that is not a number counts as nothing."""
    return sum(prod(size if isinstance(size, int) else 0 for size in tensor.shape) for tensor in tensors if tensor)


def counted(count: int, noun: str, plural: str = "") -> str:
    """``1 operation``, ``12 operations``."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def line_words(site: CallSite) -> str:
    """``train.py:41``."""
    name = site.file.replace("\\", "/").rpartition("/")[2]
    return f"{name}:{site.line}"


def listed(words: Sequence[str], most: int = 6) -> str:
    """``a, b, c and 4 more``."""
    shown = ", ".join(words[:most])
    return f"{shown} and {len(words) - most:,} more" if len(words) > most else shown


def shortened(text: str, length: int) -> str:
    """At most `length` characters, with the cut marked at the end."""
    return text if len(text) <= length else text[: length - 1].rstrip() + "…"
