"""Finds the compiled nodes of a walk, and what each of them consists of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from msgspec.structs import replace

from gradviz.graph.compilations import Compilation, GradientCut
from gradviz.graph.model import Edge, Graph
from gradviz.recording.compiled.gradient_cuts import gradient_cuts
from gradviz.recording.compiled.inner_region import (
    InnerRegion,
    InnerRegionMaker,
    RegionTables,
    Result,
    UnknownRegion,
    frame_module,
    known_modules,
)
from gradviz.recording.compiled.noted_cuts import NotedCuts
from gradviz.recording.compiled.region_constants import RegionConstants
from gradviz.recording.compiled.region_opening import FoundRegion, FoundRegions, UncompiledRegion
from gradviz.recording.compiled.region_replay import CannotReplay, Replay, is_alike, replayed
from gradviz.recording.compiled.told_by_backward import CompiledBackward, graph_of_backward
from gradviz.recording.forward.forward_log import CompiledCall, ThreadLog
from gradviz.recording.forward.tensor_names import ModuleNames
from gradviz.recording.torch_access.dynamo.dynamo_graphs import (
    OutputPlan,
    TensorInput,
    TracedGraph,
    aot_id_of,
    output_plan_of,
)
from gradviz.recording.torch_access.engine import is_differentiated_backward
from gradviz.recording.torch_access.modules import compiled_from
from gradviz.recording.torch_access.nodes import LEAF_SEQUENCE_NR, input_metadata, python_function_class
from gradviz.recording.torch_access.tensor_facts import FactsTable
from gradviz.recording.walk.graph_tables import ConstantTable
from gradviz.recording.walk.graph_walker import Walk
from gradviz.recording.walk.leaves import leaf_variables

COMPILED_CALL = "torch.compile"
"""`Node.forward_call` of what a call of compiled code made."""


class RegionFinder:
    """Finds the regions of the graphs of one recording.

    Args:
        module_of: finds the module of a scope of the log.
    """

    def __init__(
        self,
        traced: Iterable[TracedGraph],
        noted_cuts: NotedCuts,
        facts: FactsTable,
        module_of: Callable[[int], torch.nn.Module | None],
    ) -> None:
        self.traced = traced
        self._noted_cuts = noted_cuts
        self.facts = facts
        self.module_of = module_of
        self.untraceable: dict[str, None] = {}
        """Why nodes of code that was traced and not compiled have only the line of the call."""
        self.cuts: dict[int, tuple[GradientCut, ...]] = {}
        """Where gradients are cut off inside each traced graph, by its ``id()``."""

    def with_cuts(self, compilations: Sequence[Compilation]) -> list[Compilation]:
        """The compilations, each with where gradients are cut off inside it."""
        by_index = {each.compilation: self.cuts.get(id(each), ()) for each in self.traced}
        return [
            replace(each, cuts=by_index[index]) if by_index.get(index) else each
            for index, each in enumerate(compilations)
        ]

    def regions_of(
        self,
        graph: Graph,
        walked: Walk,
        modules: ModuleNames,
        called: list[torch.nn.Module],
        log: ThreadLog | None,
        constants: ConstantTable,
    ) -> FoundRegions:
        """The regions of a graph, those that were compiled and those that were only traced."""
        self._noted_cuts.take_names(modules, {id(leaf) for _, leaf in leaf_variables(walked)})
        for each in self.traced:
            if id(each) not in self.cuts:
                self.cuts[id(each)] = gradient_cuts(each, modules)
        search = _Search(self, graph, walked, modules, called, log, constants)
        return FoundRegions(search.compiled(), search.uncompiled(), constants.logged)


@dataclass
class _Search:
    """The search through one graph."""

    finder: RegionFinder
    graph: Graph
    walked: Walk
    modules: ModuleNames
    called: list[torch.nn.Module]
    log: ThreadLog | None
    constants: ConstantTable

    @cached_property
    def known(self) -> dict[int, torch.nn.Module]:
        return known_modules(self.modules, self.called)

    def compiled(self) -> dict[int, FoundRegion]:
        """The compiled nodes, by id."""
        found: dict[int, FoundRegion] = {}
        for index in (node.id for node in self.graph.nodes if node.kind == "compiled"):
            call = self._call_of(index)
            call = -1 - index if call is None else call
            try:
                found[index] = FoundRegion(call, self._inner(index))
            except UnknownRegion as reason:
                found[index] = FoundRegion(call, None, str(reason))
            except CannotReplay as reason:
                found[index] = FoundRegion(call, None, f"it could not be traced again: {reason}")
            except Exception as error:  # whatever torch raises for what the traced graph contains
                found[index] = FoundRegion(call, None, f"it could not be traced again: {_in_a_line(error)}")
        return found

    def _call_of(self, index: int) -> int | None:
        """A number of the call of compiled code that made a node."""
        row = self.log.row_of(self.walked.sequence_nrs[index]) if self.log is not None else None
        return self.log.first_part(row.number) if self.log is not None and row is not None else None

    def uncompiled(self) -> list[UncompiledRegion]:
        """Code that Dynamo traced and a backend runs as it is, so that autograd has its own nodes for it."""
        traced = [each for each in self.finder.traced if not each.aot_ids]
        calls: dict[int, list[int]] = {}
        for node in self.graph.nodes if traced and self.log is not None else ():
            if node.forward_call == COMPILED_CALL and node.kind != "compiled":
                call = self._call_of(node.id)
                if call is not None:
                    calls.setdefault(call, []).append(node.id)
        found: list[UncompiledRegion] = []
        for call, nodes in calls.items():
            position = 0
            while position < len(nodes):
                region = self._uncompiled(call, nodes[position:], traced)
                position += 1 if region is None else len(region.nodes)
                found += [region] if region is not None else []
        return found

    def _uncompiled(self, call: int, nodes: list[int], traced: list[TracedGraph]) -> UncompiledRegion | None:
        """The traced code that made the first of these nodes, and which of its operations each node is."""
        numbered = [(self.walked.sequence_nrs[index], self.graph.nodes[index].name) for index in nodes]
        for each in traced if (given := self._given(nodes[0])) is None else [given]:
            try:
                found = replayed(each)
            except CannotReplay as reason:
                self.finder.untraceable[f"{each.function}() could not be traced again: {reason}"] = None
                continue
            matched = _matched(found, numbered)
            if matched:
                inner_ids = dict(zip(nodes, matched, strict=False))
                leaves = _leaves_of(found, inner_ids, self.walked)
                inner = self._made(nodes[0], each, found, leaves, found.results)
                operations = [
                    index for index, number in enumerate(found.walk.sequence_nrs) if number != LEAF_SEQUENCE_NR
                ]
                local = {index: position for position, index in enumerate(operations)}
                return UncompiledRegion(call, {index: local[own] for index, own in inner_ids.items()}, inner)
            if given is not None:
                self.finder.untraceable[f"{each.function}() traced again makes other autograd nodes"] = None
        return None

    def _inner(self, index: int) -> InnerRegion:
        wrapper, edges = self.walked.wrappers[index], self.walked.edges[index]
        function_class = python_function_class(wrapper)
        aot_id = aot_id_of(function_class)
        if aot_id is None:
            raise UnknownRegion("this torch does not tell what it was compiled from")
        if is_differentiated_backward(function_class):
            raise UnknownRegion("it is the backward of compiled code, with create_graph=True")
        given = self._given(index)
        candidates = self.finder.traced if given is None else [given]
        traced = next((each for each in candidates if aot_id in each.aot_ids), None)
        if traced is None:
            raise UnknownRegion("it was compiled before the recording began")
        if len(traced.aot_ids) > 1:
            raise UnknownRegion(f"it is one of {len(traced.aot_ids)} parts that its backend made of one graph")
        plan = output_plan_of(function_class)
        found = replayed(traced)
        results = _results(found, plan)
        _check_inputs(traced, edges)
        _check_outputs(found, results, plan, input_metadata(wrapper))
        leaves = [_leaf(self.walked, edge) for edge in edges]
        return self._made(index, traced, found, leaves, results, function_class)

    def _call_at(self, index: int) -> CompiledCall | None:
        """The call of compiled code that made a node."""
        return self.log.compiled_call_of(self.walked.sequence_nrs[index]) if self.log is not None else None

    def _given(self, index: int) -> TracedGraph | None:
        """What was traced of the code that made a node, with the sizes that it got."""
        call = self._call_at(index)
        return None if call is None else call.traced.with_sizes(call.sizes)

    def _running_module(self, index: int) -> torch.nn.Module | None:
        """The module that ran when a node was made."""
        if self.log is None:
            return None
        module = self.finder.module_of(self.log.scope_of(self.walked.sequence_nrs[index]))
        inner: torch.nn.Module | None = compiled_from(module)
        return module if inner is None else inner

    def _made(
        self,
        index: int,
        traced: TracedGraph,
        found: Replay,
        leaves: list[Any],
        results: list[Result],
        function_class: Any = None,
    ) -> InnerRegion:
        frame = frame_module(traced, self._running_module(index), leaves, self.modules, self.known)
        tables = RegionTables(self.modules, self.known, frame, traced.module_variable)
        call, facts = self._call_at(index), self.finder.facts
        constants = RegionConstants(traced, found, call, self.constants, self.modules, facts)
        graph = graph_of_backward(function_class) if function_class is not None else None
        backward = CompiledBackward(graph, found.nodes_by_number()) if graph is not None else None
        return InnerRegionMaker(traced, found, tables, constants, facts, call, graph, backward).make(results)


def _in_a_line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"


def _matched(found: Replay, nodes: list[tuple[int, str]]) -> list[int]:
    """Which operation of a replay each of the first nodes is, by the distance of their numbers; empty if it is not it.

    The nodes of one run have numbers without gaps of other code; those that no gradient reaches are missing.
    """
    numbers = found.walk.sequence_nrs
    by_number = {number: index for index, number in enumerate(numbers) if number != LEAF_SEQUENCE_NR}
    if not by_number:
        return []
    shift = nodes[0][0] - min(by_number)
    matched: list[int] = []
    for number, name in nodes:
        index = by_number.get(number - shift)
        if number - shift > max(by_number):
            break
        if index is None or not is_alike(found.walk.wrappers[index].name(), name):
            return []
        matched.append(index)
    return matched


def _leaves_of(found: Replay, inner_ids: dict[int, int], walked: Walk) -> list[Any]:
    """For each input of the traced code that is a tensor, the leaf that it is, or None."""
    leaves: dict[int, Any] = {}
    for index, own in inner_ids.items():
        for edge, traced in zip(walked.edges[index], found.walk.edges[own], strict=False):
            if traced is not None and traced.target in found.input_of:
                leaves[found.input_of[traced.target]] = _leaf(walked, edge)
    return [leaves.get(number) for number in range(max(leaves, default=-1) + 1)]


def _leaf(walked: Walk, edge: Edge | None) -> Any:
    return getattr(walked.wrappers[edge.target], "variable", None) if edge is not None else None


def _results(found: Replay, plan: OutputPlan) -> list[Result]:
    if plan.outputs != len(found.results):
        raise UnknownRegion(f"it has {plan.outputs} results, and what was traced has {len(found.results)}")
    changed = [found.changed.get(index) for index in plan.changed_inputs]
    bases: dict[int, Result] = {}
    for number, base in enumerate(plan.bases):
        if base is not None:
            bases.setdefault(base, found.bases[number])
    return [*changed, *found.results, *(bases[number] for number in sorted(bases))]


def _check_inputs(traced: TracedGraph, edges: Any) -> None:
    tensors = [each for each in traced.inputs if isinstance(each, TensorInput)]
    if len(tensors) > len(edges):
        raise UnknownRegion(f"it has {len(edges)} inputs, and what was traced has {len(tensors)}")
    for given, edge in zip(tensors, edges, strict=False):
        if edge is not None and not given.requires_grad:
            raise UnknownRegion("its inputs are not in the order of what was traced")


def _check_outputs(found: Replay, results: list[Result], plan: OutputPlan, metadata: Sequence[Any]) -> None:
    """Compare shapes, as far as torch tells them: a result that is made outside has none."""
    first = len(plan.changed_inputs)
    for number, (result, entry) in enumerate(zip(results, metadata, strict=False)):
        is_view = first <= number < first + plan.outputs and plan.is_view[number - first]
        if isinstance(result, tuple) and not is_view:
            shape = input_metadata(found.walk.wrappers[result[0]])[result[1]].shape
            if len(shape) != len(entry.shape):
                raise UnknownRegion("its results are not in the order of what was traced")
