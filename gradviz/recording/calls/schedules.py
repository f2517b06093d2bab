"""Notes torch's schedules of learning rates, and whether anything steps them.

Their ``step()`` is not replaced, because it warns at the line that called it. Instead their counts are read at each
step of an optimizer, and when the program ends. Only the numbers that a schedule waits on for a plateau are read in it.
"""

from __future__ import annotations

import ast
import math
import weakref
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, Literal, NamedTuple

import torch

from gradviz.graph.modules_and_schedules import NAMED_LIKE_A_SCHEDULE
from gradviz.recording.calls.row_writer import CallWriter
from gradviz.recording.calls.rows import Row
from gradviz.recording.forward.numbers_in_functions import held_counts
from gradviz.recording.run.line_attribution import calling_frame
from gradviz.recording.run.parsed_files import nodes_of
from gradviz.recording.torch_access.patches import Replacement
from gradviz.recording.torch_access.tensors import DISABLE_TORCH_FUNCTION

_MAX_SCHEDULES = 1_000
_MAX_READINGS = 200
_MAX_FRACTIONS = 8
_MAX_MILESTONES = 100
_LENGTHS = ("total_steps", "T_max", "total_iters")
"""Attributes of schedules that are made for a number of steps."""


class _Used(NamedTuple):
    """A look right after a step of its optimizer."""

    steps: int
    counts: tuple[object, ...]
    made: float
    """The learning rate that the schedule had made."""
    rate: float
    """That which the step used."""


@dataclass(eq=False)
class KnownSchedule:
    """A schedule that the program made."""

    weak: weakref.ref[Any]
    class_name: str
    optimizer: Any
    """What is known of its optimizer."""
    stack: int
    rates: tuple[float | None, float | None] = (None, None)
    """Of the first group: the learning rate that its factors multiply, and the one that it began with."""
    first_count: tuple[object, ...] | None = None
    """At the first step of an optimizer: one schedule inside another is reset when the outer one is made."""
    last_move: tuple[tuple[object, ...], int] | None = None
    """Its counts after it moved last, and how many steps its optimizer had made then."""
    highest_rate: float | None = None
    """The highest learning rate that it made so far of the one that its factors multiply."""
    peak_rate: float | None = None
    """The same, once another one followed that was not higher."""
    replaced: tuple[float, float] | None = None
    """A learning rate of a step that something else had set, and what it put in its place: the first, of those that
    were set for the fewest moves in a row."""
    replaced_after: int = 0
    """For how many of its moves in a row something else had set the rate by then."""
    looks: int = 0
    has_moved: bool = False
    idle_moves: int = 0
    is_alive: bool = False
    length: int | None = None
    held_counts: tuple[int, ...] = ()
    """Whole numbers in the functions that compute its factors."""
    factors: tuple[float | None, float | None] = (None, None)
    """The first and the last of one that goes from one factor to another."""
    milestones: tuple[int, ...] = ()
    """The steps at which one multiplies the rate with `gamma`."""
    gamma: float | None = None
    steps_before: int = 0
    """Of its optimizer, when it was made."""
    optimizer_steps: int = 0
    """Of its optimizer since then, when it was looked at last."""
    mode: Literal["min", "max"] | None = None
    _used: _Used | None = None
    _set_for: int = 0
    """For how many of its last moves in a row something else had set the rate."""
    readings: list[tuple[int, float]] = field(default_factory=list)
    """What a schedule that waits for a plateau was told, with the lines that told it."""
    fractions: list[float] = field(default_factory=list)
    """The first counts of its steps that were no whole numbers: its ``step()`` was told them."""

    @property
    def moves(self) -> int | None:
        """How often it moved; None if its counts are no whole numbers."""
        first, last = (counts[0] if counts else 0 for counts in (self.first_count, (self.last_move or (None, 0))[0]))
        return last - first if type(first) is int and type(last) is int and last >= first else None

    @property
    def begins_at(self) -> int | None:
        """Its count at the first look; None if that is no whole number."""
        first = self.first_count[0] if self.first_count else None
        return first if type(first) is int and first >= 0 else None

    def look(self) -> bool:
        """Compare its counts with the first ones; False once it is gone."""
        schedule = self.weak()
        if schedule is None:
            return False
        known = vars(schedule)
        count = known.get("last_epoch"), known.get("_step_count")
        if self.first_count is None:
            self.first_count = count
        self.has_moved = self.has_moved or count != self.first_count
        steps = self.optimizer.turns.steps
        if self.last_move is None or count != self.last_move[0]:
            self.idle_moves += self.last_move is not None and steps == self.last_move[1]
            self.last_move = count, steps
            self._note_fraction(count[0])
            self._note_rate(_number_in(known.get("_last_lr")))
        self.optimizer_steps = steps - self.steps_before
        made, rates = _number_in(known.get("_last_lr")), self.optimizer.learning_rates
        if made is not None and rates and rates[0] is not None:
            self._note_use(_Used(steps, count, made, rates[0]))
        return True

    def _note_use(self, now: _Used) -> None:
        """Compare the learning rate of a step with its own, and with that of the step before."""
        before = self._used
        if before is not None and now.steps == before.steps:
            return  # Another optimizer has stepped.
        self._used = now
        if before is None or now.counts == before.counts:
            return
        self._set_for = self._set_for + 1 if before.rate != before.made else 0
        is_first = self.replaced is None or self._set_for < self.replaced_after
        if not self._set_for or now.rate != now.made or not is_first:
            return
        # Most schedules go on from the rate that they find.
        if _distance(now.rate, before.made) < _distance(now.rate, before.rate):
            self.replaced, self.replaced_after = (before.rate, now.rate), self._set_for

    def _note_fraction(self, count: object) -> None:
        if len(self.fractions) >= _MAX_FRACTIONS or not isinstance(count, float | torch.Tensor):
            return
        with DISABLE_TORCH_FUNCTION():
            number = float(count) if isinstance(count, float) or count.numel() == 1 else math.nan
        if math.isfinite(number) and number != int(number):
            self.fractions.append(number)

    def _note_rate(self, rate: float | None) -> None:
        """What it made of the learning rate at its latest move."""
        if rate is None:
            return
        if self.highest_rate is None or rate > self.highest_rate:
            self.highest_rate, self.peak_rate = rate, None
        else:
            self.peak_rate = self.highest_rate


