"""The words for tensors, parameters, leaves and optimizers in findings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gradviz.analysis.dataflow.call_words import at_line, operation
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.graph.call_log import LoggedOptimizer, LoggedTensor
from gradviz.graph.model import Node

_MAX_NAMES = 3


def name_of(tensor: LoggedTensor) -> str | None:
    """The name that the user knows best: a dotted one rather than a loop variable; None if it has none."""
    dotted = [name for name in tensor.names if "." in name or "[" in name]
    known = dotted or tensor.names
    return min(known, key=lambda name: (name.startswith("self."), tensor.names.index(name)), default=None)


def tensor_words(flow: Dataflow, number: int) -> str:
    """Its name, or else what made it (``the result of relu at line 15``), or else its shape."""
    tensor = flow.log.tensors[number]
    name = name_of(tensor)
    if name is not None:
        return name
    shape = " x ".join(map(str, tensor.facts.shape))
    if tensor.role != "tensor":
        return f"an unnamed {shape or 'scalar'} parameter"
    if tensor.producer is None:
        return f"a tensor of {shape}" if shape else "a single number"
    return f"the result of {operation(flow.log.calls[tensor.producer])}{at_line(flow.line_of(tensor.producer))}"


def names_of(flow: Dataflow, tensors: Iterable[int]) -> tuple[str, ...]:
    """The names of the tensors that have one, without duplicates."""
    names = (name_of(flow.log.tensors[number]) for number in tensors)
    return tuple(dict.fromkeys(name for name in names if name is not None))


def leaf_names_above(flow: Dataflow, tensor: int, before: int | None = None, since: int = 0) -> tuple[str, ...]:
    """Names of the leaves that required grad and that a tensor was computed from."""
    rows = flow.ancestors(tensor, before, since)
    uses = (use for row in rows for use in flow.log.calls[row].inputs)
    return names_of(flow, sorted({use.tensor for use in uses if use.is_live_leaf}))


def optimizer_words(optimizer: LoggedOptimizer) -> str:
    """Its name, or else its class."""
    return optimizer.names[0] if optimizer.names else f"an optimizer ({optimizer.class_name})"


def leaf_names(nodes: Iterable[Node]) -> tuple[str, ...]:
    """Names of those nodes that are leaves, if they have a name."""
    return tuple(node.names[0] for node in nodes if node.is_leaf and node.names)


def together(names: Iterable[str], at_most: int = _MAX_NAMES) -> str:
    """``a.weight, a.bias and 3 more``."""
    known = list(names)
    if len(known) > at_most:
        known = [*known[: at_most - 1], f"{len(known) - at_most + 1:,} more"]
    return " and ".join(filter(None, (", ".join(known[:-1]), *known[-1:])))


def axes_words(axes: Sequence[int]) -> str:
    """``axis 1``, ``axes 2 and 3``."""
    return f"{'axis' if len(axes) == 1 else 'axes'} {together(map(str, axes))}"
