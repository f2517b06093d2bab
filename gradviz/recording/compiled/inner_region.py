"""What a compiled region consists of, as ordinary nodes: made from the replay of the graph that Dynamo traced."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx

from gradviz.graph.compilations import GraphBreak
from gradviz.graph.model import BackwardPart, CallSite, Edge, ModuleScope, Node, Recomputed
from gradviz.recording.compiled.region_constants import RegionConstant, RegionConstants
from gradviz.recording.compiled.region_replay import Replay, ReplayedCall
from gradviz.recording.compiled.run_log import custom_function_name
from gradviz.recording.compiled.saved_in_region import Told, WouldSave
from gradviz.recording.compiled.told_by_backward import CompiledBackward, operation_of, recomputed_operations
from gradviz.recording.compiled.traced_nodes import ModuleCalls, TracedNode, dotted_source, module_at
from gradviz.recording.forward.forward_log import CompiledCall
from gradviz.recording.forward.forward_memory import storage_of
from gradviz.recording.forward.function_names import public_name
from gradviz.recording.forward.module_tree import distinct_modules, parameters_inside
from gradviz.recording.forward.tensor_names import ModuleNames
from gradviz.recording.run.file_kinds import is_library_file, is_torch_file
from gradviz.recording.run.traced_stacks import frames_of
from gradviz.recording.torch_access.dynamo.dynamo_graphs import TensorInput, TracedGraph, has_method
from gradviz.recording.torch_access.nodes import LEAF_SEQUENCE_NR, away_from_modes, kept_without_hooks
from gradviz.recording.torch_access.tensor_facts import FactsTable
from gradviz.recording.torch_access.tensors import DISABLE_TORCH_FUNCTION, grad_fn_of, storage_address
from gradviz.recording.walk.composite_calls import NodeOfCall, takers_of_constants
from gradviz.recording.walk.node_classes import NodeClass, SavedSlot, plain_value, read_class
from gradviz.recording.walk.node_kinds import kind_of_call
from gradviz.recording.walk.node_outputs import OutputReader

Result = tuple[int, int] | int | None
"""A node and the number of its output; or the number of an input; or nothing."""


class UnknownRegion(Exception):
    """Says why a compiled region cannot be opened."""


@dataclass(frozen=True)
class InnerRegion:
    """The operations of a compiled region.

    Ids of nodes, scopes and call sites are local. An edge to input ``k`` of the region has the target ``-1 - k``.
    Scopes and call sites without parent belong to those of the region itself.
    """

    nodes: list[Node]
    results: list[Result]
    """What each output of the compiled function comes from."""
    scopes: list[ModuleScope]
    sites: list[CallSite]
    constants: list[RegionConstant]
    frame_scope: ModuleScope | None
    """The module or function that was compiled."""
    backend: str
    function: str
    expected: Sequence[WouldSave] = ()
    """What autograd would have saved."""
    told: Sequence[Told | None] | None = None
    """What torch tells of each saved tensor."""
    uncompiled_bytes: int | None = None
    """How much that is, without inputs."""
    recomputed: Sequence[Recomputed] | None = None
    """With local call sites."""
    backward_parts: Sequence[BackwardPart] = ()
    graph_break: GraphBreak | None = None


@dataclass
class RegionTables:
    """The scopes and call sites of one region, while they are made."""

    modules: ModuleNames
    known: Mapping[int, torch.nn.Module]
    frame_module: torch.nn.Module | None = None
    """The module whose ``forward`` was compiled."""
    frame_variable: str = ""
    scopes: list[ModuleScope] = field(default_factory=list)
    sites: list[CallSite] = field(default_factory=list)
    _sites: dict[tuple[str, int, str, int | None], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._calls: ModuleCalls[int | None] = ModuleCalls(self._enter, None)

    def site_of(self, traced: TracedNode) -> int | None:
        """The call site of a traced node; None if Dynamo noted none."""
        caller: int | None = None
        for frame in frames_of(traced):
            if is_torch_file(frame.file):
                continue
            key = (*frame, caller)
            if key not in self._sites:
                self._sites[key] = len(self.sites)
                self.sites.append(CallSite(*key, is_library_file(frame.file)))
            caller = self._sites[key]
        return caller

    def scope_of(self, traced: TracedNode) -> int | None:
        """The module call that a traced node belongs to; to be asked for in the order of the nodes."""
        return self._calls.scope_of(traced)

    def _enter(self, key: str, text: str, kind: Any, parent: int | None) -> int | None:
        self.scopes.append(self.scope_named(key, text, kind, parent))
        return len(self.scopes) - 1

    def scope_named(self, key: str, text: str, kind: Any, parent: int | None) -> ModuleScope:
        """The scope of one call; `key` begins with the module's ``id()``, `text` says where Dynamo found it."""
        class_name = kind.__name__ if isinstance(kind, type) else str(kind).rpartition(".")[2]
        module = self._module(key, text, class_name)
        if module is None:
            variable, _, path = dotted_source(text).partition(".")
            if path and self.frame_module is not None and variable == self.frame_variable:
                path = f"{self.modules.name_of_module(self.frame_module)}.{path}"
            return ModuleScope(path or class_name.lower(), class_name, parent)
        path = self.modules.name_of_module(module)
        return ModuleScope(path, class_name, parent, 0, sum(each.numel() for each in parameters_inside(module)))

    def _module(self, key: str, text: str, class_name: str) -> torch.nn.Module | None:
        """The module that ran: code that was compiled for one module may run for others that are alike.

        Inside an exported model it has another class.
        """
        variable, _, path = dotted_source(text).partition(".")
        if self.frame_module is not None and variable == self.frame_variable:
            return module_at(self.frame_module, path)
        number = re.match(r"\d+", key)
        module = self.known.get(int(number[0])) if number is not None else None
        return module if type(module).__name__ == class_name else None


