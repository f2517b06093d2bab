"""What the graph of a compiled backward tells: which tensors it gets, and what it computes again and instead of what.

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

from gradviz.recording.torch_access.dynamo.dynamo_graphs import schema_of
from gradviz.recording.torch_access.engine import compiled_backward_of
from gradviz.recording.torch_access.name_lookup import find

_TAG = "partitioner_tag"
"""Where a partitioner notes whether a node belongs to the forward or to the backward."""
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
_BACKWARD = "is_backward"
_SUM = "Gradient addition node"
"""How torch marks the sum of gradients of a tensor that several operations use."""
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


def graph_of_backward(function_class: Any) -> fx.Graph | None:
    """The graph of a compiled backward, if torch tells what it consists of.

    Code from a cache has no such graph, and inductor strips it once backward has run.
    """
    module = compiled_backward_of(function_class)
    is_whole = isinstance(module, fx.GraphModule) and any(_TAG in node.meta for node in module.graph.nodes)
    return module.graph if is_whole else None


def recomputed_operations(graph: fx.Graph) -> list[fx.Node]:
    """Operations of the forward in the graph of a backward, without views."""
    nodes = [node for node in graph.nodes if node.op == "call_function"]
    # Until torch 2.6 only operations of the backward had a tag.
    forward = "is_forward" if find("torch._functorch.partitioners._has_tag_is_forward") is not None else None
    return [node for node in nodes if node.meta.get(_TAG) == forward and _computes(node.target)]


class CompiledBackward:
    """What the graph of a compiled backward tells.

    Args:
        graph: as `graph_of_backward` gives it.
        nodes: those of the replay, by number.
    """

    def __init__(self, graph: fx.Graph, nodes: Mapping[int, NumberedNode]) -> None:
        self._graph, self._nodes = graph, nodes
        self._shift = _shift({each for node in graph.nodes if (each := _operator(node)) is not None}, nodes)

    def tensors(self) -> list[ToldTensor] | None:
        """The saved tensors, in the order of the slots; None if torch does not tell what they are."""
        saved = [node for node in self._graph.nodes if _is_saved_tensor(node)]
        inputs = [_INPUT.fullmatch(node.name) for node in saved]
        if self._shift is None and None in inputs:
            return None
        return [
            ToldTensor(_shape(node), node=self.number_of(node))
            if found is None
            else ToldTensor(_shape(node), input=int(found[1]) - 1)
            for node, found in zip(saved, inputs, strict=True)
        ]

    def number_of(self, node: fx.Node) -> int | None:
        """The number in the replay of the operation that a node stands for; None if torch does not tell it."""
        sequence_nr = node.meta.get("seq_nr")
        if self._shift is None or sequence_nr is None:
            return None
        number = int(sequence_nr) - self._shift
        operator, module = _operator(node), innermost_module(node.meta)
        made, after = self._nodes.get(number), self._nodes.get(number + 1)
        is_before = operator is not None and made is not None and _kind_of_node(made.name) != operator.kind
        is_after = is_before and made is not None and made.module != module
        return number + 1 if is_after and after is not None and after.module == module else number

    def backward_of(self) -> dict[int, Counter[str]]:
        """The operators that the backward of each operation was compiled into, by its number in the replay."""
        found: dict[int, Counter[str]] = {}
        for node in self._graph.nodes:
            if node.op == "call_function" and node.meta.get(_TAG) == _BACKWARD and _computes(node.target):
                sequence_nr = node.meta.get("seq_nr")
                is_sum = str(node.meta.get("stack_trace") or "").startswith(_SUM)
                if self._shift is not None and sequence_nr is not None and not is_sum:
                    found.setdefault(int(sequence_nr) - self._shift, Counter())[operation_of(node)] += 1
        return found


def innermost_module(meta: Mapping[str, Any]) -> str:
    """The innermost module of a traced node: ``L['self'].blocks.0``."""
    stack = list((meta.get("nn_module_stack") or {}).values())
    return str(stack[-1][0]) if stack else ""


def _is_saved_tensor(node: fx.Node) -> bool:
    is_tensor = node.op == "placeholder" and isinstance(node.meta.get("val"), torch.Tensor)
    return is_tensor and not node.name.startswith("tangents_")


def _shape(node: fx.Node) -> tuple[int | None, ...]:
    return tuple(size if type(size) is int else None for size in node.meta["val"].shape)


def _operator(node: fx.Node) -> _Operator | None:
    """The operator of the forward that a node stands for; None if it only may be one."""
    number, operator = node.meta.get("seq_nr"), node.meta.get("original_aten")
    if number is None or operator is None:
        return None
    name = str(operator).split(".")[1]
    if node.meta.get(_TAG) == _BACKWARD and node.op != "placeholder" and "_backward" not in name:
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


def operation_of(node: fx.Node) -> str:
    """``erf`` for ``aten.erf.default``."""
    return str(node.target).split(".")[1]


def _computes(target: Any) -> bool:
    """Whether an operator does more than look at the memory of what it gets in another way."""
    schema = schema_of(target)
    return schema is not None and not any(argument.alias_info is not None for argument in schema.arguments)
