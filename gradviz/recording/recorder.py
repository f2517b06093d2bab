"""Records one run: watches forward and backward, and turns every wanted backward call into a graph.

Contracts kept here: torch is put back exactly as it was found, also when the program raises; nothing of the program is
kept alive once recording ends; a failure of ours is disclosed in the capture and never reaches the program.
"""

from __future__ import annotations

import linecache
import platform
import threading
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any

import torch

from gradviz import __version__
from gradviz.capture.capture import Capture, Parameter, Program, ScriptError
from gradviz.errors import BadInput
from gradviz.graph.model import BackwardCall, Graph
from gradviz.recording import failed_node, torch_compat
from gradviz.recording.backward_watch import BackwardRequest, BackwardWatch
from gradviz.recording.compiled_code import CompiledCodeWatch
from gradviz.recording.forward_log import ThreadLog
from gradviz.recording.forward_watch import ForwardWatch
from gradviz.recording.graph_builder import CallAt, GraphBuilder
from gradviz.recording.graph_walker import Walk, walk
from gradviz.recording.names import ModuleNames, NameTable, names_on_stack, parameters_inside
from gradviz.recording.plan import RecordingPlan, StopScript
from gradviz.recording.root_expression import parse_root
from gradviz.recording.roots import RootTensor, loose_ends, root_of
from gradviz.recording.structures import named_tensors
from gradviz.recording.tensor_facts import FactsTable


