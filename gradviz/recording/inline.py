"""Recording from the user's own code: of tensors that are there already, and of a ``with`` block.

A script that ``gradviz render`` runs may itself use these. The recorder of the command is then the one that watches,
and the block takes its share of what that one records.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Sized
from itertools import islice
from types import FrameType
from typing import Any, Literal

import torch
from msgspec.structs import replace

from gradviz.capture.capture import Capture
from gradviz.errors import BadInput, NothingRecorded
from gradviz.graph.model import Graph
from gradviz.graph.words import counted
from gradviz.recording.forward.names import NameTable, names_on_stack, namespaces_of_traceback
from gradviz.recording.forward.structures import MAX_ELEMENTS, named_tensors, stored_attributes
from gradviz.recording.forward_watch import ForwardWatch
from gradviz.recording.frame_variables import local_variables
from gradviz.recording.recorder import Recorder, running_recorder
from gradviz.recording.requested_backward import InspectedRoots
from gradviz.recording.run.notebook_cells import program_name, with_cells_named
from gradviz.recording.run.plan import RecordingPlan
from gradviz.recording.run.user_traceback import script_error, without_our_frames
from gradviz.recording.torch_access import capabilities
from gradviz.recording.torch_access.nodes import peek_sequence_nr
from gradviz.recording.torch_access.tensor_facts import FactsTable
from gradviz.recording.torch_access.tensors import DISABLE_TORCH_FUNCTION, grad_fn_of
from gradviz.recording.walk.capture_builder import CaptureBuilder
from gradviz.recording.walk.roots import RootTensor, loose_ends, root_of

FORWARD_UNSEEN = (
    "lines and module calls are unknown, because nobody watched the forward: "
    "compute it inside `with gradviz.record():` to see them"
)
RECORDED_BY_THE_COMMAND = (
    "the gradviz command that runs this script was the one that recorded: of the backward calls in this block it kept "
    "those that it was asked for"
)

OPEN_AT_EXIT = (
    "gradviz: a recording was still open when Python ended, and nothing of it was kept: leave its "
    "`with gradviz.record():` block first"
)

Outcome = Literal["finished", "failed", "interrupted"]

_one_block_at_a_time = threading.Lock()


def inspect_values(values: tuple[Any, ...], models: Any, frame: FrameType) -> tuple[Capture, InspectedRoots]:
    """The graph of tensors that are there already, with names from `models` and from the variables around `frame`.

    With it come the tensors themselves, as long as the program holds them.
    """
    capabilities.check()
    names = names_on_stack(frame)
    given_models = names.add_models(models)
    _check_models(models, given_models)
    roots = roots_of_values(values, names)
    running = running_recorder()
    builder = running.new_builder() if running is not None else _builder_without_recording()
    builder.add_graph(roots, names, models=given_models)
    if builder.saw_no_forward:
        builder.disclose(FORWARD_UNSEEN)
    for sentence in left_out(values, names):
        builder.disclose(sentence)
    capture = builder.capture(program_name(frame.f_code.co_filename), (), "finished", None)
    return with_cells_named(capture), InspectedRoots.of(roots)


def _check_models(models: Any, found: list[Any]) -> None:
    if models is not None and not found:
        raise BadInput(
            f"model is an object of type {type(models).__name__}, not a module",
            hint="pass the torch.nn.Module that computed the tensors, or leave it out",
        )


def _builder_without_recording() -> CaptureBuilder:
    facts = FactsTable()
    return CaptureBuilder(facts, ForwardWatch(facts))


class BlockRecorder:
    """Records from `start` to `finish`, on one thread."""

    def __init__(self, plan: RecordingPlan) -> None:
        self._plan = plan
        self._recorder: Recorder | None = None
        self._is_guest = False
        self._calls_before = 0
        self._graphs_before: tuple[Graph, ...] = ()
        self._first_sequence_nr = 0

    def start(self, frame: FrameType, models: Any = None) -> None:
        """Begin to watch a block in `frame` that computes with `models`.

        Raises `BadInput` where another one is being recorded, or these are none.
        """
        _check_models(models, NameTable().add_models(models))
        if not _one_block_at_a_time.acquire(blocking=False):
            raise BadInput(
                "a recording is running already, and there can be one at a time",
                hint="leave the other `with gradviz.record():` block first; it records what runs inside it anyway",
            )
        try:
            running = running_recorder()
            self._is_guest = running is not None
            self._recorder = running or Recorder(self._plan)
            if running is None:
                self._recorder.start()
                self._recorder.name_models(models)
                self._recorder.note_names(frame)
        except BaseException:
            self.abandon()
            raise
        atexit.register(self._tell_that_it_is_open)
        self._calls_before = self._recorder.backward_calls
        self._graphs_before = self._recorder.graphs
        self._first_sequence_nr = peek_sequence_nr()

    @property
    def backward_calls(self) -> int:
        """Those in the block so far."""
        return self._recorder.backward_calls - self._calls_before if self._recorder is not None else 0

    def abandon(self) -> None:
        """Put torch back and forget what was recorded."""
        recorder, self._recorder = self._recorder, None
        atexit.unregister(self._tell_that_it_is_open)
        if recorder is not None and not self._is_guest:
            recorder.stop()
        _one_block_at_a_time.release()

    def _tell_that_it_is_open(self) -> None:
        """Python ends, and nobody can look at the recording any more; a file that nobody asked for helps nobody."""
        self.abandon()
        if sys.stderr is not None:
            sys.stderr.write(f"{OPEN_AT_EXIT}\n")

    def finish(self, error: BaseException | None, frame: FrameType) -> Capture:
        """Put torch back, and give what was recorded; `frame` is that of the block, `error` what ended it."""
        recorder = self._recorder
        assert recorder is not None, "finish() follows start()"
        self.abandon()
        if not self._is_guest:
            recorder.note_end(
                [local_variables(frame), frame.f_globals]
                if error is None
                else namespaces_of_traceback(error.__traceback__, with_libraries=False)
            )
        failure = None
        if isinstance(error, Exception):
            recorder.note_refused_backward(error, namespaces_of_traceback(error.__traceback__))
            failure = script_error(without_our_frames(error), in_backward=recorder.failed_in_backward)
        program, outcome = program_name(frame.f_code.co_filename), _outcome(error)
        before = set(map(id, self._graphs_before))
        new = [place for place, graph in enumerate(recorder.graphs) if id(graph) not in before]
        ends = None if new else self._loose_ends(recorder, error, frame)
        capture = recorder.capture(program, (), outcome, failure, ends)
        graphs, told = tuple(capture.graphs[place] for place in new), capture.disclosures
        if ends is not None:
            # Why no backward call gave a graph was told to the recorder, not to the builder of what is left.
            graphs, told = capture.graphs, tuple(dict.fromkeys([*recorder.disclosures(), *told]))
        if not self._is_guest:
            recorder.let_go_of_all()
        by_the_command = (RECORDED_BY_THE_COMMAND,) if self._is_guest else ()
        return with_cells_named(
            replace(
                capture,
                graphs=graphs,
                backward_calls=capture.backward_calls - self._calls_before,
                disclosures=(*told, *by_the_command),
            )
        )

    def _loose_ends(self, recorder: Recorder, error: BaseException | None, frame: FrameType) -> CaptureBuilder:
        """Without any backward: what was computed in the block and a variable still holds."""
        if not self._is_guest:
            recorder.note_memory()
        builder = recorder.new_builder()
        try:
            names = NameTable.of(namespaces_of_traceback(error.__traceback__ if error is not None else None))
            roots = loose_ends(names_on_stack(frame, names), since=self._first_sequence_nr)
            if roots:
                builder.add_graph(roots, names)
        except Exception as defect:
            if error is None:
                raise
            # The program's own error is on its way, and is the one to be seen.
            builder.disclose_defect("what was computed before the error could not be recorded", defect)
        return builder


def _outcome(error: BaseException | None) -> Outcome:
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    return "failed" if isinstance(error, Exception) else "finished"


# From what `gradviz.inspect` was given to the roots of a walk, or to a plain word on why there are none.

UNNAMED = "output"
"""Stands for a value that no variable holds, in the names of its parts: ``output['loss']``."""


def roots_of_values(values: tuple[Any, ...], names: NameTable) -> list[RootTensor]:
    """The roots in tensors, or in structures of them, in the order given.

    Raises:
        BadInput: there is no tensor in `values`.
        NothingRecorded: none of the tensors has a graph.
    """
    tensors: list[tuple[str, torch.Tensor]] = []
    edges: list[RootTensor] = []
    for value in values:
        edge = _gradient_edge(value)
        if edge is not None:
            edges.append(edge)
            continue
        found = list(named_tensors(value, UNNAMED))
        if not found:
            raise _no_tensor_in(value, names)
        tensors += found
    if not values:
        raise BadInput("inspect() was given nothing", hint="pass the tensor whose graph you want, such as the loss")
    roots = [*edges, *(root for path, tensor in tensors if (root := _root(path, tensor, names)) is not None)]
    if not roots:
        raise _no_graph(tensors, names)
    distinct: dict[tuple[Any, int], RootTensor] = {}
    for root in roots:
        distinct.setdefault((root.grad_fn, root.output_nr), root)
    return list(distinct.values())


def left_out(values: tuple[Any, ...], names: NameTable) -> Iterator[str]:
    """One sentence each on what of `values` is not in the picture."""
    tensors = [(path, tensor) for value in values for path, tensor in named_tensors(value, UNNAMED)]
    without = [_name(path, tensor, names) or path for path, tensor in tensors if _grad_fn(tensor) is None]
    if without and len(without) < len(tensors):
        shown = ", ".join(without[:4]) + (f" and {len(without) - 4:,} more" if len(without) > 4 else "")
        yield f"{len(without):,} of the {len(tensors):,} tensors given have no grad_fn and are not shown: {shown}"
    for value in values:
        if isinstance(value, (list, tuple, dict)) and len(value) > MAX_ELEMENTS:
            yield f"of the {len(value):,} elements given, the first {MAX_ELEMENTS:,} were looked at"


def _gradient_edge(value: Any) -> RootTensor | None:
    if isinstance(value, torch.autograd.graph.Node):
        return RootTensor(None, None, value, 0)
    return root_of(value, None) if isinstance(value, torch.autograd.graph.GradientEdge) else None


def _root(path: str, tensor: torch.Tensor, names: NameTable) -> RootTensor | None:
    return root_of(tensor, _name(path, tensor, names)) if _grad_fn(tensor) is not None else None


def _name(path: str, tensor: torch.Tensor, names: NameTable) -> str | None:
    """The variable that holds a tensor, or else its place in what was given."""
    return names.name_of(tensor) or (path if path != UNNAMED else None)


def _grad_fn(tensor: torch.Tensor) -> Any:
    with DISABLE_TORCH_FUNCTION():
        return grad_fn_of(tensor)


# -- why there is nothing to show --------------------------------------------------------------------------------

_OUTPUT = "pass the tensor whose graph you want, such as the loss"


def _no_tensor_in(value: Any, names: NameTable) -> BadInput:
    kind = type(value)
    if isinstance(value, torch.nn.Module):
        name = names.module_name(value)
        return BadInput(
            f"inspect() was given the model {name} itself ({kind.__name__}), and a graph belongs to its output",
            hint=f"call it first: gradviz.inspect({name}(...), model={name})",
        )
    if isinstance(value, (str, os.PathLike)):
        path = os.fspath(value)
        return BadInput(f"inspect() takes tensors, not the text {path!r}", hint=f"did you mean gradviz.load({path!r})?")
    if kind.__module__.partition(".")[0] == "numpy":
        return BadInput(
            f"inspect() was given a NumPy {kind.__name__}, which has no graph",
            hint="pass the tensor that it was made from",
        )
    if value is None:
        return BadInput("inspect() was given None", hint=f"{_OUTPUT}; does the function that makes it return it?")
    if isinstance(value, (list, tuple, dict, set, frozenset)):
        return BadInput(f"there is no tensor in {_contents(value)} that inspect() was given", hint=_OUTPUT)
    if callable(value):
        return BadInput(
            f"inspect() takes tensors, and calls nothing: it was given a {kind.__name__}", hint="pass what it returns"
        )
    return BadInput(
        f"inspect() takes tensors, not an object of type {kind.__name__}", hint=_tensors_of(value) or _OUTPUT
    )


def _contents(value: Sized) -> str:
    """``the empty list``, ``the dict of 3 values (2 str, 1 int)``."""
    kind = type(value).__name__
    if not len(value):
        return f"the empty {kind}"
    elements = value.values() if isinstance(value, dict) else iter(value)  # type: ignore[call-overload]
    counts = Counter(type(element).__name__ for element in islice(elements, MAX_ELEMENTS))
    found = ", ".join(f"{count} {name}" for name, count in counts.most_common(4))
    return f"the {kind} of {counted(len(value), 'value')} ({found})"


def _tensors_of(value: Any) -> str | None:
    """A hint where the tensors are attributes of an object."""
    held = [name for name, part in stored_attributes(value).items() if issubclass(type(part), torch.Tensor)]
    return f"pass one of its tensors: {', '.join(f'.{name}' for name in held[:4])}" if held else None


def _no_graph(tensors: list[tuple[str, torch.Tensor]], names: NameTable) -> NothingRecorded:
    path, tensor = tensors[0]
    name = _name(path, tensor, names) or "the tensor"
    reason, hint = _why_without_graph(tensor)
    if len(tensors) > 1:
        return NothingRecorded(f"none of the {len(tensors):,} tensors has a grad_fn; {name}, say, {reason}", hint=hint)
    return NothingRecorded(f"{name} has no grad_fn: it {reason}", hint=hint)


def _why_without_graph(tensor: torch.Tensor) -> tuple[str, str]:
    with DISABLE_TORCH_FUNCTION():
        if tensor.requires_grad:
            return "is a leaf, which no operation made", "pass what was computed from it"
        if not (tensor.is_floating_point() or tensor.is_complex()):
            return f"holds {str(tensor.dtype).removeprefix('torch.')}, of which there are no gradients", _OUTPUT
        if tensor.is_inference():
            return "was computed under torch.inference_mode()", "compute it outside of that"
    why = "was computed under torch.no_grad(), was detached, or nothing that it was computed from requires grad"
    if not torch.is_grad_enabled():
        return why, "gradients are off right now: compute it outside of torch.no_grad()"
    return why, "check requires_grad of what it was computed from"
