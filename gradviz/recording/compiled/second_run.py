"""Measures the gradients between the operations of compiled regions: runs each region again, without compilation.

When the program's backward has ended, the traced graph of a region runs on the tensors that its call got, and backward
on the gradients that arrived, on a thread of its own. It runs on copies of what the region may change, random
generators are put back, and no ``.grad`` is touched. What the second run sends out of the region is compared with what
the program sent there: figures that do not agree are not shown, but told.
"""

from __future__ import annotations

import dataclasses
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from msgspec.structs import replace

from gradviz.graph.gradients import TensorFigures, at_index
from gradviz.graph.model import Graph, Node, NodeKind
from gradviz.recording.backward.backward_watch import BackwardRequest
from gradviz.recording.backward.gradients.gradient_meter import GradientMeter
from gradviz.recording.backward.gradients.gradient_recorder import GradientRecorder
from gradviz.recording.backward.program_state import generators_restored
from gradviz.recording.compiled.inner_calls import add_values
from gradviz.recording.compiled.inner_region import InnerRegion
from gradviz.recording.compiled.region_calls import (
    HeldCall,
    drop_held_call,
    held_call_of,
    set_generator_state,
    why_not_twice,
)
from gradviz.recording.compiled.region_opening import FoundRegion
from gradviz.recording.compiled.region_replay import (
    RESHAPES,
    NotingInterpreter,
    Replay,
    as_traced,
    described,
    is_alike,
    replayed,
    with_stand_ins,
)
from gradviz.recording.compiled.run_log import RunLog
from gradviz.recording.torch_access.dynamo.dynamo_graphs import (
    OutputPlan,
    TensorInput,
    draws_like_uncompiled_code,
    output_plan_of,
)
from gradviz.recording.torch_access.modes import replaying_views
from gradviz.recording.torch_access.nodes import LEAF_SEQUENCE_NR, python_function_class
from gradviz.recording.torch_access.own_thread import result_of_own_thread
from gradviz.recording.torch_access.tensor_facts import FactsTable
from gradviz.recording.torch_access.tensors import DISABLE_TORCH_FUNCTION, grad_fn_of, version_of
from gradviz.recording.walk.graph_walker import Walk
from gradviz.recording.walk.node_outputs import OutputReader

_TOLERANCES = {"float64": 1e-9, "float32": 1e-3, "complex128": 1e-9, "complex64": 1e-3}
"""By how much the norms of two runs may differ in their dtype: compiled code rounds at other places."""
_OTHER_TOLERANCE = 5e-2
_OF_RANDOM = 1e-2
"""Where random numbers are drawn, only this part of it: other numbers would be no rounding."""
_OF_RANDOM_IN_16_BITS = 0.2
"""The same where the numbers should be equal, but rounding in 16 bits is larger than that."""


class NotAgain(Exception):
    """Says why a region cannot be run again."""


@dataclass
class _Noted:
    """What is kept of a compiled node while the program's backward runs."""

    held: HeldCall
    tangents: tuple[torch.Tensor | None, ...] = ()
    versions: tuple[int | None, ...] = ()


@dataclass
class SecondRuns:
    """Notes what arrives at the compiled nodes of a walk from `start` to `stop`, and then runs them again."""

    walk: Walk
    found: Mapping[int, FoundRegion]
    facts: FactsTable
    values_up_to: int = 0
    keeps_calls: bool = False
    """Whether the program may run backward through the same nodes again."""
    _noted: dict[int, _Noted] = field(default_factory=dict)
    _hooks: list[Any] = field(default_factory=list)

    def start(self) -> None:
        """Note the gradients that arrive at compiled nodes."""
        for index, region in self.found.items():
            held = held_call_of(self.walk.wrappers[index]) if region.inner is not None else None
            if held is not None:
                self._noted[index] = _Noted(held)
                self._hooks.append(self.walk.wrappers[index].register_prehook(partial(self._note, index)))

    def _note(self, index: int, gradients: tuple[torch.Tensor | None, ...]) -> None:
        noted = self._noted[index]
        with DISABLE_TORCH_FUNCTION():
            noted.tangents = gradients
            noted.versions = tuple(None if each is None else version_of(each) for each in gradients)

    def stop(self) -> None:
        """Remove the hooks; safe to call twice."""
        for hook in self._hooks:
            hook.remove()
        self._hooks = []

    def measured(self, graph: Graph) -> dict[int, FoundRegion]:
        """The regions that ran, each with the figures of its operations, or with why it has none."""
        regions: dict[int, FoundRegion] = {}
        for index, region in self.found.items():
            if region.inner is None or graph.nodes[index].run is None:
                continue
            noted = self._noted.pop(index, None)
            try:
                if noted is None:
                    raise NotAgain("what it got is not known")
                inner = self._run_again(graph, index, region.inner, noted)
                regions[index] = dataclasses.replace(region, inner=inner, is_measured=True)
            except NotAgain as reason:
                regions[index] = dataclasses.replace(region, why_unmeasured=str(reason))
            except Exception as error:  # whatever torch raises for what runs again, such as a lack of memory
                words = f"it could not be run again: {type(error).__name__}: {str(error).partition(chr(10))[0]}"
                regions[index] = dataclasses.replace(region, why_unmeasured=words)
            if not self.keeps_calls:
                drop_held_call(self.walk.wrappers[index])
        return regions

    def _run_again(self, outer: Graph, index: int, inner: InnerRegion, noted: _Noted) -> InnerRegion:
        _check_that_it_may_run(noted)
        plan = output_plan_of(python_function_class(self.walk.wrappers[index]))
        run = _Run(noted, plan, self.facts, self.values_up_to)
        graph = result_of_own_thread(run.measured_graph)
        _check_against_program(outer, outer.nodes[index], graph, run, inner)
        add_values(self.walk.wrappers[index], run.log)
        numbers = run.replay.walk.sequence_nrs
        operations = (each for each, nr in zip(graph.nodes, numbers, strict=True) if nr != LEAF_SEQUENCE_NR)
        nodes = [_with_figures(own, each) for own, each in zip(inner.nodes, operations, strict=True)]
        return dataclasses.replace(inner, nodes=nodes)


