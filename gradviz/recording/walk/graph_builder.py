"""Builds a `Graph` from a walk and the forward log: the only file that turns wrappers into data.

If something cannot be read from one node, it is counted and disclosed, and the other nodes are not affected.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, repeat
from typing import Any, NamedTuple

import torch
from msgspec.structs import replace

from gradviz.collector import collector_paused
from gradviz.graph.model import Attribute, BackwardCall, Constant, CustomFunction, Graph, HeldTensor, Node, Root
from gradviz.graph.saved_tensors import OlderGraph, Storage, TorchObjects
from gradviz.recording.forward.forward_log import CUSTOM_CALL, ForwardLog, Row, ThreadLog
from gradviz.recording.forward.forward_memory import ForwardMemory
from gradviz.recording.forward.forward_values import ForwardValues
from gradviz.recording.forward.function_names import public_name
from gradviz.recording.forward.tensor_hooks import hooks_behind, hooks_still_on
from gradviz.recording.forward.tensor_names import ModuleNames, NameTable
from gradviz.recording.run.line_attribution import CallSiteTable, StackTable
from gradviz.recording.run.traced_stacks import TracedModule
from gradviz.recording.torch_access.capabilities import works
from gradviz.recording.torch_access.nodes import LEAF_SEQUENCE_NR, TELLS_SAVED_TENSORS, sequence_nr_of
from gradviz.recording.torch_access.tensor_facts import FactsTable
from gradviz.recording.torch_access.tensors import DISABLE_TORCH_FUNCTION, grad_fn_there_already
from gradviz.recording.walk.composite_calls import NodeOfCall, takers_of_constants
from gradviz.recording.walk.graph_tables import ConstantTable, ScopeTable
from gradviz.recording.walk.graph_walker import Walk
from gradviz.recording.walk.leaves import leaf_indices, leaf_node, leaf_variables
from gradviz.recording.walk.node_classes import NodeClass, plain_value, read_class, saves_for_recomputation
from gradviz.recording.walk.node_kinds import kind_of_call
from gradviz.recording.walk.node_outputs import OutputReader
from gradviz.recording.walk.placements import placed
from gradviz.recording.walk.roots import RootTensor
from gradviz.recording.walk.saved_tensor_reader import SavedTensorReader
from gradviz.recording.walk.thread_mix import undecided_nodes


class CallAt(NamedTuple):
    """A backward call, and the stack that it was made from."""

    call: BackwardCall
    stack: int


@dataclass
class GraphBuilder:
    """Builds graphs from walks of one recording, sharing facts, names and call sites between their nodes."""

    facts: FactsTable
    log: ForwardLog
    stacks: StackTable
    unreadable: Counter[str] = field(default_factory=Counter)
    """How many reads failed, by what was read."""
    memory: ForwardMemory = field(default_factory=ForwardMemory)
    values: ForwardValues | None = None
    unseen_calls: int = 0
    """Nodes whose call was not seen."""
    undecided: int = 0
    """Nodes whose call cannot be told, because several threads made their graph."""
    uncompiled: int = 0
    """Nodes of calls that ran uncompiled inside a compiled function, where nobody saw what they got."""
    _classes: dict[type, NodeClass] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.outputs = OutputReader(self.facts, self.unreadable)

    def forget_unknowns(self) -> None:
        """The graphs that were built are not wanted: forget what could not be read of them."""
        self.unreadable.clear()
        self.unseen_calls = self.undecided = self.uncompiled = 0

    def build(
        self,
        walk: Walk,
        roots: Sequence[RootTensor],
        modules: ModuleNames,
        log: ThreadLog | None,
        constants: ConstantTable,
        backward: CallAt | None = None,
    ) -> Graph:
        """The graph of a walk; `log` is that of the thread that made the nodes."""
        one = _OneGraph(self, walk, modules, log, constants)
        with collector_paused():
            nodes = one.nodes()
        storages = one.storages()  # after everything has been referred to
        return Graph(
            nodes=nodes,
            roots=tuple(self._root(root, walk) for root in roots),
            backward=replace(backward.call, call_site=one.sites.site_of(backward.stack)) if backward else None,
            # After the nodes, for the same reason.
            scopes=one.scopes.scopes,
            call_sites=one.sites.sites,
            constants=one.constants_with_values(),
            storages=storages,
            knows_saved_tensors=TELLS_SAVED_TENSORS,
            allocators=self.memory.readings(one.objects(nodes, storages)),
            older_graphs=older_graphs(walk, modules.variables) if backward is not None else (),
            custom_functions=one.custom_functions,
        )

    def _root(self, root: RootTensor, walk: Walk) -> Root:
        facts = self.facts.of_tensor(root.tensor) if root.tensor is not None else None
        return Root(walk.position[root.grad_fn], root.output_nr, root.name, facts)

    def class_of(self, wrapper: Any) -> NodeClass:
        """The facts about a node's class."""
        known = self._classes.get(type(wrapper))
        if known is None:
            known = self._classes[type(wrapper)] = read_class(wrapper)
        return known

    def attributes_of(self, wrapper: Any, node_class: NodeClass) -> dict[str, Attribute]:
        """Non-tensor arguments that the node keeps."""
        found: dict[str, Attribute] = {}
        for name, slot in node_class.attributes:
            try:
                found[name] = plain_value(getattr(wrapper, slot))
            except RuntimeError:
                self.unreadable["attributes"] += 1
        return found


