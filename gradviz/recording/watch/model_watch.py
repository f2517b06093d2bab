"""Measures the gradients of a model at some steps of its training, with a hook on every parameter.

Problems solved here:

* Between two measured steps a hook only compares a number.
* Figures stay on their device until a later step, so that the program does not wait for it.
* A gradient is measured when its parameter gets it: other hooks may remove it before backward ends.
* Nothing of the program is kept alive: hooks belong to the parameters, and end with them.
* A failure of gradviz, a full disk for instance, is disclosed and never reaches the program.
"""

from __future__ import annotations

import atexit
import os
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from threading import RLock
from typing import Any, Protocol

import torch

from gradviz.capture.run_log import RunEnd, RunHeader, StepFigures, WatchedParameter
from gradviz.capture.run_log_file import RunLogWriter
from gradviz.errors import BadInput
from gradviz.graph.number_words import counted
from gradviz.recording.backward.gradients.gradient_watch import measuring
from gradviz.recording.ranks.rank_facts import rank_in_environment
from gradviz.recording.run.notebook_cells import program_name
from gradviz.recording.torch_access.engine import why_backward_cannot_be_measured
from gradviz.recording.torch_access.modules import compiled_from
from gradviz.recording.torch_access.tensor_facts import FactsTable
from gradviz.recording.walk.capture_builder import program_of
from gradviz.recording.watch.measured_step import MeasuredStep
from gradviz.recording.watch.watched_parameters import CallCounter, WatchedParameters

_RANK = "%r"
"""What stands in a name for the number of the rank."""


class Sink(Protocol):
    """A destination of figures: a run log, TensorBoard."""

    def add(self, figures: StepFigures) -> None:
        """Write the figures of one step."""

    def close(self, end: RunEnd) -> None:
        """Write how the run ended."""


class ModelWatch:
    """Watches from `start` until `close`, or until the interpreter ends."""

    def __init__(self, header: RunHeader, watched: WatchedParameters, sinks: Sequence[Sink], scaler: Any):
        self._header = header
        self._watched = watched
        self._sinks = list(sinks)
        self._scaler = scaler
        self._counter = CallCounter(len(watched))
        self._reads_late = False
        """True if figures may still be on a device when a step ends."""
        self._measured: MeasuredStep | None = None
        """The step that runs, if it is measured."""
        self._unread: MeasuredStep | None = None
        self._defects: Counter[str] = Counter()
        self._lock = RLock()
        self._process = os.getpid()

    def start(self, training: Mapping[str, torch.Tensor]) -> None:
        """Put the hooks on."""
        self._reads_late = any(not parameter.is_cpu for parameter in training.values())
        self._watched.start(training, self._on_gradient)
        _watches.append(self)
        atexit.register(self.close)

    @property
    def step(self) -> int:
        """Backward calls so far that reached a parameter."""
        return self._counter.calls

    def close(self) -> None:
        """Write what is left, and remove the hooks; safe to call twice."""
        if self not in _watches or os.getpid() != self._process:
            return
        _watches.remove(self)
        atexit.unregister(self.close)
        self._watched.stop()
        with self._lock:
            self._unread = self._measured or self._unread
            self._measured = None
            self._read()
            end = RunEnd(self.step, tuple(self._disclosures()))
            for sink in self._sinks:
                try:
                    sink.close(end)
                except OSError as error:
                    self._give_up(sink, error)
            self._sinks = []

    def watches_any_of(self, parameters: Iterable[torch.Tensor]) -> bool:
        """Whether one of these is watched already."""
        return self._watched.has_any_of(parameters)

    def writes_to(self, path: Path) -> bool:
        """Whether the run log at `path` is written by this watch."""
        logs = [sink.path for sink in self._sinks if isinstance(sink, RunLogWriter)]
        return any(log.resolve() == path.resolve() for log in logs)

    def _on_gradient(self, index: int, parameter: torch.Tensor) -> None:
        try:
            if self._counter.is_new_call(index):
                self._begin_step()
            measured = self._measured
            if measured is not None:
                with measuring():
                    measured.take(index, parameter)
        except Exception as defect:  # must not reach the program
            self._defects[f"{type(defect).__name__}: {defect}"] += 1

    def _begin_step(self) -> None:
        if os.getpid() != self._process:
            return  # a forked child: the file belongs to its parent
        with self._lock:
            step = self._counter.calls
            is_measured = (step == 1 or step % self._header.every == 0) and self._is_measurable()
            if self._measured is not None:
                self._unread, self._measured = self._measured, None
            if is_measured or not self._reads_late:
                self._read()
            if is_measured and self._sinks:
                scale = float(self._scaler.get_scale()) if self._scaler is not None else 1.0
                self._measured = MeasuredStep(step, scale)

    def _is_measurable(self) -> bool:
        obstacle = why_backward_cannot_be_measured()
        if obstacle is not None:
            self._defects[obstacle] += 1
        return obstacle is None

    def _read(self) -> None:
        """Pass the figures of an earlier step to the sinks."""
        unread, self._unread = self._unread, None
        if unread is None:
            return
        figures = unread.figures(len(self._watched))
        for sink in list(self._sinks):
            try:
                sink.add(figures)
            except OSError as error:
                self._sinks.remove(sink)
                self._give_up(sink, error)

    def _give_up(self, sink: Sink, error: OSError) -> None:
        message = f"gradviz.watch: {sink} could not be written, and gets no more: {error.strerror or error}"
        self._defects[message] += 1
        warnings.warn(message, RuntimeWarning, stacklevel=2)

    def _disclosures(self) -> Iterator[str]:
        for reason, count in self._defects.items():
            yield f"{count:,} times something could not be measured: {reason}"
        if replaced := self._watched.replaced():
            names = f"{replaced[0]} and {counted(len(replaced) - 1, 'other')}" if replaced[1:] else replaced[0]
            yield (
                f"gradients that {names} got at the end were not measured: the model holds other parameters "
                "there than when watching began, as after a conversion that swaps them"
            )


