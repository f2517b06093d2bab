"""Finds where a walk starts: at the tensors that backward was called on, or else at results that nothing used."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import torch

from gradviz.errors import BadInput
from gradviz.recording.forward.tensor_names import NameTable
from gradviz.recording.forward.tensors_in_containers import named_tensors
from gradviz.recording.run.root_expression import parse_root
from gradviz.recording.torch_access.nodes import sequence_nr_of
from gradviz.recording.torch_access.tensors import DISABLE_TORCH_FUNCTION, grad_fn_of, node_of_leaf
from gradviz.recording.walk.graph_walker import Walk, walk
from gradviz.recording.walk.leaves import leaf_variables


class RootWithoutGradFn(NamedTuple):
    """A tensor that backward was called on though it has no ``grad_fn``."""

    name: str | None
    tensor: Any


class RootTensor(NamedTuple):
    """The start of a walk."""

    name: str | None
    tensor: torch.Tensor | None
    """None if the program gave a ``GradientEdge``."""
    grad_fn: Any
    output_nr: int


def root_of(value: Any, name: str | None) -> RootTensor | None:
    """The root for a tensor or a ``GradientEdge``; None if it has no graph."""
    if not isinstance(value, torch.Tensor):
        node = getattr(value, "node", None)
        return None if node is None else RootTensor(name, None, node, int(value.output_nr))
    with DISABLE_TORCH_FUNCTION():
        if not value.requires_grad:
            return None
        grad_fn = grad_fn_of(value)
        if grad_fn is not None:
            return RootTensor(name, value, grad_fn, value.output_nr)
        return RootTensor(name, value, node_of_leaf(value), 0)


def slots_in(walked: Walk, values: Iterable[Any]) -> list[tuple[int, int] | None]:
    """For tensors and ``GradientEdge``s: index of the node and of its output; None if it is not in the walk.

    Leaves are found by the tensors that nodes hold. Asking torch for the node of a leaf would make a further node, and
    change the sequence numbers of the program's own.
    """
    leaves = {id(variable): index for index, variable in leaf_variables(walked)}

    def slot_of(value: Any) -> tuple[int, int] | None:
        if id(value) in leaves:
            return leaves[id(value)], 0
        if isinstance(value, torch.Tensor) and grad_fn_of(value) is None:
            return None
        root = root_of(value, None)
        index = walked.position.get(root.grad_fn) if root is not None else None
        return None if root is None or index is None else (index, root.output_nr)

    with DISABLE_TORCH_FUNCTION():
        return [slot_of(value) for value in values]


MAX_CANDIDATES = 10_000


def unconsumed_results(names: NameTable, *, since: int = 0) -> list[RootTensor]:
    """The tensors with a ``grad_fn`` that no other tensor was computed from, in the order of their creation.

    Those whose node has a sequence number below `since` existed before, and are left out.
    """
    candidates: list[RootTensor] = []
    for tensor, _ in names.tensors.values():
        with DISABLE_TORCH_FUNCTION():
            grad_fn = grad_fn_of(tensor)
            if grad_fn is not None and sequence_nr_of(grad_fn) >= since:
                candidates.append(RootTensor(names.variables_of(tensor)[0], tensor, grad_fn, tensor.output_nr))
    del candidates[MAX_CANDIDATES:]
    walked = walk(candidate.grad_fn for candidate in candidates)
    consumed = {edge.target for edges in walked.edges for edge in edges if edge is not None}
    ends: dict[tuple[Any, int], RootTensor] = {}
    for candidate in candidates:
        if walked.position[candidate.grad_fn] not in consumed:
            ends.setdefault((candidate.grad_fn, candidate.output_nr), candidate)
    return sorted(ends.values(), key=lambda end: sequence_nr_of(end.grad_fn))


def roots_of_expression(expression: str, namespace: Mapping[str, Any]) -> list[RootTensor]:
    """The roots that ``--root`` names in the variables of a script.

    Raises:
        BadInput: there is no such value, or no tensor with a graph in it.
    """
    value = parse_root(expression).value_in(namespace)
    tensors = list(named_tensors(value, expression))
    if not tensors:
        raise BadInput(
            f"--root {expression!r} is a {type(value).__name__}, not a tensor",
            hint="name a tensor that has a graph",
        )
    roots = [root for name, tensor in tensors if (root := root_of(tensor, name)) is not None]
    if not roots:
        raise BadInput(
            f"--root {expression!r} has no grad_fn: nothing that it was computed from requires grad, "
            "or it was computed under no_grad or detached",
            hint="name a tensor that was computed from one with requires_grad=True",
        )
    return roots
