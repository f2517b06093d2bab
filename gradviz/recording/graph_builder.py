"""From a walk and the forward log to a `Graph`: the only place where wrappers become data.

A label that fails on one node must not cost the rest: what could not be read is counted and disclosed.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from gradviz.graph.model import (
    Attribute,
    BackwardCall,
    Constant,
    Edge,
    Graph,
    HeldTensor,
    ModuleScope,
    Node,
    NodeKind,
    Root,
    Scalar,
    TensorFacts,
)
from gradviz.recording import torch_compat
from gradviz.recording.forward_calls import public_name
from gradviz.recording.forward_log import NO_SCOPE, ForwardLog, ThreadLog
from gradviz.recording.forward_watch import hook_name
from gradviz.recording.graph_walker import Walk
from gradviz.recording.names import ModuleNames, NameTable
from gradviz.recording.node_kinds import is_checkpointed, kind_of_function_class, kind_of_operation
from gradviz.recording.stacks import CallSiteTable, StackTable
from gradviz.recording.tensor_facts import UNREADABLE, FactsTable
from gradviz.recording.torch_compat import LEAF_SEQUENCE_NR

_TOP_BIT = 2**63
_UNTOLD_ATTRIBUTES = ("sym_", "scalar_type", "options", "_sizes", "_numel")
"""Parts of attribute names that only repeat shapes and dtypes of the inputs."""


@dataclass(slots=True)
class NodeReader:
    """What is known about a class of nodes: every node of the class has the same slots, so they are looked up once."""

    attributes: list[tuple[str, str]]
    """Name to show, name to read."""
    first_saved: str | None
    function_class: type | None


@dataclass
class GraphBuilder:
    """Builds graphs from walks of one recording, sharing facts, names and call sites between their nodes."""

    facts: FactsTable
    log: ForwardLog
    stacks: StackTable
    unreadable: Counter[str] = field(default_factory=Counter)
    """How many readings of each sort failed."""
    _readers: dict[type, NodeReader] = field(default_factory=dict)

    def build(
        self,
        walk: Walk,
        roots: Sequence[tuple[str | None, torch.Tensor | None, Any, int]],
        names: NameTable,
        log: ThreadLog | None,
        backward: BackwardCall | None = None,
        backward_stack: int | None = None,
    ) -> Graph:
        """The graph of a walk.

        `roots` are name, tensor, ``grad_fn`` and output number; `log` is that of the thread that made the nodes.
        """
        one = _OneGraph(self, walk, names, log)
        nodes = one.nodes()
        if backward is not None and backward_stack is not None:
            backward = BackwardCall(
                backward.number,
                backward.function,
                one.sites.site_of(backward_stack),
                backward.retain_graph,
                backward.create_graph,
            )
        return Graph(
            nodes=nodes,
            roots=tuple(
                Root(
                    walk.position[grad_fn],
                    output_nr,
                    name,
                    self.facts.of_tensor(tensor) if tensor is not None else None,
                )
                for name, tensor, grad_fn, output_nr in roots
            ),
            scopes=one.scopes(),
            call_sites=one.sites.sites,
            constants=one.constants(),
            backward=backward,
        )

    def reader_of(self, wrapper: Any) -> NodeReader:
        """The slots of a node's class."""
        node_class = type(wrapper)
        reader = self._readers.get(node_class)
        if reader is None:
            slots = dir(wrapper)
            raw = {slot.removeprefix("_raw") for slot in slots if slot.startswith("_raw_saved_")}
            reader = self._readers[node_class] = NodeReader(
                attributes=[
                    (slot.removeprefix("_saved_"), slot)
                    for slot in slots
                    if slot.startswith("_saved_") and slot not in raw and not _repeats_shapes(slot)
                ],
                first_saved="_raw" + min(raw) if raw and torch_compat.python_function_class(wrapper) is None else None,
                function_class=torch_compat.python_function_class(wrapper),
            )
        return reader

    def outputs_of(self, wrapper: Any) -> tuple[TensorFacts | None, ...]:
        """Facts of what the forward produced."""
        try:
            metadata = torch_compat.input_metadata(wrapper)
        except RuntimeError:
            self.unreadable["shapes"] += 1
            return ()
        if len(metadata) == 1:
            return (self._output(metadata[0]),)
        return tuple(self._output(entry) for entry in metadata)

    def _output(self, entry: Any) -> TensorFacts | None:
        try:
            return self.facts.of_metadata(entry)
        except (RuntimeError, AttributeError, TypeError):
            # An output that was never used has no metadata; a nested tensor of the old kind has no shape.
            if getattr(entry, "is_cpp_nested_tensor", False):
                self.unreadable["shapes"] += 1
                return UNREADABLE
            return None

    def attributes_of(self, wrapper: Any, reader: NodeReader) -> dict[str, Attribute]:
        """Non-tensor arguments that the node keeps."""
        found: dict[str, Attribute] = {}
        for name, slot in reader.attributes:
            try:
                found[name] = plain_value(getattr(wrapper, slot))
            except RuntimeError:
                self.unreadable["attributes"] += 1
        return found

    def saves_for_recomputation(self, wrapper: Any, reader: NodeReader) -> bool:
        """True inside non-reentrant checkpointing; reads one packed slot without unpacking it."""
        if reader.first_saved is None:
            return False
        try:
            raw = getattr(wrapper, reader.first_saved)
        except RuntimeError:
            return False  # freed by an earlier backward
        if isinstance(raw, tuple):
            return any(is_checkpointed(element) for element in raw[:1])
        return is_checkpointed(raw)


