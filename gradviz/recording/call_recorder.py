"""Logs every torch call of the recorded thread, with the tensors that it took and gave: see `gradviz.graph.call_log`.

Problems solved here:

* What a call changed is only known from before and after, so a row is begun before its call: versions, flags, values.
* Some calls show only in part. The results of custom functions and of compiled code are known when something else
  takes them; optimizers and ``zero_grad`` are noticed by what they read of each parameter.
* Nothing is kept alive (`known_tensors`), no ``grad_fn`` is read where that would make a wrapper of a C++ node (a deep
  graph must stay freeable), and the program's modes, graphs and random numbers see none of the reading.
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from types import CodeType, FrameType
from typing import Any, TypeVar

import torch

from gradviz.graph.call_log import CallKind
from gradviz.recording import torch_compat
from gradviz.recording.backward_watch import BackwardRequest
from gradviz.recording.call_functions import FunctionKind, FunctionTable
from gradviz.recording.call_rows import Row, Rows, RowUse
from gradviz.recording.call_values import (
    numbers_in,
    scalar_of,
    scalars_with_places,
    tensors_inside,
    tensors_with_places,
)
from gradviz.recording.grad_mode_watch import GradModeWatch
from gradviz.recording.gradients import measuring
from gradviz.recording.known_tensors import KnownTensor, KnownTensors, is_leaf, requires_grad, version_of
from gradviz.recording.names import local_variables
from gradviz.recording.numpy_arrays import NumpyArrays
from gradviz.recording.optimizers import Optimizers
from gradviz.recording.tensor_facts import FactsTable
from gradviz.recording.value_facts import ValueReader

Where = Callable[[FrameType | None], tuple[int, int]]
"""Stack and module scope of a frame of the program."""

_Note = TypeVar("_Note", bound=Callable[..., Any])
_MOST_UNCLAIMED = 1_000


def _shielded(note: _Note) -> _Note:
    """A failure of ours while the program runs is counted, and disclosed at the end; the program never sees it."""

    @wraps(note)
    def shielded(recorder: CallRecorder, *args: Any, **kwargs: Any) -> Any:
        try:
            return note(recorder, *args, **kwargs)
        except Exception as defect:
            recorder.defects[f"{type(defect).__name__}: {defect}"] += 1
            return None

    return shielded  # type: ignore[return-value]


class Pending:
    """A call that is running."""

    __slots__ = ("args", "frame", "function", "kwargs", "row", "taken")

    def __init__(
        self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], frame: FrameType, row: Row
    ) -> None:
        self.function = function
        self.args = args
        self.kwargs = kwargs
        self.frame = frame
        self.row = row
        self.taken: list[tuple[RowUse, torch.Tensor]] | None = None


class CallRecorder:
    """Fills `rows`. The watches of the recorder tell it what happens; where they are and in which module, `where`."""

    def __init__(self, facts: FactsTable, where: Where) -> None:
        self.rows = Rows()
        self.tensors = KnownTensors(facts)
        self.values = ValueReader()
        self.optimizers = Optimizers(self)
        self.defects: Counter[str] = Counter()
        self.grad_mode = GradModeWatch()
        self.arrays = NumpyArrays()
        self.backward_calls = 0
        self.name_now: Callable[[FrameType], None] = lambda frame: None
        """Told when an optimizer is made, which is when the program's names are all there."""
        self._where = where
        self._functions = FunctionTable()
        self._thread = threading.get_ident()
        self._process = os.getpid()
        self._open: list[tuple[Row, int]] = []
        """Rows whose call is running, with the id of its frame where only that tells when it is over."""
        self._backward_error: str | None = None
        self._unclaimed: dict[int, Row] = {}
        """Calls whose results are not known yet, by the sequence number of a node that they made."""

    # -- torch functions -----------------------------------------------------------------------------------------

    @_shielded
    def begin(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], frame: FrameType) -> Pending | None:
        """A torch function is about to run, called from `frame`; None where it is of no interest."""
        kind = self._functions.kind(function)
        if kind is FunctionKind.TELLS_NOTHING:
            return None
        if kind is FunctionKind.GRAD_SWITCH:
            self.grad_mode.note(args, frame)
            return None
        pending = Pending(function, args, kwargs, frame, Row(self._functions.name(function)))
        if kind is FunctionKind.GETTER:
            self.optimizers.look_at_getter(frame, args[0], pending.row.function)
        elif not self.optimizers.is_own_work(frame):
            self._take_inputs(pending)
        else:
            return None
        return pending

    def _take_inputs(self, pending: Pending) -> None:
        row = pending.row
        with torch_compat.DISABLE_TORCH_FUNCTION():
            self._note_modes(row, pending.frame)
            self._place(row, pending.frame)
            tensors = list(tensors_with_places(pending.args, pending.kwargs))
        with measuring():
            pending.taken = [(self.use(tensor, place, row, is_input=True), tensor) for place, tensor in tensors]
        row.inputs = [use for use, _ in pending.taken]

    @_shielded
    def end(self, pending: Pending, result: Any, before: int, after: int) -> None:
        """It has run, and made the nodes ``before`` to ``after - 1``."""
        if pending.taken is None:
            if not issubclass(type(result), torch.Tensor):
                return
            if pending.row.function == "torch.Tensor.grad":
                self._note_gradient(result, pending.args[0])
                return
            self._take_inputs(pending)
        row = pending.row
        if after != before:
            row.sequence_nr, row.node_count = before, after - before
        with measuring():
            self._take_outputs(pending, result)
        is_exit = self._functions.is_exit(pending.function)
        if is_exit:
            self._note_values_leaving(pending, result)
        if row.outputs or is_exit or self._functions.kind(pending.function) is FunctionKind.ALWAYS_TOLD:
            row.scalars = scalars_with_places(pending.args, pending.kwargs)
            if row.function in _TAKE_HOOKS and len(pending.args) > 1:
                row.definition = _code_of(pending.args[1])
            self._add(row)

    @_shielded
    def fail(self, pending: Pending, error: BaseException) -> None:
        """It raised."""
        if pending.taken is None:
            return
        row = pending.row
        row.raised = _first_line(error)
        row.scalars = scalars_with_places(pending.args, pending.kwargs)
        if not (row.function == "torch.Tensor.backward" and row.raised == self._backward_error):
            self._add(row)  # else the row of the backward call has told it

    def _take_outputs(self, pending: Pending, result: Any) -> None:
        row, seen = pending.row, set()
        made_nodes = row.node_count > 0
        row.reads_values = not self._functions.leaves_uninitialized(pending.function)
        for place, tensor in tensors_inside(result, "return"):
            row.outputs.append(self._given(tensor, place, row, made_nodes=made_nodes))
            seen.add(id(tensor))
        for use, tensor in pending.taken or ():
            if id(tensor) in seen:
                continue
            if version_of(tensor) != use.version or requires_grad(tensor) != use.requires_grad:
                seen.add(id(tensor))
                row.outputs.append(self._given(tensor, use.place, row, made_nodes=made_nodes))

    def _note_values_leaving(self, pending: Pending, result: Any) -> None:
        pending.row.result = scalar_of(result)
        if type(result) is list:
            pending.row.results = numbers_in(result)
        elif pending.row.result is None and pending.row.inputs:
            self.arrays.note(result, pending.row.inputs[0].known)

    def _note_gradient(self, gradient: torch.Tensor, leaf: torch.Tensor) -> None:
        with torch_compat.DISABLE_TORCH_FUNCTION():
            known = self.tensors.find(gradient) or self.tensors.add(gradient)
            if known.producer is None:
                known.gradient_of = self.tensors.find(leaf) or self.tensors.add(leaf)

    # -- tensors -------------------------------------------------------------------------------------------------

    def use(self, tensor: torch.Tensor, place: str, row: Row, *, is_input: bool) -> RowUse:
        """The tensor as it is now. To be called inside `measuring`."""
        known = self.tensors.find(tensor)
        if known is None:
            known = self.tensors.add(tensor)
            known.first_row = row
            if is_input:
                self._claim_unseen(known, tensor, row)
        flag = requires_grad(tensor)
        if flag != known.status[0]:
            known.status = flag, is_leaf(tensor, flag)
        if is_input:
            self._claim_inner(known, row)
        version = version_of(tensor)
        values = None
        if known.storage is not None and known.storage.is_uninitialized and is_input:
            return RowUse(known, place, version, None)
        if version != known.values_of_version or not is_input:
            values = self.values.facts(tensor) if row.reads_values else None
            known.values_of_version = version
        return RowUse(known, place, version, values)

    def _given(self, tensor: torch.Tensor, place: str, row: Row, *, made_nodes: bool) -> RowUse:
        is_new = self.tensors.find(tensor) is None
        use = self.use(tensor, place, row, is_input=False)
        known = use.known
        if made_nodes and use.requires_grad and known.status[1]:
            # A leaf that was changed in place by something that requires grad is none any more.
            known.status = True, is_leaf(tensor, True)
            use.is_leaf = known.status[1]
        if known.storage is not None and not use.is_leaf:
            known.storage.computed = known
        if is_new:
            known.producer = row
        if known.storage is not None:
            known.storage.is_uninitialized = not row.reads_values
        return use

    def _claim_unseen(self, known: KnownTensor, tensor: torch.Tensor, row: Row) -> None:
        """A tensor that nobody saw being made: the result of a custom function, of compiled code, or of NumPy."""
        if known.is_leaf:
            known.from_numpy_of = self.arrays.origin_of(tensor)
        elif self._unclaimed:
            # The node of such a call is a Python object anyway, or else a single one.
            node = torch_compat.grad_fn_of(tensor)
            maker = self._unclaimed.get(node._sequence_nr()) if node is not None else None
            if maker is not None and maker is not row:
                self._give_to(maker, known, "return")

    def _claim_inner(self, known: KnownTensor, row: Row) -> None:
        """A tensor that was made inside a custom function and is used outside of it was given back by it."""
        producer = known.producer
        while producer is not None and (maker := producer.inside) is not None and maker.kind == "custom":
            if maker.is_open or row.inside is maker or (row.inside is not None and row.inside.kind == "backward"):
                return
            self._give_to(maker, known, "return")
            producer = maker

    def _give_to(self, maker: Row, known: KnownTensor, place: str) -> None:
        if not any(use.known is known for use in maker.outputs):
            maker.outputs.append(RowUse(known, place, 0, None))
        known.producer = maker

    # -- rows ----------------------------------------------------------------------------------------------------

    def _place(self, row: Row, frame: FrameType | None) -> None:
        row.stack, row.scope = self._where(frame)
        row.inside = self._enclosing(frame)

    def _note_modes(self, row: Row, frame: FrameType | None) -> None:
        if torch.is_inference_mode_enabled():
            row.grad_mode = "inference"
        elif not torch.is_grad_enabled():
            row.grad_mode = "no_grad"
        if row.grad_mode != "enabled":
            row.grad_mode_place = self.grad_mode.place(frame, is_inference=row.grad_mode == "inference")
        row.is_autocast = torch_compat.is_any_autocast_enabled()

    def _enclosing(self, frame: FrameType | None) -> Row | None:
        """The innermost running call that has a row; custom functions that are over are forgotten."""
        while self._open:
            row, frame_id = self._open[-1]
            if not frame_id or _is_on_stack(frame_id, frame):
                return row
            row.is_open = False
            self._open.pop()
        return None

    def _add(self, row: Row) -> None:
        if self.rows.is_full:
            self.rows.drop_some(self.tensors.living())
        self.rows.add(row)

    def new_row(self, function: str, kind: CallKind, frame: FrameType | None) -> Row:
        """A row for something other than a torch function, at the end of the log."""
        row = Row(function, kind)
        with torch_compat.DISABLE_TORCH_FUNCTION():
            self._note_modes(row, frame)
            self._place(row, frame)
        self._add(row)
        return row

    def open(self, row: Row, frame_id: int = 0) -> None:
        """What follows happens inside of it."""
        row.is_open = True
        self._open.append((row, frame_id))

    def close(self, row: Row) -> None:
        """It is over, and whatever began inside of it."""
        while any(other is row for other, _ in self._open):
            self._open.pop()[0].is_open = False

    @contextmanager
    def shield(self) -> Iterator[None]:
        """A failure of ours inside is counted, as in the methods that are called from outside."""
        try:
            yield
        except Exception as defect:
            self.defects[f"{type(defect).__name__}: {defect}"] += 1

    def is_elsewhere(self) -> bool:
        """True on threads and in processes that are not recorded."""
        return threading.get_ident() != self._thread or os.getpid() != self._process

    # -- custom functions, compiled code, backward ---------------------------------------------------------------

    @_shielded
    def note_custom_function(self, frame: FrameType) -> None:
        """`frame` is that of ``Function.apply``, which is about to make its node."""
        if self.is_elsewhere():
            return
        variables = local_variables(frame)
        name = getattr(variables.get("cls"), "__qualname__", "Function").rpartition("<locals>.")[2]
        row = self.new_row(f"{name}.apply", "custom", frame)
        row.definition = _code_of(getattr(variables.get("cls"), "backward", None))
        row.sequence_nr, row.node_count = torch_compat.peek_sequence_nr(), 1
        self.await_results(row)
        self._note_arguments(row, variables.get("args", ()), variables.get("kwargs", {}))
        self.open(row, id(frame))

    def _note_arguments(self, row: Row, args: Any, kwargs: Any) -> None:
        with measuring():
            row.inputs = [
                self.use(tensor, place, row, is_input=True) for place, tensor in tensors_with_places(args, kwargs)
            ]
        row.scalars = scalars_with_places(args, kwargs)

    def await_results(self, row: Row) -> None:
        """Its results will be known by the nodes that it made."""
        for number in range(row.sequence_nr or 0, (row.sequence_nr or 0) + min(row.node_count, _MOST_UNCLAIMED)):
            self._unclaimed[number] = row
        while len(self._unclaimed) > _MOST_UNCLAIMED:
            del self._unclaimed[next(iter(self._unclaimed))]

    @_shielded
    def begin_compiled(self, frame: FrameType | None, function: str) -> Row | None:
        """Compiled code is about to run, called from torch's wrapper in `frame`."""
        if self.is_elsewhere():
            return None
        row = self.new_row(function, "compiled", frame)
        variables = local_variables(frame) if frame is not None else {}
        self._note_arguments(row, variables.get("args", ()), variables.get("kwargs", {}))
        row.sequence_nr = torch_compat.peek_sequence_nr()
        return row

    @_shielded
    def end_compiled(self, row: Row) -> None:
        """It has run."""
        made = torch_compat.peek_sequence_nr() - (row.sequence_nr or 0)
        if made > 0:
            row.node_count = made
            self.await_results(row)
        else:
            row.sequence_nr = None

    def run_backward(self, request: BackwardRequest, run: Callable[[], Any]) -> Any:
        """Run a call of ``backward`` or ``grad`` with a row of its own: gives what it gives, raises what it raises."""
        row = self._begin_backward(request)
        if row is None:
            return run()
        try:
            result = run()
        except BaseException as error:
            self._backward_error = row.raised = _first_line(error)
            raise
        else:
            self._take_results(row, result)
        finally:
            self.close(row)
        return result

    @_shielded
    def _begin_backward(self, request: BackwardRequest) -> Row | None:
        if self.is_elsewhere():
            return None
        self.backward_calls += 1
        row = self.new_row(f"torch.autograd.{request.function}", "backward", request.frame)
        row.name = str(self.backward_calls)
        row.scalars = {"retain_graph": request.retain_graph, "create_graph": request.create_graph}
        with measuring():
            for what, tensors in (("root", request.roots), ("gradient", request.gradients), ("input", request.inputs)):
                for place, tensor in tensors_inside(tensors, what):
                    row.inputs.append(self.use(tensor, place, row, is_input=True))
        self.open(row)
        return row

    @_shielded
    def _take_results(self, row: Row, result: Any) -> None:
        with measuring():
            for place, tensor in tensors_inside(result, "return"):
                row.outputs.append(self._given(tensor, place, row, made_nodes=False))

    def disclosures(self) -> list[str]:
        """What is missing in the log, in sentences."""
        told = [
            f"{count:,} calls could not be logged, a defect of gradviz: {what}" for what, count in self.defects.items()
        ]
        if self.values.too_large:
            told.append(f"the values of {self.values.too_large:,} tensors were not looked at: they are too large")
        if self.rows.dropped:
            told.append(
                f"{self.rows.dropped:,} calls of earlier steps were forgotten; of {self.rows.dropped_needed:,} of them "
                "something was still in use"
            )
        return told


_TAKE_HOOKS = frozenset({"torch.Tensor.register_hook", "torch.Tensor.register_post_accumulate_grad_hook"})


def _code_of(function: Any) -> CodeType | None:
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    return code if isinstance(code, CodeType) else None


def _is_on_stack(frame_id: int, frame: FrameType | None) -> bool:
    while frame is not None:
        if id(frame) == frame_id:
            return True
        frame = frame.f_back
    return False


def _first_line(error: BaseException) -> str:
    lines = str(error).splitlines() or [""]
    return f"{type(error).__name__}: {lines[0][:300]}".removesuffix(": ")
