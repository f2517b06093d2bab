"""Records one run: watches forward and backward, and makes a graph of every wanted backward call.

Guarantees: torch is put back exactly as it was found, also if the program raises; nothing of the program is kept alive
once recording ends; a failure of gradviz is disclosed in the capture and never reaches the program.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import FrameType
from typing import Any, NoReturn

from msgspec.structs import replace

from gradviz.capture.capture import Capture, Rank, ScriptError
from gradviz.capture.replica_log import is_noted
from gradviz.collector import collector_paused
from gradviz.graph.model import BackwardCall, Graph
from gradviz.graph.query.own_line import line_words_of
from gradviz.recording.backward.backward_watch import BackwardRequest, BackwardWatch
from gradviz.recording.backward.failed_node import FailedBackwards
from gradviz.recording.backward.kept_graphs import KeptGraphs
from gradviz.recording.backward.measured_calls import MeasuredCalls
from gradviz.recording.backward.refused_backward import refused_backward
from gradviz.recording.calls.call_log_names import CallLogNames
from gradviz.recording.compiled.compiled_code import CompiledCodeWatch
from gradviz.recording.compiled.written_roots import written_roots
from gradviz.recording.forward.tensor_names import NameTable, names_on_stack
from gradviz.recording.forward.tensors_in_containers import FEW_LOOKS, MAX_LOOKS
from gradviz.recording.forward_watch import ForwardWatch
from gradviz.recording.ranks.peer_watch import is_shape_inference
from gradviz.recording.ranks.rank_facts import rank_in_group, untried_backend
from gradviz.recording.run.anomaly_stacks import AnomalyStacks
from gradviz.recording.run.recording_plan import RecordingPlan, StopScript
from gradviz.recording.run.run_limit import RunLimit
from gradviz.recording.run.stopped_tasks import retrieve_stops, unfinished_tasks
from gradviz.recording.torch_access import capabilities
from gradviz.recording.torch_access.distributed.sharded_parameters import is_joined
from gradviz.recording.torch_access.engine import is_one_of_several_processes
from gradviz.recording.torch_access.modes import is_tracing
from gradviz.recording.torch_access.nodes import peek_sequence_nr
from gradviz.recording.torch_access.removed_hooks import hooks_in_use
from gradviz.recording.torch_access.tensor_facts import FactsTable
from gradviz.recording.walk.capture_builder import CaptureBuilder, Recorded
from gradviz.recording.walk.graph_builder import CallAt
from gradviz.recording.walk.object_memory import sizes_of_objects
from gradviz.recording.walk.roots import RootTensor, RootWithoutGradFn, root_of, roots_of_expression, unconsumed_results

TRACED = "backward calls inside torch.jit.trace are not recorded: it would trace the recorder"


TRIES_BESIDE_THREADS = 5
"""How often a recording to which other threads add is read for a spool."""


class Recorder:
    """Records from `start` to `stop`; `capture` then returns what was seen."""

    def __init__(self, plan: RecordingPlan) -> None:
        """Raises `MissingDependency` if torch lacks what every recording needs."""
        capabilities.check()
        self._plan = plan
        self._facts = FactsTable()
        self._forward = ForwardWatch(
            self._facts,
            plan.values_up_to,
            logs_calls=plan.calls,
            fingerprints=plan.fingerprints,
            totals=plan.for_pictures,
        )
        if plan.member is not None:
            self._forward.watch_other_ranks()
        self._compiled = CompiledCodeWatch(self._forward, holds_calls=plan.inside)
        self._anomaly_stacks = AnomalyStacks()
        self._builder = self.new_builder()
        self._limit = RunLimit(plan.limits, self._end_run, plan.announce)
        self._call_log: CallLogNames | None = None
        if self._forward.calls is not None:
            self._call_log = CallLogNames(
                self._forward.calls, self._forward.log, self._forward.stacks, reads_inside=plan.inside
            )
            self._forward.calls.watch_limit(self._limit)
        self._measured = MeasuredCalls(plan, self._facts, self._builder)
        on_backward = self._on_backward if self._call_log is None else partial(self._log_backward, self._call_log)
        self._backward = BackwardWatch(partial(self._leaving_compiled_code, on_backward), self._note_inner)
        self._lock = threading.RLock()
        self._kept = KeptGraphs()
        self.backward_calls = 0
        self._models: Any = None
        """Modules to be named, given by the program."""
        self._last_sequence_nr = 0
        """The sequence number after the last backward call."""
        self._failures = FailedBackwards(self._builder)
        self.program: tuple[str, tuple[str, ...]] = ("", ())
        """Name and arguments of the program, for captures that are made while it runs."""
        self._goes_on_for_others = False
        """Whether nothing more is recorded, and the program runs only because other ranks of its job need it."""
        self._rank: Rank | None = None
        """Which rank of a process group this process is, if it is no member of a recorded job."""
        self._stopped_tasks: list[Any] = []
        """Tasks of asyncio that had not ended when the program was made to end; they do before it does."""
        self.was_stopped = False
        """True once the program, or its thread that called backward, was made to end."""

    # -- starting and stopping -----------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to watch, on the calling thread."""
        global _running
        _running = self
        sizes_of_objects()  # once in a process, before the program has filled its memory
        self._forward.start()
        self._compiled.start()
        self._anomaly_stacks.start()
        self._await_forward_of(1)
        if not self._plan.root:
            self._backward.start()

    def stop(self) -> None:
        """Put torch back; safe to call twice."""
        global _running
        if _running is self:
            _running = None
        self._backward.stop()
        self._compiled.stop()
        self._anomaly_stacks.stop()
        self._forward.stop()

    # -- backward calls ------------------------------------------------------------------------------------------

    def _leaving_compiled_code(
        self, handle: Callable[[BackwardRequest, Callable[[], Any]], Any], request: BackwardRequest, run: Any
    ) -> Any:
        """A backward call at a graph break is one of the program's, though a compiled function runs."""
        if not request.is_at_graph_break:
            return handle(request, run)
        with self._compiled.left():
            return handle(request, run)

    def _log_backward(self, call_log: CallLogNames, request: BackwardRequest, run: Callable[[], Any]) -> Any:
        """Like `_on_backward`, but every call is logged, also those that backward makes."""
        if self._compiled.is_running or is_tracing() or is_shape_inference(request.frame):
            return self._on_backward(request, run)
        try:
            call_log.before_backward(request.frame)
        except Exception as defect:  # must not reach the program
            self._builder.disclose_defect("tensors could not be named", defect)
        return self._on_backward(request, partial(call_log.run_backward, request, run))

    def _note_inner(self, frame: FrameType) -> None:
        """A node calls backward from inside of the engine."""
        self._measured.inner.note()
        if self._forward.calls is not None:
            self._forward.calls.events.note_inner_backward(frame)

    def note_names(self, frame: FrameType) -> None:
        """If calls are logged, name what the variables of the program hold now."""
        if self._call_log is not None:
            self._call_log.note_names(self._names(frame))

    def name_models(self, models: Any) -> None:
        """Name a module, or those in a list or dict, after ``model``, if no variable holds it."""
        self._models = models

    def _is_brief(self, number: int) -> bool:
        """Whether a backward call is one of the many of a long run that need not be recorded to the last detail."""
        return self._plan.calls and not is_noted(number)

    def _names(self, frame: FrameType) -> NameTable:
        max_looks = FEW_LOOKS if self._is_brief(self.backward_calls) else MAX_LOOKS
        names = names_on_stack(frame, NameTable(max_looks))
        names.add_models(self._models)
        return names

    def note_end(self, namespaces: list[Mapping[str, Any]]) -> None:
        """The program has ended with these variables; if calls are logged, its leaves are read."""
        if self._call_log is not None:
            self._call_log.note_end(namespaces)

    def check_custom_functions(self) -> None:
        """The program has ended: compare the backward of its custom functions with finite differences."""
        calls = self._forward.calls
        if calls is None or is_one_of_several_processes():
            return  # the other processes would have to take part
        for name, reason in calls.check_custom_functions().items():
            self._builder.disclose(f"the backward of {name} was not compared with finite differences: {reason}")

    def _on_backward(self, request: BackwardRequest, run: Callable[[], Any]) -> Any:
        if self._compiled.is_running:
            return run()  # the compiler differentiates what it traces; the program called nothing
        if is_tracing():
            self._builder.disclose(TRACED)
            return run()
        if is_shape_inference(request.frame):
            return run()  # by torch itself, on tensors of its own
        member = self._plan.member
        if self._goes_on_for_others:
            if member is not None and member.may_end():
                self._end_program()
            return run()
        if member is not None:
            member.before_backward()
        elif self._rank is None:
            self._rank = rank_in_group(job="")
        with self._lock:
            self.backward_calls += 1
            number = self.backward_calls
        if self._forward.replicas is not None:
            self._forward.replicas.before_backward(number, request.frame)
        if self._plan.wants(number):
            return self._run_wanted(request, number, run)
        try:
            return self._run_unwanted(request, number, run)
        finally:
            self._last_sequence_nr = peek_sequence_nr()
            self._forward.forget_what_is_old()
            self._await_forward_of(number + 1)

    def _run_wanted(self, request: BackwardRequest, number: int, run: Callable[[], Any]) -> Any:
        """Record a call, and run it."""
        self.note_memory()
        self._limit.before_backward()
        if self._plan.keeps_one:
            self._builder.forget_graphs()
        row = self._forward.note_backward(peek_sequence_nr(), request)
        with collector_paused(expected=peek_sequence_nr() - self._last_sequence_nr):
            recorded = self._record_request(request, number)
        # Only an earlier call can have freed anything: the usual first call needs no check.
        may_be_freed = number > 1 or self._plan.begins_midway
        freed_before = self._failures.freed_before(recorded) if may_be_freed else frozenset()
        try:
            result = self._measured.run(recorded, request, run)
        except Exception as error:
            self._failures.note(recorded, request, error, freed_before)
            raise
        finally:
            self._forward.end_backward(row)
            self._last_sequence_nr = peek_sequence_nr()
            index = recorded.graph_index if recorded is not None else None
            del recorded
        self._forget_redundant_graphs(index)
        calls = self._forward.calls
        self._limit.after_backward(number, has_optimizer=calls is not None and bool(calls.optimizers.all))
        if self._plan.is_last(number) or self._is_full():
            self._end_after_last_graph()
        else:
            self._await_forward_of(number + 1)
            self._keep_unfinished(is_last=False)
        return result

    def _await_forward_of(self, number: int) -> None:
        if self._plan.root or self._plan.wants(number):
            self._forward.await_forward(is_brief=self._is_brief(number))

    def note_memory(self) -> None:
        """Read the allocators, before a graph is recorded."""
        try:
            self._forward.memory.at_backward()
        except Exception as defect:
            self._builder.disclose_defect("the memory in use could not be read", defect)

    def _run_unwanted(self, request: BackwardRequest, number: int, run: Callable[[], Any]) -> Any:
        """Run a call that is not to be recorded; if it fails, it is recorded after all."""
        try:
            return run()
        except Exception as error:
            self._failures.note(self._record_request(request, number), request, error)
            raise

    def _record_request(self, request: BackwardRequest, number: int) -> Recorded | None:
        try:
            names = self._names(request.frame)
            if request.is_at_graph_break:
                names.add_namespace(written_roots(request), only_nameless=True)
            roots = [root for value in request.roots if (root := root_of(value, names.name_of(value))) is not None]
            backward = BackwardCall(number, request.function, None, request.retain_graph, request.create_graph)
            if not roots:
                self._record_refused(request, names, backward)
                return None  # torch is about to raise
            recorded = self._record_graph(roots, names, backward, request.frame)
            self._label_ends(recorded, roots, request)
            return recorded
        except Exception as error:  # must not reach the program
            what = f"could not be recorded, which is a defect of gradviz: {type(error).__name__}: {error}"
            self._builder.disclose_of_call("", f"backward {number}", what)
            return None

    def _label_ends(self, recorded: Recorded, roots: Sequence[RootTensor], request: BackwardRequest) -> None:
        """Say in the graph which tensors come from other ranks or go to them."""
        if self._forward.peers is not None:
            graphs, index = self._builder.graphs, recorded.graph_index
            graphs[index] = self._forward.peers.labelled(graphs[index], recorded.walk, roots, request.gradients)

    def _record_refused(self, request: BackwardRequest, names: NameTable, backward: BackwardCall) -> None:
        """None of its roots has a ``grad_fn``: record what else was computed since the last call."""
        refused = [RootWithoutGradFn(names.name_of(tensor), tensor) for tensor in request.roots]
        ends = unconsumed_results(names, since=self._last_sequence_nr)
        self._forget_redundant_graphs(self._record_graph(ends, names, backward, request.frame, refused).graph_index)

    def _record_graph(
        self,
        roots: list[RootTensor],
        names: NameTable,
        backward: BackwardCall | None = None,
        frame: FrameType | None = None,
        refused: Sequence[RootWithoutGradFn] = (),
    ) -> Recorded:
        call = CallAt(backward, self._forward.stacks.current(frame, [])) if backward is not None else None
        with self._plan.working("recording the graph"):
            return self._builder.add_graph(roots, names, call=call, refused=refused)

    def _forget_redundant_graphs(self, index: int | None) -> None:
        if not self._plan.calls or index is None:
            return
        try:
            for other in self._kept.add(index, self._builder.graphs[index]):
                self._builder.forget_graph(other)
        except Exception as defect:  # must not reach the program
            self._builder.disclose_defect("redundant graphs could not be left out", defect)

    def _is_full(self) -> bool:
        kept = self._builder.node_count
        if kept < self._plan.max_kept_nodes:
            return False
        self._builder.disclose(
            f"recording ended after backward {self.backward_calls}: "
            f"{len(self._builder.graphs)} graphs with {kept:,} nodes were recorded "
            f"(limit {self._plan.max_kept_nodes:,} nodes); {self._plan.remedy_when_full}"
        )
        return True

    def _end_after_last_graph(self) -> None:
        if not self._plan.keep_going:
            self._end_run()
            return
        self.stop()
        self._keep_unfinished(is_last=True)

    def _keep_unfinished(self, *, is_last: bool) -> None:
        """The program goes on after a recorded backward call: keep what there is, in case it ends suddenly."""
        spool = self._plan.spool
        if spool is not None and not is_tracing():
            keep = spool.write if is_last else spool.offer
            keep(self.unfinished_capture)

    def unfinished_capture(self) -> Capture | None:
        """What was recorded until now, while the program still runs; None if other threads add to it too often."""
        for _ in range(TRIES_BESIDE_THREADS):
            try:
                return self._capture_until_now()
            except RuntimeError:  # a dict changed while it was read
                if threading.active_count() == 1:
                    raise
        return None

    def _capture_until_now(self) -> Capture:
        calls, missing = None, []
        if self._call_log is not None:
            calls, missing = self._call_log.build(), self._call_log.disclosures()
        missing.append(
            f"what comes later: the script had not ended when this was written, after backward {self.backward_calls}"
        )
        program, arguments = self.program
        made = self._builder.unfinished_capture(program, arguments, self.backward_calls, calls, missing)
        return self._with_rank(made)

    def _end_run(self) -> None:
        """End the program, or the recording alone: other ranks of its job may need the program."""
        if self._goes_on_for_others:
            return
        self.was_stopped = True
        member = self._plan.member
        if member is not None:
            with hooks_in_use():
                self.stop()
            self._goes_on_for_others = True
            if not member.has_recorded_all():
                self._backward.start()
                return
        self._end_program()

    def _end_program(self) -> NoReturn:
        if threading.current_thread() is not threading.main_thread():
            # In other threads only this exact class ends the thread silently; the rest of the program goes on.
            raise SystemExit
        self._stopped_tasks = unfinished_tasks()
        raise StopScript

    # -- what is left at the end ---------------------------------------------------------------------------------

    def record_root(self, namespace: Mapping[str, Any]) -> None:
        """Record the graph of the expression of ``--root``, from the script's variables."""
        assert self._plan.root is not None
        roots = roots_of_expression(self._plan.root, namespace)
        names = NameTable.of([namespace])
        self.note_memory()
        self._record_graph(roots, names)

    def note_limit(self, location: tuple[str, int] | None) -> None:
        """Disclose that a limit ended the program, at this file and line."""
        if self._limit.reason is not None:
            at = f" at {line_words_of(*location)}" if location is not None else ""
            self._builder.disclose(
                f"what comes later: the script was stopped {self._limit.reason}{at} "
                "(--seconds and --steps say how far it runs)"
            )

    def note_refused_backward(self, error: BaseException, namespaces: list[Mapping[str, Any]]) -> None:
        """Disclose which root torch refused to start from, and record its graph if there is no other."""
        refused = refused_backward(error)
        if refused is None:
            return
        self._failures.has_failed = True
        names = NameTable.of(namespaces)
        self._builder.disclose(refused.words(names))
        roots = [root for tensor in refused.tensors if (root := root_of(tensor, names.name_of(tensor))) is not None]
        if roots and not self.has_graphs():
            self.note_memory()
            self._record_graph(roots, names)

    def record_unconsumed_results(self, namespaces: list[Mapping[str, Any]]) -> None:
        """If there was no backward: record the tensors with a ``grad_fn`` that no other was computed from."""
        names = NameTable.of(namespaces)
        self.note_memory()
        roots = unconsumed_results(names)
        if roots:
            self._record_graph(roots, names)

    @property
    def failed_in_backward(self) -> bool:
        """Whether a backward call of the program raised."""
        return self._failures.has_failed

    def has_graphs(self) -> bool:
        """True if at least one graph was recorded."""
        return bool(self._builder.graphs)

    @property
    def graphs(self) -> tuple[Graph, ...]:
        """The graphs that were recorded so far."""
        return tuple(self._builder.graphs.values())

    def new_builder(self) -> CaptureBuilder:
        """Builds graphs with all that was seen so far, and adds nothing to this recording."""
        return CaptureBuilder(self._facts, self._forward)

    def disclosures(self) -> tuple[str, ...]:
        """What could not be recorded, each in a sentence."""
        return self._builder.disclosures()

    def capture(
        self,
        program: str,
        arguments: tuple[str, ...],
        outcome: Any,
        error: ScriptError | None,
        left: CaptureBuilder | None = None,
    ) -> Capture:
        """Everything that was recorded; with `left`, its graphs replace those of backward calls."""
        builder = left or self._builder
        calls = self._call_log.build() if self._call_log is not None else None
        for sentence in self._call_log.disclosures() if self._call_log is not None else ():
            builder.disclose(sentence)
        return self._with_rank(builder.capture(program, arguments, outcome, error, self.backward_calls, calls))

    def _with_rank(self, capture: Capture) -> Capture:
        rank = self._rank if self._plan.member is None else self._plan.member.rank()
        if rank is None:
            return capture
        replicas, peers, optimizers = self._forward.replicas, self._forward.peers, self._forward.optimizers
        return replace(
            capture,
            rank=rank,
            replicas=None if replicas is None else replicas.log(self._builder.parameter_names()),
            optimizers=() if optimizers is None else optimizers.states(),
            traffic=() if peers is None else peers.traffic(),
            may_make_fewer_calls=is_joined(self._forward.log.modules_that_ran()),
            disclosures=(*capture.disclosures, *untried_backend(rank)),
        )

    def forget_stopped_tasks(self) -> None:
        """The program has ended: its tasks may go, and asyncio has nothing to report of those that were stopped."""
        retrieve_stops(self._stopped_tasks)
        self._stopped_tasks = []

    def release_all(self) -> None:
        """Nothing more will be asked for: drop all references to tensors of the program, also weak ones."""
        self._models = None
        self.forget_stopped_tasks()
        self._forward.release_all()


_running: Recorder | None = None


def running_recorder() -> Recorder | None:
    """The recorder that runs in this process now."""
    return _running