class Recorder:
    """Records from `start` to `stop`; `capture` then gives what was seen."""

    def __init__(self, plan: RecordingPlan) -> None:
        self._plan = plan
        self._facts = FactsTable()
        self._forward = ForwardWatch(self._facts)
        self._compiled = CompiledCodeWatch(self._forward)
        self._backward = BackwardWatch(self._on_backward)
        self._builder = GraphBuilder(self._facts, self._forward.log, self._forward.stacks, memory=self._forward.memory)
        self._lock = threading.RLock()
        self._graphs: list[Graph] = []
        self._parameters: dict[int, Parameter] = {}
        self._disclosures: dict[str, None] = {}
        self._kept_nodes = 0
        self.backward_calls = 0
        self.failed_in_backward = False
        self.was_stopped = False
        """True once the program, or the thread of it that called backward, was told to end."""

    # -- starting and stopping -----------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to watch, on the calling thread. Raises `MissingDependency` where torch is too old for it."""
        torch_compat.check()
        self._forward.start()
        self._compiled.start()
        self._await_forward_of(1)
        if not self._plan.root:
            self._backward.start()

    def stop(self) -> None:
        """Put torch back; safe to call twice."""
        self._backward.stop()
        self._compiled.stop()
        self._forward.stop()

    # -- backward calls ------------------------------------------------------------------------------------------

    def _on_backward(self, request: BackwardRequest, run: Callable[[], Any]) -> Any:
        if self._compiled.is_running:
            return run()  # the compiler differentiates what it traces; the program called nothing
        with self._lock:
            self.backward_calls += 1
            number = self.backward_calls
        if not self._plan.wants(number):
            try:
                return self._run_unwanted(request, number, run)
            finally:
                self._await_forward_of(number + 1)
        self._note_memory()
        if self._plan.backward is not None:
            self._graphs.clear()  # of an earlier call that failed, and that the program caught
        row = self._forward.note_backward(torch_compat.peek_sequence_nr(), request)
        walked = self._record_request(request, number)
        # Only an earlier call can have freed anything: the usual first one pays nothing for this.
        freed_before = self._freed_places(walked) if number > 1 else frozenset()
        try:
            result = run()
        except Exception as error:
            self._note_failure(walked, request, error, freed_before)
            raise
        finally:
            self._forward.end_backward(row)
            del walked
        if self._plan.is_last(number) or self._is_full():
            self._end_after_last_graph()
        else:
            self._await_forward_of(number + 1)
        return result

    def _await_forward_of(self, number: int) -> None:
        if self._plan.root or self._plan.wants(number):
            self._forward.await_forward()

    def _note_memory(self) -> None:
        try:
            self._forward.memory.at_backward()
        except Exception as defect:
            self._disclose_defect("the memory in use could not be asked for", defect)

    def _run_unwanted(self, request: BackwardRequest, number: int, run: Callable[[], Any]) -> Any:
        """A call that nobody asked to record; if it fails, the crash is what people want to see."""
        try:
            return run()
        except Exception as error:
            self._note_failure(self._record_request(request, number), request, error, frozenset())
            raise

    def _record_request(self, request: BackwardRequest, number: int) -> Walk | None:
        try:
            names = names_on_stack(request.frame)
            roots = [root for value in request.roots if (root := root_of(value, names.name_of(value))) is not None]
            if not roots:
                self._disclose(
                    f"{request.function} {number} was called on a tensor that has no grad_fn: nothing that it was "
                    "computed from requires grad"
                )
                return None  # torch is about to say so itself
            backward = BackwardCall(number, request.function, None, request.retain_graph, request.create_graph)
            return self._record_graph(roots, names, backward, request.frame)
        except Exception as error:  # whatever it is, it must not reach the program
            self._disclose_defect(f"backward {number} could not be recorded", error)
            return None

    def _record_graph(
        self,
        roots: list[RootTensor],
        names: NameTable,
        backward: BackwardCall | None = None,
        frame: FrameType | None = None,
    ) -> Walk:
        walked = walk(root.grad_fn for root in roots)
        call = CallAt(backward, self._forward.stacks.current(frame, [])) if backward is not None else None
        called = self._forward.log.called_modules()
        modules = ModuleNames(called, names)
        self._graphs.append(self._builder.build(walked, roots, modules, self._log_of_graph(), call))
        self._kept_nodes += len(walked.wrappers)
        for what in torch_compat.untold(walked.wrappers[-1]):
            self._disclose(f"torch {torch.__version__} does not tell {what}")
        self._note_parameters(called, modules)
        return walked

    def _log_of_graph(self) -> ThreadLog | None:
        """The log of the thread that made the nodes: this one, or the only one that saw anything."""
        logs = self._forward.log.threads
        busy = [log for log in logs.values() if not log.is_empty]
        if len(busy) == 1:
            return busy[0]
        if len(busy) > 1:
            self._disclose(
                f"{len(busy)} threads computed forward; lines and modules are those of the thread that called "
                "backward, and may be missing or wrong for nodes that another thread made"
            )
        return logs.get(threading.get_ident())

    def _note_failure(
        self, walked: Walk | None, request: BackwardRequest, error: Exception, freed_before: frozenset[int]
    ) -> None:
        self.failed_in_backward = True
        if walked is None:
            return
        try:
            place = failed_node.find(
                walked,
                error,
                inputs=[root.grad_fn for value in request.inputs if (root := root_of(value, None)) is not None],
                freed_before=freed_before,
                retains_graph=request.retain_graph or request.create_graph,
            )
        except Exception as defect:  # the program's own error is the one to be seen
            self._disclose_defect("the node that failed could not be found", defect)
            return
        if place is not None:
            self._graphs[-1] = failed_node.marked(self._graphs[-1], place)

    def _freed_places(self, walked: Walk | None) -> frozenset[int]:
        try:
            return failed_node.freed_places(walked) if walked is not None else frozenset()
        except Exception as defect:  # whatever it is, it must not reach the program
            self._disclose_defect("what earlier calls freed could not be found out", defect)
            return frozenset()

    def _disclose_defect(self, what: str, defect: Exception) -> None:
        self._disclose(f"{what}, which is a defect of gradviz: {type(defect).__name__}: {defect}")

    def _is_full(self) -> bool:
        if self._kept_nodes < self._plan.max_kept_nodes:
            return False
        self._disclose(
            f"recording ended after backward {self.backward_calls}: "
            f"{len(self._graphs)} graphs with {self._kept_nodes:,} nodes are as many as are kept at once "
            f"(limit {self._plan.max_kept_nodes:,} nodes); --backward N picks a single one"
        )
        return True

    def _end_after_last_graph(self) -> None:
        if self._plan.keep_going:
            self.stop()
            return
        self.was_stopped = True
        if threading.current_thread() is not threading.main_thread():
            # Other threads end without a word only for this very class; the rest of the program goes on.
            raise SystemExit
        raise StopScript

    # -- what is left at the end ---------------------------------------------------------------------------------

    def record_root(self, namespace: Mapping[str, Any]) -> None:
        """Record the graph of the expression that ``--root`` names, from the script's variables."""
        expression = self._plan.root
        assert expression is not None
        value = parse_root(expression).value_in(namespace)
        tensors = list(named_tensors(value, expression))
        if not tensors:
            raise BadInput(
                f"--root {expression!r} is a {type(value).__name__}, not a tensor",
                hint="name a tensor that has a graph",
            )
        roots = [root for name, tensor in tensors if (root := root_of(tensor, name)) is not None]
        if not roots:
            raise BadInput(
                f"--root {expression!r} has no grad_fn: nothing that it was computed from requires grad, "
                "or it was computed under no_grad or detached",
                hint="name a tensor that was computed from one with requires_grad=True",
            )
        names = NameTable()
        names.add_namespace(namespace)
        self._note_memory()
        self._record_graph(roots, names)

    def record_loose_ends(self, namespaces: list[Mapping[str, Any]]) -> None:
        """Without any backward: record the tensors with a ``grad_fn`` that no other one was computed from."""
        names = NameTable()
        for namespace in namespaces:
            names.add_namespace(namespace)
        self._note_memory()
        roots = loose_ends(names)
        if roots:
            self._record_graph(roots, names)

    def has_graphs(self) -> bool:
        """True once there is something to show."""
        return bool(self._graphs)

    def _note_parameters(self, called: list[torch.nn.Module], modules: ModuleNames) -> None:
        for parameter in (parameter for module in called for parameter in parameters_inside(module)):
            self._parameters[id(parameter)] = Parameter(
                tuple(modules.parameters[id(parameter)]), self._facts.of_tensor(parameter), parameter.requires_grad
            )

    def _disclose(self, sentence: str) -> None:
        self._disclosures[sentence] = None

    def capture(self, program: str, arguments: tuple[str, ...], outcome: Any, error: ScriptError | None) -> Capture:
        """Everything that was recorded."""
        self._forward.memory.forget()
        for what, count in sorted(self._builder.unreadable.items()):
            self._disclose(f"the {what} of {count:,} {'node' if count == 1 else 'nodes'} could not be read")
        for what, count in self._forward.defects.items():
            self._disclose(f"{count:,} calls could not be noted, which is a defect of gradviz: {what}")
        if self._builder.unseen_calls:
            nodes = "1 node is" if self._builder.unseen_calls == 1 else f"{self._builder.unseen_calls:,} nodes are"
            self._disclose(
                f"the lines of {nodes} unknown: made by a thread that is not recorded, or by code below Python"
            )
        if any(node.name == "CheckpointFunctionBackward" for graph in self._graphs for node in graph.nodes):
            self._disclose(
                "what reentrant checkpoints compute is not in this graph: they compute it again inside backward, where "
                "their parameters get their gradients"
            )
        graphs = tuple(self._graphs)
        return Capture(
            program=Program(program, arguments, platform.python_version(), str(torch.__version__), __version__),
            graphs=graphs,
            parameters=tuple(self._parameters.values()),
            sources=_source_lines(graphs, error),
            error=error,
            outcome=outcome,
            backward_calls=self.backward_calls,
            disclosures=tuple(self._disclosures),
        )


def _source_lines(graphs: tuple[Graph, ...], error: ScriptError | None) -> dict[str, dict[int, str]]:
    wanted = {(site.file, site.line) for graph in graphs for site in graph.call_sites}
    if error is not None and error.call_site is not None:
        wanted.add(error.call_site)
    sources: dict[str, dict[int, str]] = {}
    for file, line in sorted(wanted):
        text = linecache.getline(file, line)
        if text:
            sources.setdefault(file, {})[line] = text.rstrip("\r\n")
    return sources
