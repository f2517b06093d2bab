"""Runs the program's backward calls with gradients measured, and adds the figures to their graphs.

If a call raises, what ran until then is kept. A failure of gradviz is disclosed and never reaches the program.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from msgspec.structs import replace

from gradviz.graph.model import Graph
from gradviz.graph.number_words import counted
from gradviz.recording.backward.backward_watch import BackwardRequest
from gradviz.recording.backward.gradients.gradient_meter import GradientMeter
from gradviz.recording.backward.gradients.gradient_recorder import GradientRecorder, devices_of_started_work
from gradviz.recording.backward.gradients.root_shares import NOTHING_TO_COMPARE, measured_root_shares
from gradviz.recording.backward.inner_backward import InnerBackwards
from gradviz.recording.backward.program_state import HOOKS_RAN
from gradviz.recording.compiled.nan_lines import CompiledReruns
from gradviz.recording.compiled.second_run import SecondRuns
from gradviz.recording.fingerprints.fingerprint_meter import FingerprintMeter
from gradviz.recording.run.recording_plan import RecordingPlan
from gradviz.recording.torch_access.engine import why_backward_cannot_be_measured
from gradviz.recording.torch_access.tensor_facts import FactsTable
from gradviz.recording.walk.capture_builder import CaptureBuilder, Recorded

_Runs = TypeVar("_Runs", CompiledReruns, SecondRuns)


class MeasuredCalls:
    """Measures the calls of one recording, unless its plan says otherwise."""

    def __init__(self, plan: RecordingPlan, facts: FactsTable, builder: CaptureBuilder) -> None:
        self.plan = plan
        self.facts = facts
        self.builder = builder
        self.inner = InnerBackwards(builder)

    def run(self, recorded: Recorded | None, request: BackwardRequest, run: Callable[[], Any]) -> Any:
        """Run the call; returns or raises what the call does."""
        with self.inner.awaited(recorded):
            return self._run_measured(recorded, request, run)

    def _run_measured(self, recorded: Recorded | None, request: BackwardRequest, run: Callable[[], Any]) -> Any:
        gradients = self._ready(recorded, request)
        if gradients is None or recorded is None:
            return run()
        result = None
        reruns = self._reruns(recorded)
        second = self._second_runs(recorded, request)
        try:
            result = run()
        finally:
            for each in (reruns, second):
                if each is not None:
                    each.stop()
            self._add_what_flowed(gradients, recorded, result)
            self._look_into_compiled_code(reruns, recorded.graph_index)
            self._run_again(second, recorded.graph_index)
            self.builder.note_reduced_gradients()
        return result

    def _reruns(self, recorded: Recorded) -> CompiledReruns | None:
        """Prepares reruns of compiled code, if every call is logged."""
        if not self.plan.calls:
            return None
        return self._started(CompiledReruns(recorded.walk), "compiled code could not be examined")

    def _second_runs(self, recorded: Recorded, request: BackwardRequest) -> SecondRuns | None:
        """Prepares second runs of compiled code, if the gradients inside it are wanted."""
        regions = self.builder.compiled_regions(recorded.graph_index) if self.plan.inside else {}
        if not regions:
            return None
        keeps_calls = request.retain_graph or request.create_graph
        second = SecondRuns(recorded.walk, regions, self.facts, self.plan.values_up_to, keeps_calls)
        return self._started(second, "compiled code could not be run again")

    def _started(self, runs: _Runs, what_failed: str) -> _Runs | None:
        try:
            runs.start()
        except Exception as defect:  # must not reach the program
            runs.stop()
            self.builder.disclose_defect(what_failed, defect)
            return None
        return runs

    def _run_again(self, second: SecondRuns | None, index: int) -> None:
        try:
            if second is not None:
                self.builder.note_measured_regions(index, second.measured(self.builder.graphs[index]))
        except Exception as defect:  # must not reach the program
            self.builder.disclose_defect("compiled code could not be run again", defect)

    def _look_into_compiled_code(self, reruns: CompiledReruns | None, index: int) -> None:
        try:
            if reruns is not None:
                self.builder.graphs[index] = reruns.added_to(self.builder.graphs[index])
        except Exception as defect:  # must not reach the program
            self.builder.disclose_defect("compiled code could not be examined", defect)

    def _ready(self, recorded: Recorded | None, request: BackwardRequest) -> GradientRecorder | None:
        """A recorder of gradients, ready for the call; None if nothing is to be measured."""
        if recorded is None or not self.plan.gradients:
            return None
        graph = self.builder.graphs[recorded.graph_index]
        obstacle = why_backward_cannot_be_measured()
        if obstacle is not None:
            number = graph.backward.number if graph.backward else 0
            call = f"{request.function} {number}"
            self.builder.disclose_of_call("gradients of", call, f"were not measured: {obstacle}")
            return None
        if self.plan.root_shares:
            graph = self._with_root_shares(recorded, request)
        fingerprints = FingerprintMeter() if self.plan.fingerprints else None
        meter = GradientMeter(
            self.facts, self.plan.values_up_to, self.builder.unmeasured, fingerprints, self.plan.for_pictures
        )
        gradients = GradientRecorder(recorded.walk, graph, request, meter, self.builder.reducers())
        try:
            gradients.start()
        except Exception as defect:  # must not reach the program
            gradients.cancel()
            self.builder.disclose_defect("gradients could not be measured", defect)
            return None
        return gradients

    def _with_root_shares(self, recorded: Recorded, request: BackwardRequest) -> Graph:
        graphs, graph = self.builder.graphs, self.builder.graphs[recorded.graph_index]
        try:
            shares = measured_root_shares(recorded.walk, graph, request)
        except Exception as error:  # also an error of a hook of the program: its own backward will raise it again
            reason = str(error).partition("\n")[0]
            self.builder.disclose(f"shares of losses could not be measured: {type(error).__name__}: {reason}")
            return graph
        if shares is None:
            self.builder.disclose(NOTHING_TO_COMPARE)
            return graph
        if any(node.hooks for node in graph.nodes):
            self.builder.disclose(HOOKS_RAN)
        graphs[recorded.graph_index] = graph = replace(graph, root_shares=shares)
        return graph

    def _add_what_flowed(self, gradients: GradientRecorder, recorded: Recorded, result: Any) -> None:
        graphs, (walk, index) = self.builder.graphs, recorded
        try:
            gradients.stop(result)
            graphs[index] = gradients.added_to(graphs[index])
            graphs[index] = self.builder.with_exchanges(graphs[index], walk, gradients.times)
        except Exception as defect:  # must not reach the program
            self.builder.disclose_defect("gradients could not be measured", defect)
        for reason, count in gradients.unknown_shares.items():
            self.builder.disclose(
                f"the shares of gradients in {counted(count, 'sum')} of several are not known: {reason}"
            )
        if gradients.has_parts:
            self.builder.disclose("gradients of distributed tensors on other ranks: figures are of this rank's part")
            self.builder.disclose("whether all ranks give the same data where a distributed tensor is Replicate()")
        for device in devices_of_started_work(graphs[index]) if gradients.used_accelerators else ():
            self.builder.disclose(f"the time of some nodes on {device} is the processor's, to start their work")
        for sentence in gradients.clock_defects.sentences("times on a GPU of {} backward could not be read"):
            self.builder.disclose(sentence)
        for sentence in gradients.defects.sentences("gradients at {} nodes could not be measured"):
            self.builder.disclose(sentence)
