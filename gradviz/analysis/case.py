"""The capture that rules examine; results that several rules need are computed once."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, cached_property
from typing import Any

from msgspec.structs import replace

from gradviz.analysis.cuts.lost_terms import LostTerm, losses_assigned_again, lost_terms
from gradviz.analysis.cuts.missing_gradients import CutOff, MissingGradients
from gradviz.analysis.cuts.partial_cuts import partial_cuts
from gradviz.analysis.cuts.stage_cuts import stage_cuts
from gradviz.analysis.cuts.zero_terms import ZeroTerm, zero_terms
from gradviz.analysis.dataflow.backward_calls import BackwardCalls
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.failed_backward import FailedBackwards
from gradviz.analysis.dataflow.graph_uses import GraphUses
from gradviz.analysis.dataflow.retained_graphs import Retained, RetainedGraphs
from gradviz.analysis.dataflow.tensor_words import tensor_words
from gradviz.analysis.finding import Location, NodeAt, location_of_line, text_at
from gradviz.analysis.flow.gradient_flow import FlowRow, GradientFlow, gradient_flow, has_gradients
from gradviz.analysis.gradients.gradient_events import GradientEvents
from gradviz.analysis.gradients.received_gradients import ReceivedGradients, names_reached
from gradviz.analysis.gradients.silent_functions import SilentFunction, silent_functions
from gradviz.analysis.numbers.broken_gradients import BrokenGradient, BrokenGradients, RefusedValues
from gradviz.analysis.numbers.flat_branches import FlatBranch, flat_branches
from gradviz.analysis.numbers.growth import Growths
from gradviz.analysis.numbers.rounding_gradients import RoundingGradient, rounding_gradients
from gradviz.analysis.numbers.zero_gradients import UnexplainedZero, ZeroGradient, ZeroGradients
from gradviz.analysis.parameters.copied_parameters import copies_in_optimizers, forgotten_parameters
from gradviz.analysis.parameters.copies_used import CopyUsed, copies_used
from gradviz.analysis.parameters.moving_averages import Update, updates_of_averages
from gradviz.analysis.parameters.parameter_histories import ParameterHistories
from gradviz.analysis.parameters.weighted_parameters import WeightedParameters
from gradviz.analysis.sources.program_source import ProgramSource, program_source
from gradviz.capture.capture import Capture
from gradviz.graph.call_log import CallLog
from gradviz.graph.model import Graph
from gradviz.graph.query.composite_inputs import with_constants_at_users
from gradviz.graph.query.own_line import own_lines
from gradviz.graph.traversal import scopes_around


class Case:
    """What rules examine. It reads only the capture, so a saved file is examined like a run."""

    def __init__(self, capture: Capture) -> None:
        self.capture = capture
        self.flow_of = cache(self._flow_of)
        self.graph_with_placed_constants = cache(lambda number: with_constants_at_users(self.graphs[number]))
        """By number, a graph with each constant at the nodes that use it."""
        self._scopes_of = cache(self._scopes_by_call)
        self.growths_of = cache(lambda number: Growths.of(self.graphs[number]))
        """By number, how gradients grow and shrink in a graph."""
        self._own_lines_of = cache(lambda number: own_lines(self.graphs[number]))

    @property
    def graphs(self) -> tuple[Graph, ...]:
        """The recorded graphs, in the order of their backward calls."""
        return self.capture.graphs

    @cached_property
    def dataflow(self) -> Dataflow:
        """The torch calls of the run; empty for a capture without them."""
        return Dataflow(self.capture.calls or CallLog(), self.capture.sources)

    @cached_property
    def own_files(self) -> dict[str, Mapping[int, str]]:
        """The source of the program's own files in which torch was called, without libraries."""
        own = self.dataflow.log.own_files
        return {file: lines for file, lines in self.capture.sources.items() if file in own}

    @cached_property
    def files_of_program(self) -> dict[str, Mapping[int, str]]:
        """The same with those that only define what others use."""
        sources = self.capture.sources
        return self.own_files | {file: sources[file] for file in self.capture.imported if file in sources}

    @cached_property
    def program_source(self) -> ProgramSource:
        """All files of the program as one."""
        return program_source(self.files_of_program)

    @cached_property
    def received(self) -> ReceivedGradients:
        """The leaves that got a gradient at any time."""
        return ReceivedGradients(self.capture, self.dataflow.log)

    @cached_property
    def missing_gradients(self) -> MissingGradients:
        """Tensors that should have a gradient and got none."""
        return MissingGradients(self.dataflow, self.received)

    @cached_property
    def cut_off(self) -> tuple[CutOff, ...]:
        """The lines that cut tensors off from their gradient, the worst first.

        Tensors whose loss is computed and not used, or computed with an older copy of them, are left out: the cuts
        beside it may be meant. So are those to which a path leads that only a custom function ends.
        """
        lost = {number for term in self.lost_terms for number in term.parameters}
        lost.update(number for found in self.copies_used if not found.is_new for number in found.copies)
        starved = {name for found in self.silent_functions for name in found.starved}
        known = self.dataflow.log.tensors
        found = (
            replace(
                each,
                tensors=tuple(
                    number
                    for number in each.tensors
                    if starved.isdisjoint(known[number].names) and (each.ends_a_term or number not in lost)
                ),
            )
            for each in self.missing_gradients.cut_off
        )
        return tuple(each for each in found if each.tensors)

    @cached_property
    def parameters_that_cut(self) -> frozenset[int]:
        """Parameters that were made of results with a gradient, where steps do so and cut trained tensors off. Those of
        ``weight_norm()`` are made once, before the first step."""
        first = next(iter(self.dataflow.rows_of_kind("backward")), 0)
        is_any = any(found.cut.kind == "parameter" for found in self.cut_off)
        are_of_steps = is_any and any(cut.kind == "parameter" and cut.call > first for cut in self.dataflow.cuts)
        return self.dataflow.parameters_of_results if are_of_steps else frozenset()

    @cached_property
    def partial_cuts(self) -> tuple[CutOff, ...]:
        """The lines that cut one of several paths, and that nobody writes for that purpose."""
        known = {each.cut.call_site for each in self.cut_off}
        return tuple(each for each in partial_cuts(self.histories) if each.cut.call_site not in known)

    @cached_property
    def stage_cuts(self) -> tuple[CutOff, ...]:
        """The lines that cut off what an optimizer holds in all of its steps, and that learns from another stage."""
        known = {each.cut.call_site for each in (*self.cut_off, *self.partial_cuts)}
        return tuple(each for each in stage_cuts(self.histories) if each.cut.call_site not in known)

    @cached_property
    def silent_functions(self) -> tuple[SilentFunction, ...]:
        """Custom functions that end the only path to some leaves."""
        return tuple(silent_functions(self.dataflow, self.graphs, self.measured_graphs, self._reached))

    @cached_property
    def lost_terms(self) -> tuple[LostTerm, ...]:
        """Losses that are computed, and that nothing uses."""
        unread = lost_terms(self.histories, self.source_line)
        return (*unread, *losses_assigned_again(self.histories, self.own_files))

    @cached_property
    def copies_used(self) -> tuple[CopyUsed, ...]:
        """Losses that are computed with copies of what they should train."""
        return tuple(copies_used(self.histories))

    @cached_property
    def zero_gradients(self) -> tuple[ZeroGradient, ...]:
        """Operations that only send zero to some tensors; the worst first."""
        return self._zero_gradients.all()

    @cached_property
    def flat_branches(self) -> tuple[FlatBranch, ...]:
        """Operations without a slope on one of several paths, where no leaf shows it."""
        known = {zero.call for zero in self.zero_gradients}
        return tuple(each for each in flat_branches(self.backward_calls) if each.call not in known)

    @cached_property
    def zero_terms(self) -> tuple[ZeroTerm, ...]:
        """Terms of losses that are 0 at every step."""
        return tuple(zero_terms(self.histories))

    @cached_property
    def unexplained_zeros(self) -> tuple[UnexplainedZero, ...]:
        """Leaves whose gradient is exactly zero at every step, for a reason that is not known."""
        return self._zero_gradients.unexplained()

    @cached_property
    def rounding_gradients(self) -> tuple[RoundingGradient, ...]:
        """Leaves whose gradient is only rounding error at every step."""
        return tuple(rounding_gradients(self.graphs))

    @cached_property
    def _zero_gradients(self) -> ZeroGradients:
        return ZeroGradients(self.backward_calls)

    @cached_property
    def broken_gradient(self) -> BrokenGradient | None:
        """The first NaN or Inf that reached a leaf, explained."""
        return BrokenGradients(self.backward_calls).first()

    @cached_property
    def refused_values(self) -> RefusedValues | None:
        """What made the NaN or Inf that ended the program, if no gradient shows it."""
        error = self.capture.error
        if error is None or error.in_backward or self.broken_gradient is not None:
            return None
        return BrokenGradients(self.backward_calls).before_backward(error.message)

    @cached_property
    def retained_graphs(self) -> tuple[Retained, ...]:
        """Graphs of earlier steps that something still holds, by their holder."""
        return RetainedGraphs(self.dataflow).groups

    @cached_property
    def backward_calls(self) -> BackwardCalls:
        """The backward calls of the run, with their recorded graphs."""
        return BackwardCalls(self.dataflow, self.graphs)

    @cached_property
    def failed_backwards(self) -> FailedBackwards:
        """Backward calls that raised because a saved tensor was changed or freed."""
        return FailedBackwards(self.backward_calls)

    @cached_property
    def graph_uses(self) -> GraphUses:
        """What the backward calls of the run went through, and what they did not."""
        return GraphUses(self.capture, self.dataflow)

    @cached_property
    def averages(self) -> list[list[Update]]:
        """The updates of each moving average of trained parameters, in order."""
        return updates_of_averages(self.histories, WeightedParameters(self.dataflow))

    @cached_property
    def gradient_events(self) -> GradientEvents:
        """What happened to the gradient of every parameter."""
        return GradientEvents(self.histories)

    @cached_property
    def histories(self) -> ParameterHistories:
        """What happened to every parameter."""
        return ParameterHistories(self.dataflow, self.received)

    @cached_property
    def forgotten_parameters(self) -> list[int]:
        """Parameters that an optimizer steps, but that nothing has used since the optimizer was made."""
        return forgotten_parameters(self.histories)

    @cached_property
    def copies_in_optimizers(self) -> dict[int, int]:
        """Those of them that are copies, with the parameter that each was copied from."""
        return copies_in_optimizers(self.histories, self.forgotten_parameters)

    @cached_property
    def measured_graphs(self) -> tuple[int, ...]:
        """Numbers of the graphs whose gradients were measured."""
        return tuple(number for number, graph in enumerate(self.graphs) if has_gradients(graph))

    @cached_property
    def rows_without_gradient(self) -> tuple[FlowRow, ...]:
        """The parameters of the last measured graph to which no graph brought a gradient."""
        rows = self.flow_of(self.measured_graphs[-1]).rows if self.measured_graphs else ()
        return tuple(row for row in rows if row.nothing is not None and row.name not in self._reached)

    def location_of(self, number: int, node: int) -> Location | None:
        """The innermost line of the user's own code that made a node of a graph; else a library's line."""
        return self._location_in(number, self.graphs[number].nodes[node].call_site)

    def location_of_site(self, call_site: int | None) -> Location | None:
        """The user's own line behind a call site of the call log."""
        return location_of_line(self.dataflow.line(call_site))

    def tensor_name(self, number: int) -> str:
        """The name of a tensor of the call log; if it has none, what made it."""
        return tensor_words(self.dataflow, number)

    def node_of_call(self, call: int) -> NodeAt | None:
        """The first node that a call of the log made, if one of the graphs has it."""
        return next(iter(self.nodes_of_call(call)), None)

    def nodes_of_call(self, call: int) -> tuple[NodeAt, ...]:
        """Every node that a call of the log made and that one of the graphs has, in creation order."""
        made = self.dataflow.log.calls[call].node_keys
        return tuple(self._node_by_key[key] for key in made if key in self._node_by_key)

    def scope_of_call(self, number: int, call: int) -> int | None:
        """The innermost of the module calls around a call of the log that is in a graph, as an index in its scopes."""
        known, scopes = self._scopes_of(number), self.dataflow.log.scopes
        around = (scopes[scope] for scope in scopes_around(scopes, self.dataflow.log.calls[call].scope))
        return next((known[scope.path, scope.call] for scope in around if (scope.path, scope.call) in known), None)

    def _scopes_by_call(self, number: int) -> dict[tuple[str, int], int]:
        return {(scope.path, scope.call): index for index, scope in enumerate(self.graphs[number].scopes)}

    @cached_property
    def _node_by_key(self) -> dict[tuple[int, int], NodeAt]:
        return {
            node.key: NodeAt(number, node.id)
            for number, graph in enumerate(self.graphs)
            for node in graph.nodes
            if node.key is not None
        }

    def location_of_call(self, row: int) -> Location | None:
        """The user's own line that made a call of the log."""
        return location_of_line(self.dataflow.line_of(row))

    def location_of_backward(self, number: int) -> Location | None:
        """The user's own line that called backward for a graph."""
        backward = self.graphs[number].backward
        return None if backward is None else self._location_in(number, backward.call_site)

    def _location_in(self, number: int, site: int | None) -> Location | None:
        """The user's own line behind a call site of a graph."""
        if site is None:
            return None
        return location_of_line(self.graphs[number].call_sites[self._own_lines_of(number)[site]])

    @cached_property
    def _reached(self) -> frozenset[str]:
        return names_reached(self.graphs)

    def source_line(self, location: Location | None) -> str | None:
        """The text of a line, if the capture contains it."""
        return text_at(self.capture.sources, location) or None

    def facts_of_node(self, at: tuple[int, int] | None) -> dict[str, Any]:
        """The fields of a finding about a node, by its graph and its id; empty if it is unknown."""
        if at is None:
            return {}
        graph, node = at
        return {"op": self.graphs[graph].nodes[node].name, "nodes": self.nodes_in(graph, (node,))}

    def nodes_in(self, number: int, nodes: tuple[int, ...]) -> tuple[NodeAt, ...]:
        """The nodes of a graph in the form that a finding needs."""
        return tuple(NodeAt(number, node) for node in nodes)

    def _flow_of(self, number: int) -> GradientFlow:
        return gradient_flow(self.capture, self.graphs[number])
