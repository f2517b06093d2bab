"""From a walk and the forward log to a `Graph`: the only place where wrappers become data.

A label that fails on one node must not cost the rest: what could not be read is counted and disclosed.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any

import torch
from msgspec.structs import replace

from gradviz.graph.model import (
    Attribute,
    BackwardCall,
    Constant,
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
from gradviz.recording.graph_walker import Walk, without_collector
from gradviz.recording.names import ModuleNames, NameTable, parameters_inside
from gradviz.recording.node_kinds import is_checkpointed, kind_of_call, kind_of_function_class, kind_of_operation
from gradviz.recording.stacks import CallSiteTable, StackTable
from gradviz.recording.tensor_facts import UNREADABLE, FactsTable, is_unreadable
from gradviz.recording.torch_compat import LEAF_SEQUENCE_NR

_TOP_BIT = 2**63
_UNTOLD_ATTRIBUTES = ("sym_", "scalar_type", "options", "_sizes", "_numel")
"""Parts of attribute names that only repeat shapes and dtypes of the inputs."""


@dataclass(frozen=True, slots=True)
class NodeClass:
    """What all nodes of one class have in common, looked up once."""

    name: str
    kind: NodeKind
    attributes: tuple[tuple[str, str], ...]
    """Non-tensor arguments: name to show, name to read."""
    first_saved: str | None
    """A slot that tells whether saved tensors are packed by hooks; None for Python functions."""


@dataclass
class GraphBuilder:
    """Builds graphs from walks of one recording, sharing facts, names and call sites between their nodes."""

    facts: FactsTable
    log: ForwardLog
    stacks: StackTable
    unreadable: Counter[str] = field(default_factory=Counter)
    """How many readings of each sort failed."""
    unseen_calls: int = 0
    """Nodes of which nobody saw the call that made them."""
    _classes: dict[type, NodeClass] = field(default_factory=dict)

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
        with without_collector():
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

    def class_of(self, wrapper: Any) -> NodeClass:
        """The facts of a node's class."""
        known = self._classes.get(type(wrapper))
        if known is None:
            known = self._classes[type(wrapper)] = _read_class(wrapper)
        return known

    def outputs_of(self, walk: Walk) -> list[tuple[TensorFacts | None, ...]]:
        """Facts of what the forward of each node produced; nothing yet for leaves, which tell it themselves."""
        read, single = torch_compat.input_metadata, self.facts.single
        result: list[tuple[TensorFacts | None, ...]] = []
        for wrapper, number in zip(walk.wrappers, walk.sequence_nrs, strict=True):
            try:
                metadata = read(wrapper) if number != LEAF_SEQUENCE_NR else ()
                if len(metadata) == 1:
                    # Spelled out for the usual case: a function call each would double the cost of the whole column.
                    (entry,) = metadata
                    key = (tuple(entry.shape), entry.dtype, entry.device)
                    result.append(single.get(key) or self.facts.new_single(key))
                else:
                    result.append(tuple([self._output(entry) for entry in metadata]))
            except (RuntimeError, AttributeError, TypeError):
                result.append(self._outputs_one_by_one(wrapper))
        return result

    def leaf_output(self, wrapper: Any, tensor: torch.Tensor) -> TensorFacts | None:
        """Facts of a leaf: the tensor's own, or what its node says where a subclass keeps them to itself."""
        facts = self.facts.of_tensor(tensor)
        if is_unreadable(facts):
            known = self._outputs_one_by_one(wrapper)
            return replace(known[0], type_name=facts.type_name) if known and known[0] is not None else facts
        return facts

    def _outputs_one_by_one(self, wrapper: Any) -> tuple[TensorFacts | None, ...]:
        try:
            metadata = torch_compat.input_metadata(wrapper)
        except RuntimeError:
            self.unreadable["shapes"] += 1
            return ()
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

    def attributes_of(self, wrapper: Any, node_class: NodeClass) -> dict[str, Attribute]:
        """Non-tensor arguments that the node keeps."""
        found: dict[str, Attribute] = {}
        for name, slot in node_class.attributes:
            try:
                found[name] = plain_value(getattr(wrapper, slot))
            except RuntimeError:
                self.unreadable["attributes"] += 1
        return found


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
        self._forward_calls: dict[int, str] = {}
        self._parameter_counts: dict[int, int] = {}
        self._held = self._held_tensors()

    # -- nodes ---------------------------------------------------------------------------------------------------

    def nodes(self) -> tuple[Node, ...]:
        """Column by column, because a million calls of one function for each node would cost more than the walk."""
        builder, walk = self.builder, self.walk
        classes = [builder.class_of(wrapper) for wrapper in walk.wrappers]
        outputs = builder.outputs_of(walk)
        attributes = [
            builder.attributes_of(wrapper, known) if known.attributes else _NO_ATTRIBUTES
            for wrapper, known in zip(walk.wrappers, classes, strict=True)
        ]
        nodes = list(
            map(
                Node,
                range(len(classes)),
                [known.name for known in classes],
                [known.kind for known in classes],
                walk.sequence_nrs,
                walk.edges,
                outputs,
                repeat(None),
                repeat(None),
                repeat(None),
                attributes,
            )
        )
        self._complete(nodes, classes)
        return tuple(nodes)

    def _complete(self, nodes: list[Node], classes: list[NodeClass]) -> None:
        """Replace the nodes of which more is known: leaves, those whose call was seen, those that a variable holds."""
        leaves = [place for place, number in enumerate(self.walk.sequence_nrs) if number == LEAF_SEQUENCE_NR]
        for place in leaves:
            nodes[place] = self._leaf(place, self.walk.wrappers[place], nodes[place])
        log = self.log
        if not self.builder.log.is_empty and (log is None or log.is_empty):
            self.builder.unseen_calls += len(nodes) - len(leaves)
        if log is not None and not log.is_empty:
            for place, number in enumerate(self.walk.sequence_nrs):
                if number != LEAF_SEQUENCE_NR:
                    nodes[place] = self._with_its_call(nodes[place], log, number)
        else:
            for place, known in enumerate(classes):
                if known.first_saved is not None and saves_for_recomputation(self.walk.wrappers[place], known):
                    nodes[place] = replace(nodes[place], kind="checkpoint")
        for place, held in self._held.items():
            nodes[place] = replace(nodes[place], held=held)

    def _leaf(self, place: int, wrapper: Any, node: Node) -> Node:
        if not hasattr(wrapper, "variable"):
            return replace(node, sequence_nr=None)
        tensor = wrapper.variable
        with torch_compat.DISABLE_TORCH_FUNCTION():
            names = (*self.modules.parameters.get(id(tensor), ()), *self._variables(tensor))
            has_grad = tensor.grad is not None
            held = HeldTensor(names, tensor.is_leaf, tensor.requires_grad, tensor.retains_grad, has_grad)
            hooks = tuple(hook_name(hook) for hook in _hooks_of(tensor))
            is_parameter = isinstance(tensor, torch.nn.Parameter) or id(tensor) in self.modules.parameters
        return Node(
            place,
            node.name,
            "parameter" if is_parameter else "input",
            outputs=(self.builder.leaf_output(wrapper, tensor),),
            hooks=hooks,
            held=(held,),
        )

    def _with_its_call(self, node: Node, log: ThreadLog, number: int) -> Node:
        kind, forward_call, call_site = node.kind, None, None
        constants: tuple[int, ...] = ()
        row = log.row_of(number)
        if row is not None:
            forward_call = self._public_name(row.function)
            call_site = self.sites.site_of(row.stack)
            if kind == "operation" or kind == "view":
                kind = kind_of_call(kind, forward_call, is_checkpointed=row.place in log.checkpointed_rows)
            # A composite call makes several nodes; its inputs are shown at the last, which gave the result.
            if number == row.last_sequence_nr:
                constants = self._constant_indices(log.row_constants.get(row.place, ()))
                if row.place in log.inplace_rows:
                    kind = "inplace"
        else:
            self.builder.unseen_calls += 1
        return Node(
            node.id,
            node.name,
            kind,
            number,
            node.edges,
            node.outputs,
            forward_call,
            call_site,
            self._scope(log.scope_of(number)),
            node.attributes,
            _hooks_still_on(log.tensor_hooks.get(number, ())),
            constants=constants,
        )

    def _public_name(self, function: Any) -> str:
        name = self._forward_calls.get(id(function))
        if name is None:
            name = self._forward_calls[id(function)] = public_name(function)
        return name

    # -- tensors that Python holds -------------------------------------------------------------------------------

    def _held_tensors(self) -> dict[int, tuple[HeldTensor, ...]]:
        held: dict[int, tuple[HeldTensor, ...]] = {}
        for tensor, _ in self.names.tensors.values():
            with torch_compat.DISABLE_TORCH_FUNCTION():
                place = self.walk.position.get(torch_compat.grad_fn_of(tensor))
                if place is not None:
                    entry = HeldTensor(
                        self._variables(tensor),
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
                self._parameter_counts[place] = sum(parameter.numel() for parameter in parameters_inside(module))
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


def _read_class(wrapper: Any) -> NodeClass:
    slots = dir(wrapper)
    raw = {slot.removeprefix("_raw") for slot in slots if slot.startswith("_raw_saved_")}
    function_class = torch_compat.python_function_class(wrapper)
    plain = [slot for slot in slots if slot.startswith("_saved_") and slot not in raw and not _repeats_shapes(slot)]
    name = wrapper.name()
    return NodeClass(
        name=name,
        kind=kind_of_operation(name) if function_class is None else kind_of_function_class(function_class),
        attributes=tuple((slot.removeprefix("_saved_"), slot) for slot in plain),
        first_saved="_raw" + min(raw) if raw and function_class is None else None,
    )


def saves_for_recomputation(wrapper: Any, node_class: NodeClass) -> bool:
    """True inside non-reentrant checkpointing, where nobody saw the call: reads one packed slot, unpacks nothing."""
    try:
        raw = getattr(wrapper, node_class.first_saved or "")
    except RuntimeError:
        return False  # freed by an earlier backward
    first = raw[0] if isinstance(raw, tuple) and raw else raw
    return is_checkpointed(first)


_NO_ATTRIBUTES: dict[str, Attribute] = {}


def _hooks_still_on(hooks: Sequence[tuple[str, Any]]) -> tuple[str, ...]:
    """Names of the hooks that were not removed since: a handle knows the table that its hook stood in."""
    still_on = []
    for name, handle in hooks:
        table = getattr(handle, "hooks_dict_ref", lambda: None)()
        if table is None or handle.id in table:
            still_on.append(name)
    return tuple(still_on)


def _hooks_of(tensor: torch.Tensor) -> list[Any]:
    tables = (getattr(tensor, "_backward_hooks", None), getattr(tensor, "_post_accumulate_grad_hooks", None))
    return [hook for table in tables if table for hook in table.values()]


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
