"""How gradients changed during training: a run log as one series of figures for each parameter or module."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import hypot, isnan, nan, sqrt

from gradviz.analysis.flow.gradient_flow import FlowRow, GradientFlow, flow_of_rows, module_at
from gradviz.capture.run_log import RunLog, StepFigures, floats, integers


@dataclass(frozen=True)
class Series:
    """The gradient of one parameter, or of all parameters of a module together, step by step.

    All its sequences have one entry for each measured step.
    """

    name: str
    parameters: int
    """The number of its parameters."""
    count: int
    """The number of their elements."""
    norms: tuple[float, ...]
    """L2 norm of the finite elements; NaN if no gradient arrived or none could be measured."""
    sizes: tuple[float, ...]
    """Root mean square of the finite elements, which does not grow with the parameter; NaN if there is no norm."""
    zeros: tuple[float, ...]
    """Share of the elements that are exactly zero; NaN if there is no norm."""
    broken: tuple[bool, ...]
    """Whether NaN or Inf was among the elements."""

    @property
    def first_broken(self) -> int | None:
        """Index of the first step with NaN or Inf."""
        return next((index for index, is_broken in enumerate(self.broken) if is_broken), None)

    @property
    def dead_since(self) -> int | None:
        """Index of the step since which every element has been zero until the end."""
        dead = len(self.zeros)
        while dead and self.zeros[dead - 1] == 1.0:
            dead -= 1
        return dead if dead < len(self.zeros) else None

    @property
    def is_silent(self) -> bool:
        """True if no gradient ever arrived."""
        return all(map(isnan, self.norms)) and not any(self.broken)


@dataclass(frozen=True)
class FlowOverSteps:
    """The figures of a whole run."""

    steps: tuple[int, ...]
    """The numbers of the measured steps."""
    series: tuple[Series, ...]
    """In the order of the model."""
    total: tuple[float, ...]
    """L2 norm over all parameters, of the finite elements."""


def flow_over_steps(log: RunLog, depth: int | None = None) -> FlowOverSteps:
    """Series for each parameter, or for modules `depth` levels below the outermost one."""
    parameters = log.header.parameters
    rows = [_Rows.of(figures, len(parameters)) for figures in log.steps]
    groups = list(_groups([parameter.name for parameter in parameters], depth))
    counts = [parameter.count for parameter in parameters]
    return FlowOverSteps(
        tuple(figures.step for figures in log.steps),
        tuple(_series(name, indices, counts, rows) for name, indices in groups),
        tuple(_hypot(row.norms) for row in rows),
    )


def depth_that_fits(log: RunLog, most: int) -> int | None:
    """The depth at which there are at most `most` series; None if all parameters fit."""
    names = [parameter.name for parameter in log.header.parameters]
    if len(names) <= most:
        return None
    deepest = max(name.count(".") for name in names)
    return next((depth for depth in range(deepest, 0, -1) if len(list(_groups(names, depth))) <= most), 0)


def flow_of_last_step(log: RunLog) -> GradientFlow:
    """The last measured step, in the form of the flow of a backward call.

    A run log does not contain the order of arrival, so the order of the model is used instead.
    """
    figures, parameters = log.steps[-1], log.header.parameters
    row = _Rows.of(figures, len(parameters))
    weights = floats(figures.weight_norms)
    reasons = {index: reason for reason, indices in figures.unmeasured.items() for index in indices}
    rows = []
    for index, parameter in enumerate(parameters):
        has_arrived = not isnan(row.norms[index]) or row.is_broken(index)
        if not has_arrived:
            reason = reasons.get(index)
            nothing = "none arrived in this step" if reason is None else f"not measured: {reason}"
            rows.append(FlowRow(parameter.name, parameter.shape, nothing=nothing))
            continue
        rows.append(
            FlowRow(
                parameter.name,
                parameter.shape,
                count=parameter.count,
                norm=None if isnan(row.norms[index]) else row.norms[index],
                weight_norm=None if isnan(weights[index]) else weights[index],
                zeros=row.zeros[index],
                nans=row.nans[index],
                infs=row.infs[index],
                order=len(parameters) - index,
            )
        )
    return flow_of_rows(rows)


@dataclass(frozen=True)
class _Rows:
    """The figures of one step as numbers."""

    norms: Sequence[float]
    zeros: Sequence[int]
    nans: Sequence[int]
    infs: Sequence[int]

    @classmethod
    def of(cls, figures: StepFigures, length: int) -> _Rows:
        counts = (integers(row, length) for row in (figures.zeros, figures.nans, figures.infs))
        return cls(floats(figures.norms), *counts)

    def is_broken(self, index: int) -> bool:
        return bool(self.nans[index] or self.infs[index])


def _groups(names: Sequence[str], depth: int | None) -> Iterator[tuple[str, list[int]]]:
    """The name of each series with the indices of its parameters, grouped as `folded` groups a table's rows."""
    if depth is None:
        yield from ((name, [index]) for index, name in enumerate(names))
        return
    for module, inside in groupby(range(len(names)), lambda index: module_at(names[index], depth)):
        indices = list(inside)
        if module and len(indices) > 1:
            yield module, indices
        else:
            yield from ((names[index], [index]) for index in indices)


def _series(name: str, indices: list[int], counts: Sequence[int], rows: Sequence[_Rows]) -> Series:
    norms = tuple(_hypot(row.norms[index] for index in indices) for row in rows)
    arrived = [
        sum(counts[index] for index in indices if not isnan(row.norms[index]) or row.is_broken(index)) for row in rows
    ]
    broken = [sum(row.nans[index] + row.infs[index] for index in indices) for row in rows]
    zeros = [sum(row.zeros[index] for index in indices) for row in rows]
    finite = [count - lost for count, lost in zip(arrived, broken, strict=True)]
    return Series(
        name,
        len(indices),
        sum(counts[index] for index in indices),
        norms,
        tuple(norm / sqrt(count) if count else nan for norm, count in zip(norms, finite, strict=True)),
        tuple(zero / count if count else nan for zero, count in zip(zeros, arrived, strict=True)),
        tuple(map(bool, broken)),
    )


def _hypot(norms: Iterable[float]) -> float:
    known = [norm for norm in norms if not isnan(norm)]
    return hypot(*known) if known else nan