def frame_module(
    traced: TracedGraph,
    running: torch.nn.Module | None,
    leaves: Sequence[Any],
    modules: ModuleNames,
    known: Mapping[int, torch.nn.Module],
) -> torch.nn.Module | None:
    """The module whose compiled ``forward`` ran: the one that was running, or has the parameters which the region got.

    Args:
        running: the innermost module call that was seen.
        leaves: for each input that is a tensor, the leaf that it is, or None.
    """
    if running is not None and has_method(running, traced.function, traced.code_file):
        return running
    by_path = {path: number for number, path in modules.paths.items()}
    tensors = [each for each in traced.inputs if isinstance(each, TensorInput)]
    for given, leaf in zip(tensors, leaves, strict=False):
        variable, _, path = dotted_source(given.source).partition(".")
        if leaf is None or variable != traced.module_variable or not path:
            continue
        for name in modules.parameters.get(id(leaf), ()):
            if name.endswith(f".{path}"):
                found = known.get(by_path.get(name.removesuffix(f".{path}"), 0))
                if found is not None:
                    return found
    return known.get(traced.module_id)


def known_modules(names: ModuleNames, called: list[torch.nn.Module]) -> dict[int, torch.nn.Module]:
    """Every module that can be named, by ``id()``."""
    held = [module for module, _ in names.variables.modules.values()]
    return {id(module): module for module in distinct_modules([*called, *held])}