def _check_that_it_may_run(noted: _Noted) -> None:
    reason = why_not_twice(noted.held.traced)
    if reason:
        raise NotAgain(reason)
    if not noted.held.is_unchanged:
        raise NotAgain("something that it got was changed in place before backward ended")
    if tuple(None if each is None else version_of(each) for each in noted.tangents) != noted.versions:
        raise NotAgain("a gradient that it got was changed in place before backward ended")
    if any(each is not None and type(each) is not torch.Tensor for each in noted.tangents):
        raise NotAgain("a gradient that it got is of a class of its own")


def _with_figures(own: Node, measured: Node) -> Node:
    return replace(
        own,
        name=measured.name if own.name in RESHAPES else own.name,
        outputs=measured.outputs,
        gradients=measured.gradients,
        shares=measured.shares,
        arrived=measured.arrived,
    )


class _Run:
    """One second run."""

    def __init__(self, noted: _Noted, plan: OutputPlan, facts: FactsTable, values_up_to: int) -> None:
        self.held, self._tangents = noted.held, noted.tangents
        self._plan, self._facts, self._values_up_to = plan, facts, values_up_to
        self.replay: Replay
        self.log: RunLog | None = None

    def measured_graph(self) -> Graph:
        """The nodes of the run with their figures."""
        traced = self.held.traced
        tensors = [each for each in self.held.inputs if isinstance(each, torch.Tensor)]
        with _synchronized(tensors), generators_restored():
            for kind, state in self.held.generators.items():
                set_generator_state(kind, state)
            leaves = [
                _own_tensor(each, given) if isinstance(each, torch.Tensor) and isinstance(given, TensorInput) else each
                for each, given in zip(self.held.inputs, traced.inputs, strict=True)
            ]
            inputs, standing_in = with_stand_ins(leaves, replayed(traced).stand_ins)
            self.log = RunLog() if traced.logs_calls else None
            interpreter = NotingInterpreter(traced, lambda given: given.value.clone(), frees_values=True, log=self.log)
            with as_traced(traced), torch.enable_grad(), replaying_views():
                with interpreter.mode_on() if self.log is not None else nullcontext():
                    results = list(interpreter.run(*inputs))
                self.replay = described(inputs, results, [], standing_in)
                self._check_way()
                return self._backward(inputs, results, leaves)

    def _check_way(self) -> None:
        walked, expected = self.replay.walk, replayed(self.held.traced).walk
        names = [(one.name(), other.name()) for one, other in zip(walked.wrappers, expected.wrappers, strict=False)]
        if not all(is_alike(*pair) for pair in names) or list(walked.edges) != list(expected.edges):
            raise NotAgain("a second run makes other autograd nodes")

    def _backward(self, inputs: list[Any], results: list[Any], leaves: list[Any]) -> Graph:
        walked = self.replay.walk
        outputs = OutputReader(self._facts, Counter()).of_walk(walked)
        rows = zip(walked.wrappers, walked.sequence_nrs, walked.edges, outputs, strict=True)
        graph = Graph(
            tuple(
                Node(index, wrapper.name(), _kind_of(number, edges), None, edges, facts)
                for index, (wrapper, number, edges, facts) in enumerate(rows)
            )
        )
        started = list(self._started(inputs, results))
        roots, tangents = tuple(each for each, _ in started), tuple(each for _, each in started)
        wanted = tuple(each for each in leaves if isinstance(each, torch.Tensor) and each.requires_grad)
        if not roots:
            raise NotAgain("no gradient arrived at it")
        meter = GradientMeter(self._facts, self._values_up_to)
        request = BackwardRequest("grad", roots, wanted, False, False, tangents, sys._getframe())
        recorder = GradientRecorder(walked, graph, request, meter)
        recorder.start()
        try:
            result = torch.autograd.grad(roots, wanted, tangents, allow_unused=True)
        except Exception:
            recorder.cancel()
            raise
        recorder.stop(result)
        if recorder.defects.sentences(""):
            raise NotAgain("its gradients could not be measured")
        return recorder.added_to(graph)

    def _started(self, inputs: list[Any], results: list[Any]) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """The results that backward starts from, each with the gradient that arrived there."""
        bases = dict(zip(self._plan.bases, self.replay.tensors[2], strict=True))
        numbers = sorted(number for number in bases if number is not None)
        ordered = [*(inputs[index] for index in self._plan.changed_inputs), *results, *map(bases.get, numbers)]
        for tensor, tangent in zip(ordered, self._tangents, strict=False):
            if tangent is not None and isinstance(tensor, torch.Tensor) and grad_fn_of(tensor) is not None:
                if tensor.shape != tangent.shape:
                    raise NotAgain("a second run has results of other shapes")
                yield tensor, tangent