@dataclass
class _OneGraph:
    """The tables of a graph while it is built."""

    builder: GraphBuilder
    walk: Walk
    names: NameTable
    log: ThreadLog | None

    def __post_init__(self) -> None:
        self.sites = CallSiteTable(self.builder.stacks)
        self.modules = ModuleNames(self.builder.log.called_modules(), self.names)
        self._scopes: list[ModuleScope] = []
        self._scope_places: dict[int, int] = {}
        self._constants: list[Constant] = []
        self._constant_places: dict[int, int] = {}
        self._forward_calls: dict[Any, str] = {}
        self._parameter_counts: dict[int, int] = {}
        self._held = self._held_tensors()

    # -- nodes ---------------------------------------------------------------------------------------------------

    def nodes(self) -> tuple[Node, ...]:
        builder, position = self.builder, self.walk.position
        edges: dict[tuple[int, int], Edge] = {}
        nodes: list[Node] = []
        for place, wrapper in enumerate(self.walk.wrappers):
            own_edges: list[Edge | None] = []
            for follower, input_nr in self.walk.followers[place]:
                if follower is None:
                    own_edges.append(None)
                else:
                    key = (position[follower], input_nr)
                    edge = edges.get(key)
                    if edge is None:
                        edge = edges[key] = Edge(*key)
                    own_edges.append(edge)
            number = self.walk.sequence_nrs[place]
            if number == LEAF_SEQUENCE_NR and hasattr(wrapper, "variable"):
                nodes.append(self._leaf(place, wrapper))
            else:
                nodes.append(self._operation(place, wrapper, number, tuple(own_edges), builder.reader_of(wrapper)))
        return tuple(nodes)

    def _leaf(self, place: int, wrapper: Any) -> Node:
        tensor = wrapper.variable
        hooks: tuple[str, ...] = ()
        with torch_compat.DISABLE_TORCH_FUNCTION():
            names = (*self.modules.parameters.get(id(tensor), ()), *self._variables(tensor))
            held = HeldTensor(names, tensor.is_leaf, tensor.requires_grad, tensor.retains_grad, tensor.grad is not None)
            hooks = tuple(hook_name(hook) for hook in _hooks_of(tensor))
            is_parameter = isinstance(tensor, torch.nn.Parameter) or id(tensor) in self.modules.parameters
        return Node(
            place,
            wrapper.name(),
            "parameter" if is_parameter else "input",
            outputs=(self.builder.facts.of_tensor(tensor),),
            hooks=hooks,
            held=(held,),
        )

    def _operation(
        self, place: int, wrapper: Any, number: int, edges: tuple[Edge | None, ...], reader: NodeReader
    ) -> Node:
        builder, log = self.builder, self.log
        row = log.row_of(number) if log is not None else None
        forward_call = call_site = scope = None
        constants: tuple[int, ...] = ()
        hooks: tuple[str, ...] = ()
        if log is not None:
            scope = self._scope(log.scope_of(number))
            hooks = tuple(log.tensor_hooks.get(number, ())) if log.tensor_hooks else ()
            if row is not None:
                forward_call = self._public_name(row.function)
                call_site = self.sites.site_of(row.stack)
                # A composite call makes several nodes; its inputs are shown at the last, which gave the result.
                if number == row.last_sequence_nr and row.place in log.row_constants:
                    constants = self._constant_indices(log.row_constants[row.place])
        kind: NodeKind
        if reader.function_class is not None:
            kind = kind_of_function_class(reader.function_class)
        else:
            checkpointed = builder.saves_for_recomputation(wrapper, reader)
            kind = kind_of_operation(wrapper.name(), forward_call, checkpointed)
        return Node(
            place,
            wrapper.name(),
            kind,
            number,
            edges,
            builder.outputs_of(wrapper),
            forward_call,
            call_site,
            scope,
            builder.attributes_of(wrapper, reader) if reader.attributes else _NO_ATTRIBUTES,
            hooks,
            self._held.get(place, ()),
            constants,
        )

    def _public_name(self, function: Any) -> str:
        name = self._forward_calls.get(function)
        if name is None:
            name = self._forward_calls[function] = public_name(function)
        return name

    # -- tensors that Python holds -------------------------------------------------------------------------------

    def _held_tensors(self) -> dict[int, tuple[HeldTensor, ...]]:
        held: dict[int, tuple[HeldTensor, ...]] = {}
        for tensor, variables in self.names.tensors.values():
            with torch_compat.DISABLE_TORCH_FUNCTION():
                grad_fn = tensor.grad_fn if tensor.requires_grad and not tensor.is_leaf else None
                place = self.walk.position.get(grad_fn) if grad_fn is not None else None
                if place is None:
                    continue
                entry = HeldTensor(
                    tuple(variables),
                    is_leaf=False,
                    retains_grad=tensor.retains_grad,
                    has_grad=bool(tensor.retains_grad and tensor.grad is not None),
                    output_nr=tensor.output_nr,
                )
            held[place] = (*held.get(place, ()), entry)
        return held

    def _variables(self, tensor: torch.Tensor) -> tuple[str, ...]:
        return self.names.variables_of(tensor)

    # -- tables --------------------------------------------------------------------------------------------------

    def scopes(self) -> tuple[ModuleScope, ...]:
        return tuple(self._scopes)

    def constants(self) -> tuple[Constant, ...]:
        return tuple(self._constants)

    def _scope(self, logged: int) -> int | None:
        if logged == NO_SCOPE:
            return None
        missing = []
        while logged != NO_SCOPE and logged not in self._scope_places:
            missing.append(logged)
            logged = self.builder.log.scopes[logged].parent
        for scope in reversed(missing):
            self._scope_places[scope] = len(self._scopes)
            self._scopes.append(self._module_scope(scope))
        return self._scope_places[missing[0] if missing else logged]

    def _module_scope(self, logged: int) -> ModuleScope:
        entry = self.builder.log.scopes[logged]
        reference, class_name = self.builder.log.modules[entry.module]
        module = reference()
        parent = None if entry.parent == NO_SCOPE else self._scope_places[entry.parent]
        if module is None:
            path, count = class_name.lower(), 0
        else:
            path = self.modules.paths.get(id(module)) or self.names.module_name(module)
            count = self._parameter_count(entry.module, module)
        return ModuleScope(path, class_name, parent, entry.call, count)

    def _parameter_count(self, place: int, module: torch.nn.Module) -> int:
        if place not in self._parameter_counts:
            with torch_compat.DISABLE_TORCH_FUNCTION():
                self._parameter_counts[place] = sum(
                    parameter.numel() for parameter in module.parameters() if not _is_uninitialized(parameter)
                )
        return self._parameter_counts[place]

    def _constant_indices(self, seen: tuple[int, ...]) -> tuple[int, ...]:
        for place in seen:
            if place not in self._constant_places:
                self._constant_places[place] = len(self._constants)
                self._constants.append(self._constant(place))
        return tuple(self._constant_places[place] for place in seen)

    def _constant(self, place: int) -> Constant:
        reference, facts = self.builder.log.constants[place]
        tensor = reference()
        if tensor is None:
            return Constant(facts)
        if id(tensor) in self.modules.parameters:
            return Constant(facts, "parameter", tuple(self.modules.parameters[id(tensor)]))
        if id(tensor) in self.modules.buffers:
            return Constant(facts, "buffer", tuple(self.modules.buffers[id(tensor)]))
        return Constant(facts, "data", self._variables(tensor))


_NO_ATTRIBUTES: dict[str, Attribute] = {}


def _hooks_of(tensor: torch.Tensor) -> list[Any]:
    tables = (getattr(tensor, "_backward_hooks", None), getattr(tensor, "_post_accumulate_grad_hooks", None))
    return [hook for table in tables if table for hook in table.values()]


def _is_uninitialized(parameter: torch.Tensor) -> bool:
    return torch.nn.parameter.is_lazy(parameter)


def _repeats_shapes(slot: str) -> bool:
    return any(part in slot for part in _UNTOLD_ATTRIBUTES)


def plain_value(value: Any) -> Attribute:
    """A node's attribute as a number, text or list; what is neither is shown as Python prints it."""
    if isinstance(value, (list, tuple)):
        return [_scalar(element) for element in value]
    return _scalar(value)


def _scalar(value: Any) -> Scalar:
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)  # JSON knows no infinity
    if isinstance(value, int):
        # torch hands signed 64-bit numbers out as unsigned ones: dim=-1 arrives as 2**64 - 1.
        return value - 2 * _TOP_BIT if value >= _TOP_BIT else value
    return str(value).removeprefix("torch.")
