"""Records a ``with`` block, for `gradviz.record`.

A script that ``gradviz render`` runs may contain such blocks. Then the recorder of the command watches, and the block
gets its part of that recording.
"""

from __future__ import annotations

import atexit
import sys
import threading
from types import FrameType
from typing import Any, Literal

from msgspec.structs import replace

from gradviz.capture.capture import Capture
from gradviz.errors import BadInput
from gradviz.graph.model import Graph
from gradviz.recording.forward.namespaces import namespaces_of_traceback
from gradviz.recording.forward.tensor_names import NameTable, names_on_stack
from gradviz.recording.frame_variables import local_variables
from gradviz.recording.inspected_values import check_models
from gradviz.recording.recorder import Recorder, running_recorder
from gradviz.recording.run.notebook_cells import program_name, with_cells_named
from gradviz.recording.run.recording_plan import RecordingPlan
from gradviz.recording.run.user_traceback import script_error, without_our_frames
from gradviz.recording.torch_access.nodes import peek_sequence_nr
from gradviz.recording.walk.capture_builder import CaptureBuilder
from gradviz.recording.walk.roots import unconsumed_results

RECORDED_BY_THE_COMMAND = (
    "the gradviz command that runs this script recorded it: only the backward calls that it was asked for are kept"
)

OPEN_AT_EXIT = (
    "gradviz: a recording was still open when Python ended, and nothing of it was kept: leave its "
    "`with gradviz.record():` block first"
)

Outcome = Literal["finished", "failed", "interrupted"]

_one_block_at_a_time = threading.Lock()


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

        Raises `BadInput` if another block is being recorded, or if `models` are not modules.
        """
        check_models(models, NameTable().add_models(models))
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
        atexit.register(self._warn_that_it_is_open)
        self._calls_before = self._recorder.backward_calls
        self._graphs_before = self._recorder.graphs
        self._first_sequence_nr = peek_sequence_nr()

    @property
    def backward_calls(self) -> int:
        """Backward calls in the block so far."""
        return self._recorder.backward_calls - self._calls_before if self._recorder is not None else 0

    def abandon(self) -> None:
        """Put torch back and forget what was recorded."""
        recorder, self._recorder = self._recorder, None
        atexit.unregister(self._warn_that_it_is_open)
        if recorder is not None and not self._is_guest:
            recorder.stop()
        _one_block_at_a_time.release()

    def _warn_that_it_is_open(self) -> None:
        """Python is ending, and nobody can use the recording any more. It is not saved: no file was asked for."""
        self.abandon()
        if sys.stderr is not None:
            sys.stderr.write(f"{OPEN_AT_EXIT}\n")

    def finish(self, error: BaseException | None, frame: FrameType) -> Capture:
        """Put torch back, and return what was recorded; `frame` is that of the block, `error` is what ended it."""
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
        new = [index for index, graph in enumerate(recorder.graphs) if id(graph) not in before]
        ends = None if new else self._unconsumed_results(recorder, error, frame)
        capture = recorder.capture(program, (), outcome, failure, ends)
        graphs, sentences = tuple(capture.graphs[index] for index in new), capture.disclosures
        if ends is not None:
            # The recorder knows why no backward call gave a graph; the builder of these results does not.
            graphs, sentences = capture.graphs, tuple(dict.fromkeys([*recorder.disclosures(), *sentences]))
        if not self._is_guest:
            recorder.release_all()
        by_the_command = (RECORDED_BY_THE_COMMAND,) if self._is_guest else ()
        return with_cells_named(
            replace(
                capture,
                graphs=graphs,
                backward_calls=capture.backward_calls - self._calls_before,
                disclosures=(*sentences, *by_the_command),
            )
        )

    def _unconsumed_results(self, recorder: Recorder, error: BaseException | None, frame: FrameType) -> CaptureBuilder:
        """If there was no backward: what was computed in the block and a variable still holds."""
        if not self._is_guest:
            recorder.note_memory()
        builder = recorder.new_builder()
        try:
            names = NameTable.of(namespaces_of_traceback(error.__traceback__ if error is not None else None))
            roots = unconsumed_results(names_on_stack(frame, names), since=self._first_sequence_nr)
            if roots:
                builder.add_graph(roots, names)
        except Exception as defect:
            if error is None:
                raise
            # The program's own error matters more.
            builder.disclose_defect("what was computed before the error could not be recorded", defect)
        return builder


def _outcome(error: BaseException | None) -> Outcome:
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    return "failed" if isinstance(error, Exception) else "finished"
