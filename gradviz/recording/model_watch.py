"""Measures, now and then, the gradients of a model that trains: a hook on every parameter, and nothing else in torch.

Problems solved here:

* Between two measured steps a hook does no more than compare a number.
* Figures stay on their device until a later step, so that the program does not wait for it.
* A gradient is measured while its parameter gets it: other hooks may take it away before backward ends.
* Nothing of the program is kept alive: hooks belong to the parameters, and end with them.
* A failure of ours, a full disk for instance, is told and never reaches the program.
"""

from __future__ import annotations

import atexit
import os
import warnings
import weakref
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import nan
from pathlib import Path
from threading import RLock
from typing import Any, Protocol

import torch

from gradviz.capture.run_log import (
    RunEnd,
    RunHeader,
    StepFigures,
    WatchedParameter,
    packed_floats,
    packed_integers,
)
from gradviz.capture.run_log_file import RunLogWriter
from gradviz.errors import BadInput
from gradviz.graph.gradients import TensorFigures
from gradviz.recording import torch_compat
from gradviz.recording.call_counter import CallCounter
from gradviz.recording.gradient_meter import GradientMeter
from gradviz.recording.gradients import measuring
from gradviz.recording.installed_versions import program_of
from gradviz.recording.notebook_cells import program_name
from gradviz.recording.tensor_facts import FactsTable


class Sink(Protocol):
    """Where figures go: a run log, TensorBoard."""

    def add(self, figures: StepFigures) -> None:
        """Take one step."""

    def close(self, end: RunEnd) -> None:
        """Take the end."""


@dataclass
class _MeasuredStep:
    """One step whose figures may still be on their device."""

    step: int
    scale: float
    meter: GradientMeter = field(default_factory=lambda: GradientMeter(FactsTable()))
    gradients: dict[int, int] = field(default_factory=dict)
    """Number of the gradient in the meter, by place of the parameter."""
    weights: dict[int, int] = field(default_factory=dict)
    taken_away: list[int] = field(default_factory=list)

    def take(self, place: int, parameter: torch.Tensor) -> None:
        """Measure the parameter and the gradient that it has now."""
        gradient = parameter.grad
        if gradient is None:
            self.taken_away.append(place)
            return
        self.gradients[place] = self.meter.take(gradient)
        weight = self.meter.take_norm(parameter)
        if weight is not None:
            self.weights[place] = weight

    def figures(self, parameters: int) -> StepFigures:
        """Everything that was measured. Waits for the devices."""
        with measuring():
            facts = self.meter.facts()
        found = [facts[self.gradients[place]] if place in self.gradients else None for place in range(parameters)]
        weights = [facts[self.weights[place]].norm if place in self.weights else None for place in range(parameters)]
        unmeasured: dict[str, list[int]] = {}
        if self.taken_away:
            unmeasured["a hook had taken it away"] = self.taken_away
        for place, gradient in enumerate(found):
            if gradient is not None and gradient.unmeasured is not None:
                unmeasured.setdefault(gradient.unmeasured, []).append(place)
        return StepFigures(
            self.step,
            packed_floats([_norm(gradient, self.scale) for gradient in found]),
            packed_floats([nan if norm is None else norm for norm in weights]),
            packed_integers([gradient.zeros if gradient is not None else 0 for gradient in found]),
            packed_integers([gradient.nans if gradient is not None else 0 for gradient in found]),
            packed_integers([gradient.infs if gradient is not None else 0 for gradient in found]),
            {reason: tuple(places) for reason, places in unmeasured.items()},
        )


class ModelWatch:
    """Watches from the moment it is made until `close`, or until the interpreter ends."""

    def __init__(self, header: RunHeader, parameters: Sequence[torch.Tensor], sinks: Sequence[Sink], scaler: Any):
        self._header = header
        self._sinks = list(sinks)
        self._scaler = scaler
        self._counter = CallCounter(len(parameters))
        self._reads_late = any(not parameter.is_cpu for parameter in parameters)
        self._measured: _MeasuredStep | None = None
        """The step that runs, where it is measured."""
        self._unread: _MeasuredStep | None = None
        self._defects: Counter[str] = Counter()
        self._lock = RLock()
        self._process = os.getpid()
        self._parameters = [weakref.ref(parameter) for parameter in parameters]
        self._handles = [
            parameter.register_post_accumulate_grad_hook(partial(self._on_gradient, place))  # type: ignore[no-untyped-call]
            for place, parameter in enumerate(parameters)
        ]
        _watches.append(self)
        atexit.register(self.close)

    @property
    def step(self) -> int:
        """Backward calls that reached a parameter so far."""
        return self._counter.calls

    def close(self) -> None:
        """Write what is left, and take the hooks off; safe to call twice."""
        if self not in _watches or os.getpid() != self._process:
            return
        _watches.remove(self)
        atexit.unregister(self.close)
        for handle in self._handles:
            handle.remove()
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

    def watches_any_of(self, parameters: Sequence[torch.Tensor]) -> bool:
        """Whether one of these is watched already."""
        watched = {id(parameter) for reference in self._parameters if (parameter := reference()) is not None}
        return any(id(parameter) in watched for parameter in parameters)

    def writes_to(self, path: Path) -> bool:
        """Whether the run log at `path` is this one's."""
        return any(isinstance(sink, RunLogWriter) and sink.path == path for sink in self._sinks)

    def _on_gradient(self, place: int, parameter: torch.Tensor) -> None:
        try:
            if self._counter.is_new_call(place):
                self._begin_step()
            measured = self._measured
            if measured is not None:
                with measuring():
                    measured.take(place, parameter)
        except Exception as defect:  # whatever it is, it must not reach the program
            self._defects[f"{type(defect).__name__}: {defect}"] += 1

    def _begin_step(self) -> None:
        if os.getpid() != self._process:
            return  # a forked child: the file is its parent's
        with self._lock:
            step = self._counter.calls
            is_measured = (step == 1 or step % self._header.every == 0) and self._is_measurable()
            if self._measured is not None:
                self._unread, self._measured = self._measured, None
            if is_measured or not self._reads_late:
                self._read()
            if is_measured and self._sinks:
                scale = float(self._scaler.get_scale()) if self._scaler is not None else 1.0
                self._measured = _MeasuredStep(step, scale)

    def _is_measurable(self) -> bool:
        obstacle = torch_compat.why_backward_cannot_be_measured()
        if obstacle is not None:
            self._defects[obstacle] += 1
        return obstacle is None

    def _read(self) -> None:
        """Hand the figures of an earlier step on."""
        unread, self._unread = self._unread, None
        if unread is None:
            return
        figures = unread.figures(len(self._parameters))
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