class Schedules:
    """Replaces the constructors of schedules between `start` and `stop`."""

    def __init__(self, writer: CallWriter, find_optimizer: Callable[[Any], Any]) -> None:
        self._writer = writer
        self._find_optimizer = find_optimizer
        self._replacements = [
            Replacement("torch.optim.lr_scheduler.LRScheduler.__init__"),
            Replacement("torch.optim.lr_scheduler.ReduceLROnPlateau.__init__"),
        ]
        self._replaced_step = Replacement("torch.optim.lr_scheduler.ReduceLROnPlateau.step")
        self.all: list[KnownSchedule] = []
        self._alive: list[KnownSchedule] = []

    def start(self) -> None:
        """Begin to note."""
        for each in self._replacements:
            each.put(self._noting)
        self._replaced_step.put(self._noting_readings)

    def stop(self) -> None:
        """Put the constructors back; safe to call twice."""
        for each in (*self._replacements, self._replaced_step):
            each.take_back()

    def at_step(self) -> None:
        """An optimizer has stepped."""
        if self._alive:
            self._alive = [each for each in self._alive if each.look()]
            for each in self._alive:
                each.looks += 1

    def at_end(self) -> None:
        """The program has ended: look at those that are still alive."""
        for each in self._alive:
            each.is_alive = each.look()

    def _noting(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
            original(self, *args, **kwargs)
            note(self)

        note = self._note
        return __init__

    def _note(self, schedule: Any) -> None:
        writer = self._writer
        if writer.is_elsewhere() or len(self.all) >= _MAX_SCHEDULES:
            return
        with writer.shield():
            optimizer = vars(schedule).get("optimizer")
            if optimizer is not None:
                row = writer.locate(Row("torch.optim.lr_scheduler"), calling_frame())
                rates = _number_in(vars(schedule).get("base_lrs")), _number_in(vars(schedule).get("_last_lr"))
                known = KnownSchedule(
                    weakref.ref(schedule), type(schedule).__name__, self._find_optimizer(optimizer), row.stack, rates
                )
                known.length = _length_of(schedule)
                known.held_counts = held_counts(vars(schedule).get("lr_lambdas"))
                known.factors = _factor_in(schedule, "start_factor"), _factor_in(schedule, "end_factor")
                known.milestones, known.gamma = _milestones_of(schedule), _factor_in(schedule, "gamma")
                known.steps_before = known.optimizer.turns.steps
                known.mode = _mode_of(schedule)
                self.all.append(known)
                self._alive.append(known)

    def _noting_readings(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def step(self: Any, metrics: Any, *args: Any, **kwargs: Any) -> Any:
            result = original(self, metrics, *args, **kwargs)
            note(self, metrics)
            return result

        note = self._note_reading
        return step

    def _note_reading(self, schedule: Any, reading: Any) -> None:
        writer = self._writer
        known = next((each for each in self._alive if each.weak() is schedule), None)
        if known is None or writer.is_elsewhere() or len(known.readings) >= _MAX_READINGS:
            return
        with writer.shield(), DISABLE_TORCH_FUNCTION():
            number = float(reading.detach() if issubclass(type(reading), torch.Tensor) else reading)
            if math.isfinite(number):
                row = writer.locate(Row("torch.optim.lr_scheduler"), calling_frame())
                known.readings.append((row.stack, number))


def _length_of(schedule: Any) -> int | None:
    """The number of steps that it was made for."""
    known = (vars(schedule).get(name) for name in _LENGTHS)
    return next((each for each in known if type(each) is int and each > 0), None)


def _milestones_of(schedule: Any) -> tuple[int, ...]:
    """The steps at which it multiplies the rate, or the first of them where all their multiples follow."""
    known = vars(schedule)
    if type(schedule) is torch.optim.lr_scheduler.ExponentialLR:
        return (1,)
    counts = known.get("milestones") or [known.get("step_size")]
    whole = [each for each in counts if type(each) is int and each > 0]
    return tuple(sorted(whole)[-_MAX_MILESTONES:]) if len(whole) == len(counts) else ()


def _factor_in(schedule: Any, name: str) -> float | None:
    return _number_in([vars(schedule).get(name)])


def _mode_of(schedule: Any) -> Literal["min", "max"] | None:
    """What a schedule that waits for a plateau takes for better."""
    mode = vars(schedule).get("mode") if "patience" in vars(schedule) else None
    return "min" if mode == "min" else "max" if mode == "max" else None


def _distance(rate: float, other: float) -> float:
    """How many times larger one of two learning rates is, as a logarithm."""
    return abs(math.log(rate / other)) if rate > 0 and other > 0 else math.inf


def _number_in(rates: object) -> float | None:
    """The first of a list of learning rates, if it is a number."""
    first = rates[0] if isinstance(rates, list) and rates else None
    return float(first) if isinstance(first, int | float) and math.isfinite(first) else None


def is_stepped_in_source(file: str, line: int, own_files: Iterable[str]) -> bool:
    """Whether some line calls ``step()`` of a schedule that was made on this one, or of something named like one."""
    held = _names_assigned_at(file, line)
    return any(name in held or NAMED_LIKE_A_SCHEDULE.search(name) for each in own_files for name in _stepped_in(each))


def _stepped_in(file: str) -> Iterator[str]:
    for node in nodes_of(file) or ():
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "step":
            yield _last_name(node.func.value)


def _names_assigned_at(file: str, line: int) -> frozenset[str]:
    targets = (
        target
        for node in nodes_of(file) or ()
        if isinstance(node, ast.Assign) and node.lineno <= line <= (node.end_lineno or node.lineno)
        for target in node.targets
    )
    return frozenset(name for target in targets if (name := _last_name(target)))


def _last_name(node: ast.expr) -> str:
    """``scheduler`` for ``self.scheduler`` and ``scheduler[0]``."""
    while isinstance(node, (ast.Subscript, ast.Call)):
        node = node.value if isinstance(node, ast.Subscript) else node.func
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