_watches: list[ModelWatch] = []
"""The running watches."""


@dataclass(frozen=True)
class WatchPlan:
    """What to measure, and where to write it."""

    path: Path
    every: int
    scaler: Any
    tensorboard: Path | None
    file: str
    """The file of the calling code."""
    is_of_each_rank: bool = False
    """Whether every process of a distributed training writes a file of its own."""

    def __post_init__(self) -> None:
        if type(self.every) is not int or not 1 <= self.every < 1 << 63:
            raise BadInput(
                f"every={self.every!r} is not a number of steps from 1 on",
                hint="every=100 measures each hundredth step",
            )

    def of_this_rank(self) -> WatchPlan:
        """The same with the number of this rank for ``%r`` in the names; other ranks write other files then."""
        if _RANK not in self.path.name:
            return self
        rank = str(_own_rank())
        folder = self.tensorboard
        if folder is not None:
            folder = folder.with_name(folder.name.replace(_RANK, rank)) if _RANK in folder.name else folder / rank
        path = self.path.with_name(self.path.name.replace(_RANK, rank))
        return replace(self, path=path, tensorboard=folder, is_of_each_rank=True)


def begin_watch(model: Any, plan: WatchPlan) -> ModelWatch | None:
    """Put the hooks on; None in every process but the first of a distributed training.

    Raises:
        BadInput: there is nothing to watch, or it is watched already; another watch writes that run log; or the folder
            for TensorBoard cannot be written.
        MissingDependency: TensorBoard is asked for and not installed.
    """
    training, frozen = _watchable(model)
    if plan.scaler is not None and not hasattr(plan.scaler, "get_scale"):
        raise BadInput(
            f"scaler= takes a torch.amp.GradScaler, not an object of type {type(plan.scaler).__name__}",
            hint="leave it out where the loss is not scaled",
        )
    if not (plan.is_of_each_rank or _is_first_process()):
        return None
    if any(watch.writes_to(plan.path) for watch in _watches):
        raise BadInput(
            f"another watch writes {plan.path.name} already", hint="give this one another file: to='other.gradviz'"
        )
    header = _header(plan, training, frozen)
    watched = WatchedParameters(_unwrapped(model), training)
    sinks: list[Sink] = [RunLogWriter(plan.path, header)]
    if plan.tensorboard is not None:
        from gradviz.recording.watch.tensorboard import TensorBoardSink

        sinks.append(TensorBoardSink(plan.tensorboard, header))
    watch = ModelWatch(header, watched, sinks, plan.scaler)
    watch.start(training)
    return watch


def _watchable(model: Any) -> tuple[dict[str, torch.Tensor], tuple[str, ...]]:
    """Names and tensors of what trains, and the names of what does not."""
    if not isinstance(model, torch.nn.Module):
        raise BadInput(
            f"watch() takes a model, not an object of type {type(model).__name__}", hint="pass the torch.nn.Module"
        )
    kind = type(model).__name__
    named: list[tuple[str, torch.Tensor]] = list(_unwrapped(model).named_parameters())
    if any(torch.nn.parameter.is_lazy(parameter) for _, parameter in named):
        raise BadInput(f"this {kind} has lazy parameters, which are not there yet", hint="run its forward once before")
    training = {name: parameter for name, parameter in named if parameter.requires_grad}
    if not training:
        what = "no parameter that requires a gradient" if named else "no parameters"
        raise BadInput(f"this {kind} has {what}: there is nothing to watch", hint="watch the model that trains")
    if any(watch.watches_any_of(training.values()) for watch in _watches):
        raise BadInput(f"this {kind}, or a part of it, is watched already", hint="close() the other watch first")
    return training, tuple(name for name, parameter in named if not parameter.requires_grad)


def _unwrapped(model: torch.nn.Module) -> torch.nn.Module:
    """The user's own module: torch's wrappers add a prefix to every name."""
    inner = compiled_from(model)
    if isinstance(model, (torch.nn.parallel.DistributedDataParallel, torch.nn.DataParallel)):
        inner = model.module
    return _unwrapped(inner) if isinstance(inner, torch.nn.Module) else model


def _is_first_process() -> bool:
    distributed = torch.distributed
    return not (distributed.is_available() and distributed.is_initialized()) or distributed.get_rank() == 0


def _own_rank() -> int:
    """As the process group says, or else as a launcher has set the environment; 0 without either."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank()
    rank = rank_in_environment("")
    return 0 if rank is None else rank.number


def _header(plan: WatchPlan, training: Mapping[str, torch.Tensor], frozen: tuple[str, ...]) -> RunHeader:
    facts = FactsTable()
    parameters = []
    for name, parameter in training.items():
        tensor = facts.of_tensor(parameter)
        shape = tuple(size for size in tensor.shape if isinstance(size, int))
        parameters.append(WatchedParameter(name, shape, tensor.dtype))
    program = program_of(program_name(plan.file))
    return RunHeader(program, tuple(parameters), plan.every, frozen, plan.scaler is not None)