class _OneGraph:
    """The nodes and tables of a graph while it is built."""

    def __init__(
        self,
        builder: GraphBuilder,
        walk: Walk,
        modules: ModuleNames,
        log: ThreadLog | None,
        constants: ConstantTable,
    ) -> None:
        self.builder = builder
        self.walk = walk
        self.names = modules.variables
        self.log = log
        self.modules = modules
        self.sites = CallSiteTable(builder.stacks)
        self.scopes = ScopeTable(builder.log, modules)
        self.constants = constants
        self._saved = SavedTensorReader(walk, builder.facts, builder.unreadable, builder.values)
        self._forward_calls: dict[int, str] = {}
        self.custom_functions: tuple[CustomFunction, ...] = ()

    def nodes(self) -> tuple[Node, ...]:
        """Column by column, because a million calls of one function per node would take longer than the walk."""
        builder, walk = self.builder, self.walk
        classes = [builder.class_of(wrapper) for wrapper in walk.wrappers]
        outputs = builder.outputs.of_walk(walk)
        attributes = [
            builder.attributes_of(wrapper, known) if known.attributes else _NO_ATTRIBUTES
            for wrapper, known in zip(walk.wrappers, classes, strict=True)
        ]
        nodes = list(
            map(
                Node,
                walk.position.values(),  # the same numbers in the same order, and no new objects
                [known.name for known in classes],
                [known.kind for known in classes],
                walk.sequence_nrs,
                walk.edges,
                outputs,
                repeat(None),
                repeat(None),
                repeat(None),
                attributes,
                repeat(()),
                repeat(()),
                repeat(()),
                self._saved.of_walk(classes),
            )
        )
        self._complete(nodes, classes)
        # By identity first: there is one object per class, and hashing it for each node would be slow.
        distinct = {id(known): known.definition for known in classes}.values()
        self.custom_functions = tuple(definition for definition in distinct if definition is not None)
        return tuple(nodes)

    def _complete(self, nodes: list[Node], classes: list[NodeClass]) -> None:
        """Replace nodes of which more is known: leaves, those whose call was seen, and those that a variable holds."""
        leaves = leaf_indices(self.walk)
        for index in leaves:
            wrapper = self.walk.wrappers[index]
            nodes[index] = leaf_node(nodes[index], wrapper, self.modules, self.builder.outputs, self._saved)
        log = self.log
        if not self.builder.log.is_empty and (log is None or log.is_empty):
            self.builder.unseen_calls += len(nodes) - len(leaves)
        if log is not None and not log.is_empty:
            rows = log.rows_of(self.walk.sequence_nrs)
            takers = self._takers_of_constants(log, rows) if log.row_constants else {}
            undecided = undecided_nodes(self.walk, log, self.builder.log)
            self.builder.undecided += len(undecided)
            for index, (number, row) in enumerate(zip(self.walk.sequence_nrs, rows, strict=True)):
                if number != LEAF_SEQUENCE_NR and index not in undecided:
                    nodes[index] = self._with_its_call(nodes[index], log, number, row, takers.get(index))
        else:
            for index, known in enumerate(classes):
                if known.first_saved is not None and saves_for_recomputation(self.walk.wrappers[index], known):
                    nodes[index] = replace(nodes[index], kind="checkpoint")
        for index, held in self._held_tensors().items():
            nodes[index] = replace(nodes[index], held=held)
        values = self.builder.values
        if values is not None and values.up_to:
            values.added_to_nodes(nodes, chain(self._saved.results, self._tensors_still_there()), self._saved.values)

    def _takers_of_constants(self, log: ThreadLog, rows: Sequence[Row | None]) -> dict[int, tuple[int, ...]]:
        """For composite calls, which make several nodes: the constants of the log that each of these nodes takes."""
        numbers, found = self.walk.sequence_nrs, {}
        members: dict[int, tuple[Row, list[int]]] = {}
        for index, row in enumerate(rows):
            if row is not None and row.number in log.row_constants:
                members.setdefault(row.number, (row, []))[1].append(index)
        for row, indices in members.values():
            if len(indices) > 1 or numbers[indices[0]] != row.last_sequence_nr:
                indices.sort(key=lambda index: numbers[index])
                found.update(self._shared_out(log.row_constants[row.number], indices))
        return found

    def _shared_out(self, constants: Sequence[int], indices: Sequence[int]) -> dict[int, tuple[int, ...]]:
        """The constants of one composite call for each of its nodes."""
        walk, class_of = self.walk, self.builder.class_of
        return takers_of_constants(
            constants,
            [NodeOfCall(each, walk.edges[each], class_of(walk.wrappers[each]).kind == "view") for each in indices],
        )

    def _with_its_call(
        self, node: Node, log: ThreadLog, number: int, row: Row | None, constants_of_node: tuple[int, ...] | None
    ) -> Node:
        kind, forward_call, call_site = node.kind, None, None
        constants: tuple[int, ...] = ()
        traced_modules: tuple[TracedModule, ...] = ()
        operand: int | float | None = None
        if row is not None:
            self.builder.uncompiled += row.number in log.uncompiled_rows
            if kind == "checkpoint":
                forward_call = _RECOMPUTED
            elif row.function is not None:
                forward_call = self._public_name(row.function)
            call_site, traced_modules = self.sites.site_of(row.stack), self.sites.traced_modules(row.stack)
            if forward_call is not None and (kind == "operation" or kind == "view"):
                kind = kind_of_call(kind, forward_call, is_checkpointed=row.number in log.checkpointed_rows)
            # A composite call makes several nodes; the last one made the result.
            is_last = number == row.last_sequence_nr
            if constants_of_node is None:
                constants_of_node = log.row_constants.get(row.number, ()) if is_last else ()
            if constants_of_node:
                constants = self.constants.indices_of(constants_of_node)
            if is_last:
                operand = log.row_numbers.get(row.number)
                if row.number in log.inplace_rows:
                    kind = "inplace"
        elif kind != "custom" or works("custom functions"):  # else the reason is another, and told
            self.builder.unseen_calls += 1
        outputs, attributes = node.outputs, node.attributes
        if log.row_placements and row is not None and number == row.last_sequence_nr:
            is_custom = row.function == CUSTOM_CALL
            outputs, attributes = placed(node, log.row_placements.get(row.number), is_custom=is_custom)
        hooks = log.tensor_hooks.get(number)
        return Node(
            node.id,
            node.name,
            kind,
            number,
            node.edges,
            outputs,
            forward_call,
            call_site,
            self.scopes.index_of_traced(log.scope_of(number), traced_modules),
            attributes,
            hooks_still_on(hooks) if hooks else (),
            constants=constants,
            number=operand,
            saved=(*node.saved, *self._saved.of_hooks(hooks_behind(hooks))) if hooks else node.saved,
        )

    def storages(self) -> tuple[Storage, ...]:
        """Memory that the nodes keep, with what else holds it; call it after the nodes have been built."""
        with DISABLE_TORCH_FUNCTION():
            return tuple(
                self._saved.storages.storages(self.modules, self.builder.log.called_modules(), self.builder.memory)
            )

    def constants_with_values(self) -> tuple[Constant, ...]:
        """Inputs without a gradient; call it after the nodes have been built."""
        values = self.builder.values
        if values is None or not values.up_to:
            return self.constants.constants
        return values.added_to_constants(self.constants.constants, self.constants.logged)

    def _tensors_still_there(self) -> Iterator[tuple[int, int, torch.Tensor]]:
        """Tensors that nodes of this graph made, or its leaves, after the index of the node and of the output."""
        for index, variable in leaf_variables(self.walk):
            yield index, 0, variable
        for tensor, _ in self.names.tensors.values():
            with DISABLE_TORCH_FUNCTION():
                index_of_maker = self.walk.position.get(grad_fn_there_already(tensor))
                if index_of_maker is not None:
                    yield index_of_maker, tensor.output_nr, tensor

    def objects(self, nodes: Sequence[Node], storages: Sequence[Storage]) -> tuple[TorchObjects, ...]:
        """torch's own objects that the graph consists of."""
        return self._saved.objects.counted(nodes, storages)

    def _public_name(self, function: Any) -> str:
        name = self._forward_calls.get(id(function))
        if name is None:
            name = self._forward_calls[id(function)] = public_name(function)
        return name

    def _held_tensors(self) -> dict[int, tuple[HeldTensor, ...]]:
        held: dict[int, tuple[HeldTensor, ...]] = {}
        for tensor, _ in self.names.tensors.values():
            with DISABLE_TORCH_FUNCTION():
                index = self.walk.position.get(grad_fn_there_already(tensor))
                if index is not None:
                    entry = HeldTensor(
                        self.names.variables_of(tensor),
                        is_leaf=False,
                        retains_grad=tensor.retains_grad,
                        has_grad=bool(tensor.retains_grad and tensor.grad is not None),
                        output_nr=tensor.output_nr,
                    )
                    held[index] = (*held.get(index, ()), entry)
        return held


_RECOMPUTED = "torch.utils.checkpoint.checkpoint"
"""The call that makes the single node of a reentrant checkpoint, as the user wrote it."""

_NO_ATTRIBUTES: dict[str, Attribute] = {}


# -- Variables that hold graphs of earlier steps, which this backward does not free ------------------------------------
# ``losses.append(loss)`` and ``running += loss`` keep the graph of every step, and so does a validation loss that was
# computed without ``torch.no_grad()``. These graphs are not walked, because deep graphs are dangerous to free then.


def older_graphs(walked: Walk, names: NameTable) -> tuple[OlderGraph, ...]:
    """Older graphs that variables still hold, by variable, the one with most tensors first."""
    numbers = [number for number in walked.sequence_nrs if number != LEAF_SEQUENCE_NR]
    first = min(numbers, default=0)
    found: Counter[str] = Counter()
    for tensor, paths in names.tensors.values():
        with DISABLE_TORCH_FUNCTION():
            maker = grad_fn_there_already(tensor)
            if maker is not None and maker not in walked.position and sequence_nr_of(maker) < first:
                found[paths[0].partition("[")[0]] += 1
    return tuple(OlderGraph(name, tensors) for name, tensors in found.most_common())
