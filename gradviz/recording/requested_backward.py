"""Measures a backward that only the user of gradviz asked for, and leaves the program as it was.

Problems solved here:

* ``.grad`` must not change: gradients are asked for with `torch.autograd.grad`, which adds to nothing. What else a
  backward changes is restored: see `program_state`.
* A recorder that watches the program must not count the call as one of the program's.
* An inspection keeps nothing alive, so what it inspected may be gone, freed or changed since.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from msgspec.structs import replace

from gradviz.capture.capture import Capture
from gradviz.errors import BadInput
from gradviz.graph.model import Graph
from gradviz.graph.number_words import counted
from gradviz.graph.query.root_names import root_names
from gradviz.recording.backward.backward_watch import BackwardRequest, BackwardWatch
from gradviz.recording.backward.measured_calls import MeasuredCalls
from gradviz.recording.backward.program_state import HOOKS_RAN, program_state_restored
from gradviz.recording.backward.refused_backward import root_in_message
from gradviz.recording.forward_watch import ForwardWatch
from gradviz.recording.run.recording_plan import RecordingPlan
from gradviz.recording.torch_access.nodes import LEAF_SEQUENCE_NR
from gradviz.recording.torch_access.tensor_facts import FactsTable
from gradviz.recording.torch_access.unwatched_backward import unwatched
from gradviz.recording.walk.capture_builder import CaptureBuilder, Recorded
from gradviz.recording.walk.graph_walker import Walk, walk
from gradviz.recording.walk.leaves import leaf_variables
from gradviz.recording.walk.roots import RootTensor, root_of


@dataclass(frozen=True)
class InspectedRoots:
    """The tensors that an inspection began at, as long as the program holds them."""

    references: tuple[Callable[[], torch.Tensor | None], ...]

    @classmethod
    def of(cls, roots: Sequence[RootTensor]) -> InspectedRoots:
        return cls(tuple(_no_tensor if root.tensor is None else weakref.ref(root.tensor) for root in roots))

    def measured(self, capture: Capture, gradient: Any, plan: RecordingPlan) -> Capture:
        """The capture of these roots, with the gradients of a backward that starts from `gradient`.

        Raises:
            BadInput: the tensors are gone, or their graph was freed or changed; or `gradient` does not fit.
        """
        (graph,) = capture.graphs
        names = root_names(graph)
        tensors = [
            _there(reference(), name, root.tensor is None)
            for reference, name, root in zip(self.references, names, graph.roots, strict=True)
        ]
        starts = _start_gradients(gradient, names)
        walked = _same_walk(graph, tensors, names)
        builder, facts = _builder(graph)
        calls = MeasuredCalls(plan, facts, builder)
        _run(graph, tensors, starts, names, walked, calls)
        if any(node.hooks for node in graph.nodes):
            builder.disclose(HOOKS_RAN)
        graphs = tuple(builder.graphs.values())
        disclosures = dict.fromkeys([*capture.disclosures, *builder.disclosures()])
        return replace(capture, graphs=graphs, disclosures=tuple(disclosures))


def _no_tensor() -> None:
    return None


def _builder(graph: Graph) -> tuple[CaptureBuilder, FactsTable]:
    facts = FactsTable()
    builder = CaptureBuilder(facts, ForwardWatch(facts))
    builder.graphs[0] = graph
    return builder, facts


# -- what backward needs ---------------------------------------------------------------------------------------------


def _there(tensor: torch.Tensor | None, name: str, was_an_edge: bool) -> torch.Tensor:
    if tensor is not None:
        return tensor
    if was_an_edge:
        raise BadInput(f"{name} was given as a node of the graph, not as a tensor", hint="inspect the tensor itself")
    raise BadInput(
        f"{name} is gone: an inspection keeps no tensor alive", hint="keep it in a variable until backward() was called"
    )


def _start_gradients(gradient: Any, names: Sequence[str]) -> list[Any]:
    """One for each root; None if torch is to take ones."""
    if gradient is None:
        return [None] * len(names)
    given = list(gradient.values()) if isinstance(gradient, dict) else gradient
    given = list(given) if isinstance(given, (list, tuple)) else [given]
    for each in given:
        if each is not None and not isinstance(each, torch.Tensor):
            raise BadInput(
                f"gradient={each!r} is not a tensor", hint="give a tensor of the root's shape, or one for each root"
            )
    if len(given) != len(names):
        numbers = f"{counted(len(given), 'gradient')} for {counted(len(names), 'root')}"
        raise BadInput(f"{numbers} ({', '.join(names[:4])})", hint="give one for each, or None")
    return given


def _same_walk(graph: Graph, tensors: Sequence[torch.Tensor], names: Sequence[str]) -> Walk:
    """The walk that gave the graph, made again: nodes have the same indices, unless the tensors were changed."""
    roots = [root_of(tensor, name) for tensor, name in zip(tensors, names, strict=True)]
    walked = walk(root.grad_fn for root in roots if root is not None)
    numbers = [node.sequence_nr for node in graph.nodes if node.sequence_nr is not None]
    if [number for number in walked.sequence_nrs if number != LEAF_SEQUENCE_NR] != numbers:
        raise BadInput(
            f"the graph of {', '.join(names[:4])} was changed since it was inspected", hint="inspect it again"
        )
    return walked


# -- the call itself -------------------------------------------------------------------------------------------------


def _run(
    graph: Graph,
    tensors: Sequence[torch.Tensor],
    starts: list[Any],
    names: Sequence[str],
    walked: Walk,
    calls: MeasuredCalls,
) -> None:
    has_begun = False

    def measure(request: BackwardRequest, run: Callable[[], Any]) -> Any:
        nonlocal has_begun
        has_begun = True
        with unwatched():
            return calls.run(Recorded(walked, 0), request, run)

    leaves = [variable for _, variable in leaf_variables(walked) if variable.requires_grad]
    watch = BackwardWatch(measure, lambda _: calls.inner.note())
    with program_state_restored(graph):
        watch.start()
        try:
            torch.autograd.grad(tensors, leaves, starts, retain_graph=True, allow_unused=True)
        except RuntimeError as error:
            refusal = _refusal(error, names, tensors, has_begun=has_begun)
            if refusal is None:
                raise
            raise refusal from None
        finally:
            watch.stop()


def _refusal(
    error: RuntimeError, names: Sequence[str], tensors: Sequence[torch.Tensor], *, has_begun: bool
) -> BadInput | None:
    """A clearer error than torch's, if more is known; None if torch's own is best."""
    message = str(error).partition("\n")[0].rstrip(".")
    if has_begun:
        if "second time" not in message:
            return None
        return BadInput(
            f"the graph of {', '.join(names[:4])} was freed by an earlier backward",
            hint="measure before that, or call it with retain_graph=True",
        )
    blamed = root_in_message(message, tensors)
    shape = list(tensors[blamed].shape)
    return BadInput(f"{names[blamed]} has shape {shape}: {message}", hint=f"give gradient= a tensor of shape {shape}")
