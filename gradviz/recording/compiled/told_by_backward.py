"""What the graph of a compiled backward says of the tensors that it gets: inputs, or results of which operations.

Each tensor that a compiled function saves is a placeholder there. An input is called ``primals_3``. For a result torch
keeps the operator that made it, and the sequence number that autograd had when that operator was traced; the operators
of the backward have those of the forward. The replay makes the same nodes in the same order, so its numbers differ from
those by a constant: the one with which most operators stand at nodes of their kind. An operator without gradient has
the number of the node before it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import torch
from torch import fx

from gradviz.recording.compiled.recomputed_operations import graph_of_backward

_INPUT = re.compile(r"primals_(\d+)")
_END_OF_NODE = re.compile(r"(Backward)?\d*$")
_OTHER_KINDS = {
    "nativebatchnormlegit": "nativebatchnorm",
    "nativebatchnormlegitfunctional": "nativebatchnorm",
    "threshold": "relu",
    "unsafeview": "view",
    "reshapealias": "view",
    "reshape": "view",
}
"""Operators and nodes that are called otherwise in compiled code; and views that one call can make."""
_LEAST_SHARE = 2 / 3
"""If fewer of the operators stand at nodes of their kind, the numbers are not those of the replay."""


class ToldTensor(NamedTuple):
    """A tensor that a compiled function saved."""

    shape: tuple[int | None, ...]
    """Without sizes that are not the same in every call."""
    input: int | None = None
    """Number of the input of the traced graph; None for a result."""
    node: int | None = None
    """Number of the operation in the replay, beginning with 0; None if torch does not tell it."""


class NumberedNode(NamedTuple):
    """A node of the replay."""

    name: str
    module: str
    """The innermost module that made it, as Dynamo has it; empty outside of modules."""


class _Operator(NamedTuple):
    sequence_nr: int
    kind: str
    """``nativelayernorm`` for ``aten.native_layer_norm.default`` and its backward."""


def told_tensors(function_class: Any, nodes: Mapping[int, NumberedNode]) -> list[ToldTensor] | None:
    """The tensors in the order of the slots; None if torch does not tell what they are.

    Args:
        nodes: those of the replay, by number.
    """
    graph = graph_of_backward(function_class)
    if graph is None:
        return None
    shift = _shift({each for node in graph.nodes if (each := _operator(node)) is not None}, nodes)
    saved = [node for node in graph.nodes if _is_saved_tensor(node)]
    if shift is None:
        return None if any(_INPUT.fullmatch(node.name) is None for node in saved) else [_told(node) for node in saved]
    return [_told(node, shift, nodes) for node in saved]


def innermost_module(meta: Mapping[str, Any]) -> str:
    """The innermost module of a traced node: ``L['self'].blocks.0``."""
    stack = list((meta.get("nn_module_stack") or {}).values())
    return str(stack[-1][0]) if stack else ""


def _is_saved_tensor(node: fx.Node) -> bool:
    is_tensor = node.op == "placeholder" and isinstance(node.meta.get("val"), torch.Tensor)
    return is_tensor and not node.name.startswith("tangents_")


def _told(node: fx.Node, shift: int = 0, nodes: Mapping[int, NumberedNode] = {}) -> ToldTensor:
    shape = tuple(size if type(size) is int else None for size in node.meta["val"].shape)
    found, operator = _INPUT.fullmatch(node.name), _operator(node)
    if found is not None:
        return ToldTensor(shape, input=int(found[1]) - 1)
    if operator is None:
        return ToldTensor(shape)
    number, module = operator.sequence_nr - shift, innermost_module(node.meta)
    made, after = nodes.get(number), nodes.get(number + 1)
    is_before = made is not None and _kind_of_node(made.name) != operator.kind and made.module != module
    return ToldTensor(shape, node=number + 1 if is_before and after is not None and after.module == module else number)


def _operator(node: fx.Node) -> _Operator | None:
    """The operator of the forward that a node stands for; None if it only may be one."""
    number, operator = node.meta.get("seq_nr"), node.meta.get("original_aten")
    if number is None or operator is None:
        return None
    name = str(operator).split(".")[1]
    if node.meta.get("partitioner_tag") == "is_backward" and node.op != "placeholder" and "_backward" not in name:
        return None
    return _Operator(number, _kind(name.removesuffix("_backward")))


def _shift(operators: Iterable[_Operator], nodes: Mapping[int, NumberedNode]) -> int | None:
    """What is to be taken from the numbers of these operators; None if nothing fits, or several things do."""
    numbers: dict[str, list[int]] = {}
    for number, node in nodes.items():
        numbers.setdefault(_kind_of_node(node.name), []).append(number)
    of_known_kind = [each for each in operators if each.kind in numbers]
    votes = Counter(each.sequence_nr - number for each in of_known_kind for number in numbers[each.kind])
    (best, count), second = [*votes.most_common(2), (0, 0), (0, 0)][:2]
    return best if count > second[1] and count >= _LEAST_SHARE * len(of_known_kind) else None


def _kind_of_node(name: str) -> str:
    """``nativelayernorm`` for ``NativeLayerNormBackward0``."""
    return _kind(_END_OF_NODE.sub("", name))


def _kind(name: str) -> str:
    plain = name.replace("_", "").lower()
    return _OTHER_KINDS.get(plain, plain)