class InnerRegionMaker:
    """Makes the nodes of one region.

    Args:
        call: that of the compiled code, if it was seen.
        backward: the graph of the compiled backward, if torch tells it.
        told: what it tells.
    """

    def __init__(
        self,
        traced: TracedGraph,
        replay: Replay,
        tables: RegionTables,
        constants: RegionConstants,
        facts: FactsTable,
        call: CompiledCall | None = None,
        backward: fx.Graph | None = None,
        told: CompiledBackward | None = None,
    ) -> None:
        self._traced, self._replay, self._tables, self._facts = traced, replay, tables, facts
        self._constants = constants
        self._is_checkpointed = call is not None and call.is_checkpointed
        self._function = traced.function if call is None else call.function
        self._told = told
        self._recomputed = None if backward is None else self._with_sites(recomputed_operations(backward))
        storages = [storage_of(each) for each in replay.tensors[0] if isinstance(each, torch.Tensor)]
        self._input_of_memory = {
            storage_address(each): number for number, each in enumerate(storages) if each is not None
        }
        self._classes: dict[type, NodeClass] = {}

    def _with_sites(self, nodes: Sequence[fx.Node]) -> list[Recomputed]:
        """Operations that are computed again, each once for each line and operation of the program."""
        counts = Counter((operation_of(node), self._tables.site_of(node), self._inner_nr(node)) for node in nodes)
        return [Recomputed(operation, site, count, inner_nr) for (operation, site, inner_nr), count in counts.items()]

    def _inner_nr(self, node: fx.Node) -> int:
        number = self._told.number_of(node) if self._told is not None else None
        return 0 if number is None or number < 0 else number + 1

    def _backward_parts(self) -> list[BackwardPart]:
        found = self._told.backward_of() if self._told is not None else {}
        return [BackwardPart(number + 1, dict(operators)) for number, operators in sorted(found.items()) if number >= 0]

    def make(self, results: list[Result]) -> InnerRegion:
        """The region, whose outputs are `results` in the ids of the walk."""
        walked = self._replay.walk
        local: dict[int, int] = {}
        for index, number in enumerate(walked.sequence_nrs):
            if number != LEAF_SEQUENCE_NR:
                local[index] = len(local)
            elif index not in self._replay.input_of:
                raise UnknownRegion("it uses a parameter that is not one of its inputs")
        outputs = OutputReader(self._facts, Counter()).of_walk(walked)
        takers = self._takers(local)
        nodes = [self._node(index, new, outputs[index], local, takers.get(index, ())) for index, new in local.items()]
        expected = away_from_modes(lambda: list(self._expected(local)))
        return InnerRegion(
            nodes,
            [(local[each[0]], each[1]) if isinstance(each, tuple) else each for each in results],
            self._tables.scopes,
            self._tables.sites,
            self._constants.found,
            self._frame_scope(),
            self._traced.backend,
            self._traced.function,
            expected,
            self._told_of(local),
            sum({each.memory: each.bytes for each in expected}.values()),
            self._recomputed,
            self._backward_parts(),
            self._traced.graph_break,
        )

    def _told_of(self, local: dict[int, int]) -> list[Told | None] | None:
        """What torch tells of each saved tensor, in the ids of the region and the numbers of its tensors."""
        tensors_told = self._told.tensors() if self._told is not None else None
        if tensors_told is None:
            return None
        sequence_nrs, first_nr = self._replay.walk.sequence_nrs, self._replay.first_nr
        by_number = {sequence_nrs[index] - first_nr: new for index, new in local.items()}
        tensors = [index for index, each in enumerate(self._traced.inputs) if isinstance(each, TensorInput)]
        number_of = {index: number for number, index in enumerate(tensors)}
        found: list[Told | None] = []
        for shape, given, node in tensors_told:
            number = None if given is None else number_of.get(given)
            new = None if node is None else by_number.get(node)
            found.append(None if number is None and new is None else Told(shape, number, new))
        return found

    def _expected(self, local: dict[int, int]) -> Iterator[WouldSave]:
        walked = self._replay.walk
        for index, new in local.items():
            wrapper = walked.wrappers[index]
            for slot in self._class_of(wrapper).saved:
                for tensor in kept_without_hooks(wrapper, slot.attribute):
                    if isinstance(tensor, torch.Tensor):
                        yield self._would_save(new, slot, tensor, local)

    def _would_save(self, new: int, slot: SavedSlot, tensor: torch.Tensor, local: dict[int, int]) -> WouldSave:
        facts = self._facts.of_metadata(tensor)
        with DISABLE_TORCH_FUNCTION():
            made_by = grad_fn_of(tensor)
            position = self._replay.walk.position.get(made_by) if made_by is not None else None
            number = tensor.output_nr
        storage = storage_of(tensor)
        memory = storage_address(storage) if storage is not None else 0
        given = self._input_of_memory.get(memory)
        size = 0 if storage is None or given is not None else storage.nbytes()
        if slot.result_nr is not None:
            return WouldSave(new, slot.name, facts.shape, facts.dtype, new, slot.result_nr, memory, size, given)
        is_input = made_by is None and any(tensor is each for each in self._replay.tensors[0])
        source = local.get(position) if position is not None else None if is_input else new
        number = number if position is not None else 0
        has_gradient = position is not None or is_input
        return WouldSave(new, slot.name, facts.shape, facts.dtype, source, number, memory, size, given, has_gradient)

    def _node(
        self, index: int, new: int, outputs: Any, local: dict[int, int], constants: tuple[torch.Tensor, ...]
    ) -> Node:
        walked, input_of = self._replay.walk, self._replay.input_of
        wrapper, number = walked.wrappers[index], walked.sequence_nrs[index]
        known = self._class_of(wrapper)
        call = self._replay.call_of(number)
        forward_call = public_name(call.function) if call is not None else None
        edges = tuple(
            None
            if edge is None
            else Edge(local[edge.target] if edge.target in local else -1 - input_of[edge.target], edge.input_nr)
            for edge in walked.edges[index]
        )
        kind = known.kind
        if forward_call is not None and call is not None and kind in ("operation", "view"):
            is_checkpointed = call.is_checkpointed or self._is_checkpointed
            kind = kind_of_call(kind, forward_call, is_checkpointed=is_checkpointed)
        if call is not None and call.is_inplace and number == call.end - 1:
            kind = "inplace"
        custom = custom_function_name(call.traced) if call is not None and kind == "custom" else None
        return Node(
            new,
            known.name if custom is None else f"{custom}Backward",
            kind,
            None,
            edges,
            outputs,
            forward_call,
            self._tables.site_of(call.traced) if call is not None else None,
            self._tables.scope_of(call.traced) if call is not None else None,
            {name: plain_value(getattr(wrapper, slot)) for name, slot in known.attributes},
            constants=self._constants.indices_of(constants),
            number=call.number if call is not None and number == call.end - 1 else None,
            inner_nr=number - self._replay.first_nr + 1,
        )

    def _class_of(self, wrapper: Any) -> NodeClass:
        known = self._classes.get(type(wrapper))
        if known is None:
            known = self._classes[type(wrapper)] = read_class(wrapper)
        return known

    def _takers(self, local: dict[int, int]) -> dict[int, tuple[torch.Tensor, ...]]:
        """The tensors without gradient that each operation takes, by its number in the walk."""
        walked, found = self._replay.walk, {}
        members: dict[int, tuple[ReplayedCall, list[int]]] = {}
        for index in sorted(local, key=walked.sequence_nrs.__getitem__):
            call = self._replay.call_of(walked.sequence_nrs[index])
            if call is not None and call.constants:
                members.setdefault(call.start, (call, []))[1].append(index)
        for call, indices in members.values():
            kinds = (self._class_of(walked.wrappers[index]).kind for index in indices)
            nodes = [
                NodeOfCall(index, walked.edges[index], kind == "view")
                for index, kind in zip(indices, kinds, strict=True)
            ]
            found.update(takers_of_constants(call.constants, nodes))
        return found

    def _frame_scope(self) -> ModuleScope | None:
        traced, module = self._traced, self._tables.frame_module
        if module is not None:
            return self._tables.scope_named("", f"L['{traced.module_variable}']", type(module), None)
        function = self._function
        return ModuleScope(function, f"{function}()", kind="function") if function else None