_watches: list[ModelWatch] = []
"""Those that watch now."""


@dataclass(frozen=True)
class WatchPlan:
    """What is asked for."""

    path: Path
    every: int
    scaler: Any
    tensorboard: Path | None
    file: str
    """That of the code which asks."""


def begin_watch(model: Any, plan: WatchPlan) -> ModelWatch | None:
    """Put the hooks on; None in every process but the first of a distributed training.

    Raises:
        BadInput: there is nothing to watch, or it is watched already; another watch writes that run log; or the
            folder for TensorBoard cannot be written.
        MissingDependency: TensorBoard is asked for and not installed.
    """
    training, frozen = _watchable(model)
    if plan.scaler is not None and not hasattr(plan.scaler, "get_scale"):
        raise BadInput(
            f"scaler= takes a torch.amp.GradScaler, not an object of type {type(plan.scaler).__name__}",
            hint="leave it out where the loss is not scaled",
        )
    if not _is_first_process():
        return None
    if any(watch.writes_to(plan.path) for watch in _watches):
        raise BadInput(
            f"another watch writes {plan.path.name} already", hint="give this one a file of its own: to='other.gradviz'"
        )
    header = _header(plan, training, frozen)
    sinks: list[Sink] = [RunLogWriter(plan.path, header)]
    if plan.tensorboard is not None:
        from gradviz.recording.tensorboard import TensorBoardSink

        sinks.append(TensorBoardSink(plan.tensorboard, header))
    return ModelWatch(header, [parameter for _, parameter in training], sinks, plan.scaler)


def _watchable(model: Any) -> tuple[list[tuple[str, torch.Tensor]], tuple[str, ...]]:
    """Names and tensors of what trains, and the names of what does not."""
    if not isinstance(model, torch.nn.Module):
        raise BadInput(
            f"watch() takes a model, not an object of type {type(model).__name__}", hint="pass the torch.nn.Module"
        )
    kind = type(model).__name__
    named: list[tuple[str, torch.Tensor]] = list(_unwrapped(model).named_parameters())
    if any(torch.nn.parameter.is_lazy(parameter) for _, parameter in named):
        raise BadInput(f"this {kind} has lazy parameters, which are not there yet", hint="run its forward once before")
    training = [(name, parameter) for name, parameter in named if parameter.requires_grad]
    if not training:
        what = "no parameter that requires a gradient" if named else "no parameters"
        raise BadInput(f"this {kind} has {what}: there is nothing to watch", hint="watch the model that trains")
    if any(watch.watches_any_of([parameter for _, parameter in training]) for watch in _watches):
        raise BadInput(f"this {kind}, or a part of it, is watched already", hint="close() the other watch first")
    return training, tuple(name for name, parameter in named if not parameter.requires_grad)


def _unwrapped(model: torch.nn.Module) -> torch.nn.Module:
    """The user's own module: wrappers of torch put a word in front of every name."""
    inner = getattr(model, "_orig_mod", None)
    if isinstance(model, (torch.nn.parallel.DistributedDataParallel, torch.nn.DataParallel)):
        inner = model.module
    return _unwrapped(inner) if isinstance(inner, torch.nn.Module) else model


def _is_first_process() -> bool:
    distributed = torch.distributed
    return not (distributed.is_available() and distributed.is_initialized()) or distributed.get_rank() == 0


def _header(plan: WatchPlan, training: Sequence[tuple[str, torch.Tensor]], frozen: tuple[str, ...]) -> RunHeader:
    facts = FactsTable()
    parameters = []
    for name, parameter in training:
        tensor = facts.of_tensor(parameter)
        shape = tuple(size for size in tensor.shape if isinstance(size, int))
        parameters.append(WatchedParameter(name, shape, tensor.dtype))
    program = program_of(program_name(plan.file))
    return RunHeader(program, tuple(parameters), plan.every, frozen, plan.scaler is not None)


def _norm(gradient: TensorFigures | None, scale: float) -> float:
    if gradient is None or gradient.norm is None:
        return nan
    return gradient.norm / scale