def _kind_of(sequence_nr: int, edges: Sequence[Any]) -> NodeKind:
    return "input" if sequence_nr == LEAF_SEQUENCE_NR and not edges else "operation"


def _own_tensor(held: torch.Tensor, given: TensorInput) -> torch.Tensor:
    """Something that may be changed: a batch norm changes its statistics, which no version tells."""
    return held.detach().requires_grad_() if given.requires_grad else held.detach().clone()


@contextmanager
def _synchronized(tensors: Iterable[torch.Tensor]) -> Iterator[None]:
    """Waits for accelerators before and after: this thread has streams of its own."""
    devices = {each.device for each in tensors if each.device.type not in ("cpu", "meta")}
    with ExitStack() as stack:
        for device in devices:
            module = torch.get_device_module(device)
            module.synchronize(device)
            stack.callback(module.synchronize, device)
            stack.enter_context(module.device(device))
        yield


# -- Comparing it with the program -------------------------------------------------------------------------------------


def _check_against_program(outer: Graph, node: Node, graph: Graph, run: _Run, inner: InnerRegion) -> None:
    """Raise `NotAgain` if the second run sent other gradients out of the region than the program did."""
    draws = bool(run.held.generators)
    tolerance = max(_tolerances(inner.nodes), default=_OTHER_TOLERANCE)
    draws_the_same = draws_like_uncompiled_code(run.held.traced.backend)
    if draws:
        is_coarse = tolerance == _OTHER_TOLERANCE and draws_the_same
        tolerance *= _OF_RANDOM_IN_16_BITS if is_coarse else _OF_RANDOM
    pairs = []
    for index, number in run.replay.input_of.items():
        sent, again = at_index(node.gradients, number), at_index(graph.nodes[index].arrived, 0)
        if sent is not None and again is not None and sent.unmeasured is None and again.unmeasured is None:
            pairs.append((number, sent, again))
    largest = max((sent.norm or 0.0 for _, sent, _ in pairs), default=0.0)
    different = [pair for pair in pairs if _differ(*pair[1:], tolerance, largest)]
    if not different:
        return
    if draws:
        hint = " (inductor draws as other code does with torch._inductor.config.fallback_random = True)"
        raise NotAgain(f"it draws random numbers, and a second run draws others{'' if draws_the_same else hint}")
    number, sent, again = max(different, key=lambda pair: abs((pair[1].norm or 0.0) - (pair[2].norm or 0.0)))
    edge = at_index(node.edges, number)
    names = outer.nodes[edge.target].names if edge is not None else ()
    raise NotAgain(
        f"without compilation it sends other gradients than the program: to {names[0] if names else 'an input'} one "
        f"of norm {_norm_words(again)} instead of {_norm_words(sent)}, so compiled code computes something else"
    )


def _norm_words(figures: TensorFigures) -> str:
    return "NaN or Inf" if figures.nans or figures.infs else f"{figures.norm or 0.0:.3g}"


def _tolerances(nodes: Sequence[Node]) -> Iterator[float]:
    for node in nodes:
        for facts in node.outputs:
            if facts is not None and ("float" in facts.dtype or "complex" in facts.dtype):
                yield _TOLERANCES.get(facts.dtype, _OTHER_TOLERANCE)


def _differ(sent: TensorFigures, again: TensorFigures, tolerance: float, largest: float) -> bool:
    """Rounding is no difference: also not in a gradient that consists of it, beside others that are large."""
    is_broken = bool(sent.nans or sent.infs)
    if is_broken or again.nans or again.infs:
        return is_broken != bool(again.nans or again.infs)
    norms = sent.norm or 0.0, again.norm or 0.0
    return abs(norms[0] - norms[1]) > tolerance * (max(norms) + 1e-3 * largest)
