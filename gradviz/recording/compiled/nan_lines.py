"""Finds the line inside compiled code at which a gradient became NaN or Inf.

A compiled function is a single node, so the graph shows only its call. But torch keeps the operations, with their
lines, from which it compiled the node's backward. If the incoming gradients were finite and the outgoing ones are not,
these operations are run again after the program's backward, without compilation, on the tensors that the node had
saved.

Saved tensors are held until backward ends, so this is done only if they are small.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from msgspec.structs import replace

from gradviz.graph.model import CallSite, Graph
from gradviz.recording.backward.gradients.gradient_watch import measuring
from gradviz.recording.run.traced_stacks import frames_of
from gradviz.recording.torch_access.capabilities import works
from gradviz.recording.torch_access.dynamo.dynamo_graphs import aot_id_of, schema_of
from gradviz.recording.torch_access.dynamo.graph_interpreter import GraphInterpreter
from gradviz.recording.torch_access.engine import compiled_backward_of
from gradviz.recording.torch_access.nodes import SHOWS_SLOTS, python_function_class, saved_in
from gradviz.recording.walk.graph_walker import Walk

BROKEN_BY = "broken_by"
"""The attribute that names the operation."""
MAX_BYTES = 1 << 28
"""If compiled functions saved more than this, none is run again."""


@dataclass
class _Kept:
    """What is kept of a compiled node from before backward."""

    module: Any
    saved: list[torch.Tensor]
    tangents: tuple[torch.Tensor | None, ...] = ()


@dataclass(frozen=True)
class BrokenOperation:
    """The operation that made NaN or Inf of finite numbers."""

    operation: str
    file: str
    line: int
    function: str


@dataclass
class CompiledReruns:
    """Watches the compiled nodes of a walk from `start` to `stop`, and runs their backward again."""

    walk: Walk
    _kept: dict[int, _Kept] = field(default_factory=dict)
    _hooks: list[Any] = field(default_factory=list)

    def start(self) -> None:
        """Hold the saved tensors of compiled nodes, and note their incoming gradients."""
        kept = dict(_compiled_nodes(self.walk))
        if sum(tensor.nbytes for each in kept.values() for tensor in each.saved) > MAX_BYTES:
            return
        self._kept = kept
        for index in kept:
            self._hooks.append(self.walk.wrappers[index].register_prehook(partial(self._note, index)))

    def _note(self, index: int, gradients: tuple[torch.Tensor | None, ...]) -> None:
        self._kept[index].tangents = gradients

    def stop(self) -> None:
        """Remove the hooks; safe to call twice."""
        for hook in self._hooks:
            hook.remove()
        self._hooks = []

    def added_to(self, graph: Graph) -> Graph:
        """The graph, in which compiled nodes that made NaN or Inf have a line inside them as call site."""
        sites, nodes = list(graph.call_sites), list(graph.nodes)
        for index, kept in self._kept.items():
            broken = any(sent is not None and (sent.nans or sent.infs) for sent in nodes[index].gradients)
            origin = _origin_of(kept) if broken else None
            if origin is not None:
                attributes = nodes[index].attributes | {BROKEN_BY: origin.operation}
                nodes[index] = replace(nodes[index], call_site=len(sites), attributes=attributes)
                caller = graph.nodes[index].call_site
                sites.append(CallSite(origin.file, origin.line, origin.function, caller))
        self._kept = {}
        return (
            replace(graph, nodes=tuple(nodes), call_sites=tuple(sites)) if len(sites) > len(graph.call_sites) else graph
        )


def _compiled_nodes(walk: Walk) -> Iterator[tuple[int, _Kept]]:
    if not (SHOWS_SLOTS and works("graphs of compiled code")):
        return
    for index, wrapper in enumerate(walk.wrappers):
        function_class = python_function_class(wrapper)
        module = compiled_backward_of(function_class) if aot_id_of(function_class) is not None else None
        if isinstance(module, torch.fx.GraphModule):
            try:
                slots = saved_in(wrapper, "_raw_saved_tensors")
            except RuntimeError:  # an earlier backward freed them: torch is about to raise
                continue
            saved = [slot.data for slot in slots if slot.unpack_hook is None and isinstance(slot.data, torch.Tensor)]
            if len(saved) == len(slots):
                yield index, _Kept(module, saved)


def _origin_of(kept: _Kept) -> BrokenOperation | None:
    """None if the node's operations cannot be run again as they are, or show nothing."""
    inputs = [*kept.saved, *kept.tangents]
    wanted = [node for node in kept.module.graph.nodes if node.op == "placeholder"]
    if len(wanted) != len(inputs) or None in kept.tangents or not _is_repeatable(kept.module):
        return None
    finder = _OriginFinder(kept.module)
    with measuring():
        finder.run(*inputs)
    return finder.found


def _is_repeatable(module: Any) -> bool:
    """Whether it draws no random numbers and changes none of its inputs."""
    for node in module.graph.nodes:
        schema = schema_of(node.target)
        tags = getattr(node.target, "tags", ())
        if torch.Tag.nondeterministic_seeded in tags or (schema is not None and schema.is_mutable):
            return False
    return True


class _OriginFinder(GraphInterpreter):
    """Runs operation by operation, and remembers the first that made NaN or Inf."""

    found: BrokenOperation | None = None

    def run_node(self, n: Any) -> Any:
        result = super().run_node(n)
        if self.found is None and n.op == "call_function" and not _all_finite([result]):
            given = [self.env[node] for node in n.all_input_nodes if node in self.env]
            frames = list(frames_of(n))
            if _all_finite(given) and frames:
                self.found = BrokenOperation(str(n.target), *frames[-1])
        return result


def _all_finite(values: list[Any]) -> bool:
    tensors = [value for value in values if isinstance(value, torch.Tensor) and value.is_floating_point()]
    return all(bool(torch.isfinite(tensor).all()) for tensor in tensors)
