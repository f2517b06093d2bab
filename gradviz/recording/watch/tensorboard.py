"""Writes figures of a run as scalars for TensorBoard, with torch's own writer."""

from __future__ import annotations

from math import hypot, isnan
from pathlib import Path
from typing import Any

from gradviz.capture.run_log import RunEnd, RunHeader, RunLog, StepFigures, floats, integers
from gradviz.errors import BadInput, MissingDependency


class TensorBoardSink:
    """Writes an event file in `folder`, which is made if it does not exist.

    Raises:
        MissingDependency: the package ``tensorboard`` is not installed.
        BadInput: the folder cannot be written to.
    """

    def __init__(self, folder: Path, header: RunHeader) -> None:
        self._folder = folder
        self._header = header
        self._writer: Any = _summary_writer(folder)

    def __str__(self) -> str:
        return str(self._folder)

    def add(self, figures: StepFigures) -> None:
        """Write one step: norms, shares of zeros, and norms over those of the weights, by parameter."""
        parameters = self._header.parameters
        norms, weights = floats(figures.norms), floats(figures.weight_norms)
        zeros = integers(figures.zeros, len(parameters))
        arrived = [index for index, norm in enumerate(norms) if not isnan(norm)]
        if arrived:
            self._add("gradient norm/all", hypot(*(norms[index] for index in arrived)), figures.step)
        for index in arrived:
            parameter, norm = parameters[index], norms[index]
            self._add(f"gradient norm/{parameter.name}", norm, figures.step)
            self._add(f"gradient zeros/{parameter.name}", zeros[index] / max(parameter.count, 1), figures.step)
            if weights[index] > 0:
                self._add(f"gradient over weight/{parameter.name}", norm / weights[index], figures.step)

    def close(self, end: RunEnd) -> None:
        """Write what is buffered, and close the file."""
        self._writer.close()

    def _add(self, tag: str, value: float, step: int) -> None:
        self._writer.add_scalar(tag, value, step)


def export_to_tensorboard(log: RunLog, folder: Path) -> None:
    """Write every step of a run log as events in `folder`."""
    sink = TensorBoardSink(folder, log.header)
    try:
        for figures in log.steps:
            sink.add(figures)
    finally:
        sink.close(RunEnd(0))


def _summary_writer(folder: Path) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise MissingDependency(
            f"TensorBoard cannot be written: {error}", hint="pip install tensorboard, beside torch"
        ) from error
    try:
        return SummaryWriter(str(folder))
    except OSError as error:
        raise BadInput(f"cannot write to the folder {str(folder)!r}: {error.strerror or error}") from error
