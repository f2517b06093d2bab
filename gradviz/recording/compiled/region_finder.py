"""Finds the compiled nodes of a walk, and what each of them consists of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch

from gradviz.graph.model import Edge, Graph
from gradviz.recording.compiled.inner_region import (
    InnerRegion,
    InnerRegionMaker,
    RegionTables,
    Result,
    UnknownRegion,
    frame_module,
    known_modules,
)
from gradviz.recording.compiled.region_opening import FoundRegion
from gradviz.recording.compiled.region_replay import Replay, replay
from gradviz.recording.forward.forward_log import ThreadLog
from gradviz.recording.forward.tensor_names import ModuleNames
from gradviz.recording.torch_access.dynamo_graphs import (
    OutputPlan,
    TensorInput,
    TracedGraph,
    aot_id_of,
    output_plan_of,
)
from gradviz.recording.torch_access.nodes import input_metadata, python_function_class
from gradviz.recording.torch_access.tensor_facts import FactsTable
from gradviz.recording.walk.graph_walker import Walk

COMPILED_EARLIER = "it was compiled before the recording began"


class RegionFinder:
    """Finds the regions of the graphs of one recording."""

    def __init__(self, traced: Iterable[TracedGraph], facts: FactsTable) -> None:
        self._traced = traced
        self._facts = facts

    def regions_of(
        self, graph: Graph, walked: Walk, modules: ModuleNames, called: list[torch.nn.Module], log: ThreadLog | None
    ) -> dict[int, FoundRegion]:
        """The compiled nodes of a graph, by id."""
        nodes = [node.id for node in graph.nodes if node.kind == "compiled"]
        if not nodes:
            return {}
        known = known_modules(modules, called)
        found: dict[int, FoundRegion] = {}
        for index in nodes:
            row = log.row_of(walked.sequence_nrs[index]) if log is not None else None
            call = row.number if row is not None else -1 - index
            try:
                found[index] = FoundRegion(call, self._inner(walked, index, modules, known))
            except UnknownRegion as reason:
                found[index] = FoundRegion(call, None, str(reason))
            except Exception as error:  # whatever torch raises for what the traced graph contains
                text = str(error).partition("\n")[0]
                found[index] = FoundRegion(call, None, f"it could not be traced again: {type(error).__name__}: {text}")
        return found

    def _inner(self, walked: Walk, index: int, modules: ModuleNames, known: dict[int, torch.nn.Module]) -> InnerRegion:
        wrapper = walked.wrappers[index]
        function_class = python_function_class(wrapper)
        aot_id = aot_id_of(function_class)
        if aot_id is None:
            raise UnknownRegion("this torch does not tell what it was compiled from")
        traced = next((each for each in self._traced if aot_id in each.aot_ids), None)
        if traced is None:
            raise UnknownRegion(COMPILED_EARLIER)
        if len(traced.aot_ids) > 1:
            raise UnknownRegion(f"it is one of {len(traced.aot_ids)} parts that its backend made of one graph")
        plan = output_plan_of(function_class)
        found = replayed(traced, {})
        results = _results(found, plan)
        _check_inputs(traced, walked.edges[index])
        _check_outputs(found, results, plan, input_metadata(wrapper))
        leaves = [_leaf(walked, edge) for edge in walked.edges[index]]
        tables = RegionTables(modules, known, frame_module(traced, leaves, modules, known), traced.module_variable)
        return InnerRegionMaker(traced, found, tables, self._facts).make(results)


def _leaf(walked: Walk, edge: Edge | None) -> Any:
    return getattr(walked.wrappers[edge.target], "variable", None) if edge is not None else None


def replayed(traced: TracedGraph, sizes: dict[str, int]) -> Replay:
    """The replay of a traced graph, which is run once for each combination of sizes."""
    key = tuple(sorted(sizes.items()))
    if key not in traced.cache:
        traced.cache[key] = replay(traced, sizes)
    result: Replay = traced.cache[key]
    return result


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
