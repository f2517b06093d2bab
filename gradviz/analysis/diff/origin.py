"""Where two runs begin to differ, in forward order.

Each pair of operations that belong together is looked at once, in the order of the first run. Where their results
differ, the cause is sought in what went in: other random numbers, other arguments, an operand of another value or from
another operation. If all operands are the same, the operation itself computes something else. If the operands that
differ come from pairs that were looked at already, the difference is inherited, and this is not its origin.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from msgspec.structs import replace

from gradviz.analysis.diff.alignment import Alignment
from gradviz.analysis.diff.closeness import SAME, Apart, Tolerance, apart, worst
from gradviz.analysis.diff.difference import Cause, GrowthPoint, Origin
from gradviz.analysis.diff.runs import Operand, Operation, Run
from gradviz.analysis.diff.settings import reasons_for, settings_that_differ
from gradviz.analysis.diff.wording import (
    are_of_one_form,
    arguments_words,
    changed_arguments,
    different_operands,
    line_taken,
    where,
)
from gradviz.graph.number_words import counted

_ADDS_UP = frozenset(
    [
        "sum",
        "mean",
        "matmul",
        "mm",
        "bmm",
        "linear",
        "addmm",
        "baddbmm",
        "conv1d",
        "conv2d",
        "conv3d",
        "conv_transpose1d",
        "conv_transpose2d",
        "softmax",
        "log_softmax",
        "logsumexp",
        "layer_norm",
        "batch_norm",
        "group_norm",
        "instance_norm",
        "rms_norm",
        "norm",
        "std",
        "var",
        "einsum",
        "dot",
        "index_add",
        "index_add_",
        "scatter_add",
        "scatter_add_",
        "scatter_reduce",
        "index_put_",
        "index_put",
        "cumsum",
        "prod",
        "cross_entropy",
        "mse_loss",
        "scaled_dot_product_attention",
        "multi_head_attention_forward",
        "lstm",
        "gru",
        "rnn_tanh",
        "embedding_bag",
        "trace",
        "bincount",
        "adaptive_avg_pool2d",
        "avg_pool2d",
        "bilinear",
        "cdist",
        "nll_loss",
        "interpolate",
    ]
)


@dataclass
class Forward:
    """What the comparison of the forward found."""

    first: Origin | None = None
    rounding: Origin | None = None
    results: dict[int, Apart] = field(default_factory=dict)
    """For each pair, by the operation of the first run, how far apart its results are."""
    crossing: int | None = None
    """The first operation with a difference beyond the tolerance that came of rounding alone."""
    has_unknown: bool = False
    effective: set[int] = field(default_factory=set)
    """Operations of the first run, in pairs, that are origins of a difference of values."""


class ForwardComparison:
    """Compares the pairs of one alignment."""

    def __init__(self, a: Run, b: Run, alignment: Alignment, tolerance: Tolerance) -> None:
        self._a, self._b = a, b
        self._alignment = alignment
        self._tolerance = tolerance
        self._last_draws = _DrawsBefore(a), _DrawsBefore(b)
        self._settings = settings_that_differ(a.capture.settings, b.capture.settings)
        self._knows_settings = a.capture.settings is not None and b.capture.settings is not None
        self.found = Forward()

    def run(self) -> Forward:
        """Look at all pairs."""
        for index, other in sorted(self._alignment.to_b.items()):
            self._look_at(self._a.operations[index], self._b.operations[other])
        return self.found

    def _look_at(self, one: Operation, other: Operation) -> None:
        found = self.found
        result = self._results_apart(one, other)
        found.results[one.index] = result
        if result.level == "unknown" and one.results:
            found.has_unknown = True
        drew_otherwise = _drew_otherwise(one, other)
        if not result.differs and not (drew_otherwise and not one.results):
            return
        origin = self._origin(one, other, result, drew_otherwise=drew_otherwise)
        if origin is not None:
            found.effective.add(one.index)
            self._note(origin)
        elif result.level == "different" and found.crossing is None and found.first is None:
            found.crossing = one.index

    def _note(self, origin: Origin) -> None:
        found = self.found
        if origin.cause == "rounding":
            if found.rounding is None and found.first is None:
                found.rounding = origin
        elif found.first is None and found.crossing is None:
            found.first = origin
        elif found.first is not None and _is_repeated(found.first, origin):
            found.first = replace(found.first, repetitions=found.first.repetitions + 1)

    def _results_apart(self, one: Operation, other: Operation) -> Apart:
        if len(one.results) != len(other.results):
            return Apart("different")
        return worst([apart(x, y, self._tolerance) for x, y in zip(one.results, other.results, strict=True)])

    # -- causes ----------------------------------------------------------------------------------------------------

    def _origin(self, one: Operation, other: Operation, result: Apart, *, drew_otherwise: bool) -> Origin | None:
        if drew_otherwise:
            return self._random_origin(one, other, result)
        if (one.kind == "compiled") != (other.kind == "compiled"):
            return self._origin_in_compiled_code(one, other, result)
        pairs = list(_operand_pairs(one, other))
        differing = [(x, y, far) for x, y in pairs if (far := apart(x, y, self._tolerance)).differs]
        for x, y, _ in differing:
            elsewhere = self._from_elsewhere(one, other, x, y)
            if elsewhere is not None:
                return _with_distance(elsewhere, result)
        if len(differing) > 1 and _are_the_same_in_another_order(one, other):
            what = f"{one.word} takes the same tensors in another order"
            return self._at("wiring", what, one, other, result.distance, "reduced in another order")
        is_inherited = any(x.source is not None or y.source is not None for x, y, _ in differing)
        own = self._own_cause(one, other, result, is_inherited=is_inherited)
        if own is not None:
            return own
        for x, y, far in differing:
            if x.source is None and y.source is None:
                return self._input_origin(one, other, x, y, far, result)
        return None if differing else self._computed_origin(one, other, result)

    def _origin_in_compiled_code(self, one: Operation, other: Operation, result: Apart) -> Origin | None:
        """The other run has several operations instead, of which only the last is looked at."""
        compiled, counterpart = (one, self._alignment.to_b) if one.kind == "compiled" else (other, self._alignment.to_a)
        for operand in compiled.operands:
            source = operand.source
            if source is not None and compiled is other:
                source = counterpart.get(source)
            if source is not None and self.found.results.get(source, SAME).differs:
                return None
        name = "A" if compiled is one else "B"
        inside = (self._alignment.compiled_b if compiled is one else self._alignment.compiled_a).get(
            (other if compiled is one else one).index, []
        )
        replaced = counted(len(inside) + 1, "operation")
        what = f"the compiled code of {name} gives another result than the {replaced} in its place, for the same inputs"
        if result.level == "rounding":
            what = f"the compiled code of {name} rounds otherwise than the {replaced} in its place"
        cause: Cause = "rounding" if result.level == "rounding" else "values"
        return self._at(cause, what, one, other, result.distance, self._reason(compiled, result))

    def _own_cause(self, one: Operation, other: Operation, result: Apart, *, is_inherited: bool) -> Origin | None:
        """The operation, its arguments or its operands changed in number."""
        cause: Cause
        if are_of_one_form(one, other):
            return None
        if one.word != other.word:
            cause, what = "operation", f"{one.word} in A, {other.word} in B"
        elif changed := changed_arguments(one, other):
            cause, what = "arguments", f"{one.word}: {arguments_words(changed)}"
        elif len(one.operands) != len(other.operands):
            cause, what = "operation", f"{one.word} takes {len(one.operands)} tensors in A, {len(other.operands)} in B"
        elif _result_dtypes(one) != _result_dtypes(other) and not is_inherited:
            dtypes = f"{' and '.join(_result_dtypes(one))} in A, {' and '.join(_result_dtypes(other))} in B"
            where_from = "; only one of them runs under autocast" if one.is_autocast != other.is_autocast else ""
            cause, what = "arguments", f"{one.word}: another dtype: {dtypes}{where_from}"
        else:
            return None
        reason = "another dtype" if "dtype" in what else None
        return self._at(cause, what, one, other, result.distance, reason)

    def _from_elsewhere(self, one: Operation, other: Operation, x: Operand, y: Operand) -> Origin | None:
        """The operands come from operations that do not belong together."""
        if x.source is not None and self._alignment.to_b.get(x.source) == y.source:
            return None
        only_a = self._unmatched_before(self._a, x.source, self._alignment.to_b)
        only_b = self._unmatched_before(self._b, y.source, self._alignment.to_a)
        if only_b is not None:
            return self._only("only_b", only_b, one, other)
        if only_a is not None:
            return self._only("only_a", only_a, one, other)
        if x.source is None and y.source is None:
            return None
        return Origin(
            "wiring",
            different_operands(self._a, self._b, one, x, y),
            replace(where(self._a, one), takes_from=line_taken(self._a, x)),
            replace(where(self._b, other), takes_from=line_taken(self._b, y)),
        )

    def _unmatched_before(self, run: Run, source: int | None, matched: dict[int, int]) -> int | None:
        """The first of the unmatched operations that a value went through last."""
        if source is None or source in matched:
            return None
        seen, waiting = {source}, [source]
        while waiting:
            for operand in run.operations[waiting.pop()].operands:
                before = operand.source
                if before is not None and before not in matched and before not in seen:
                    seen.add(before)
                    waiting.append(before)
        return min(seen)

    def _only(self, cause: Cause, index: int, one: Operation, other: Operation) -> Origin:
        run = self._b if cause == "only_b" else self._a
        operation = run.operations[index]
        name = "B" if cause == "only_b" else "A"
        taker = other if cause == "only_b" else one
        at_taker = run.line_words(taker)
        taken = f"; {taker.word}{f' at {at_taker}' if at_taker else ''} takes what came of it"
        what = f"only {name} has {operation.word}{taken}"
        location = where(run, operation)
        return Origin(cause, what, None if cause == "only_b" else location, location if cause == "only_b" else None)

    def _input_origin(
        self, one: Operation, other: Operation, x: Operand, y: Operand, far: Apart, result: Apart
    ) -> Origin:
        kind = "the parameter" if x.is_parameter else "the input"
        names = f"{x.leaf}" if x.leaf == y.leaf else f"{x.leaf} (A) or {y.leaf} (B)"
        what = f"{kind} {names} has other values when {one.word} takes it"
        cause: Cause = "rounding" if far.level == "rounding" and result.level == "rounding" else "input"
        return self._at(cause, what, one, other, far.distance, None)

    def _computed_origin(self, one: Operation, other: Operation, result: Apart) -> Origin:
        reason = self._reason(one, result)
        if result.level == "rounding":
            what = f"{one.word} rounds the same numbers differently"
            return self._at("rounding", what, one, other, result.distance, reason)
        what = f"{one.word} gives another result for the same inputs"
        return self._at("values", what, one, other, result.distance, reason)

    def _reason(self, operation: Operation, result: Apart) -> str | None:
        if operation.kind == "compiled":
            return "compiled code may fuse and reorder operations"
        settings = "; ".join(reasons_for(operation, self._settings))
        if operation.word not in _ADDS_UP:
            return settings or None
        if result.level == "rounding":
            if self._knows_settings and not settings:
                settings = "settings that are recorded are the same; threads may take turns, or another kernel ran"
            return f"reduced in another order ({settings or 'another number of threads, another kernel, or TF32'})"
        return settings or None

    def _random_origin(self, one: Operation, other: Operation, result: Apart) -> Origin:
        before_a, before_b = (
            draws.before(each.index) for draws, each in zip(self._last_draws, (one, other), strict=True)
        )
        only_b = before_b if before_b is not None and before_b not in self._alignment.to_a else None
        only_a = before_a if before_a is not None and before_a not in self._alignment.to_b else None
        if only_b is not None:
            return self._drew_only("only_b", only_b)
        if only_a is not None:
            return self._drew_only("only_a", only_a)
        assert one.draw is not None and other.draw is not None
        if one.draw.before == other.draw.before:
            reason = "it drew another number of them from the same state of the generator"
        elif before_a is None and before_b is None:
            reason = (
                "the generator was in another state before the first draw: seeded differently, or not seeded; "
                "begin both with torch.manual_seed(0)"
            )
        else:
            reason = (
                "the generator was in another state: seeded again, or drawn from outside of torch calls, in between"
            )
        what = f"{one.word} draws other random numbers"
        return self._at("random", what, one, other, result.distance, reason)

    def _drew_only(self, cause: Cause, index: int) -> Origin:
        run, name = (self._b, "B") if cause == "only_b" else (self._a, "A")
        operation = run.operations[index]
        what = f"only {name} has {operation.word}, which draws random numbers: later draws give other ones"
        location = where(run, operation)
        return Origin(cause, what, None if cause == "only_b" else location, location if cause == "only_b" else None)

    def _at(
        self, cause: Cause, what: str, one: Operation, other: Operation, far: float | None, reason: str | None
    ) -> Origin:
        return Origin(cause, what, where(self._a, one), where(self._b, other), far, reason)


def _is_repeated(first: Origin, later: Origin) -> bool:
    def lines(origin: Origin) -> list[tuple[str, str | None, int | None]]:
        return [(each.operation, each.file, each.line) for each in (origin.a, origin.b) if each is not None]

    return first.cause == later.cause and lines(first) == lines(later)


class _DrawsBefore:
    """For each operation, the draw before it from any generator."""

    def __init__(self, run: Run) -> None:
        self._before: list[int | None] = []
        last = None
        for operation in run.operations:
            self._before.append(last)
            if operation.draw is not None:
                last = operation.index

    def before(self, index: int) -> int | None:
        """The operation that drew last before this one."""
        return self._before[index]


def _drew_otherwise(one: Operation, other: Operation) -> bool:
    if one.draw is None or other.draw is None:
        return False
    return (one.draw.before, one.draw.after) != (other.draw.before, other.draw.after)


def _operand_pairs(one: Operation, other: Operation) -> Iterator[tuple[Operand, Operand]]:
    """The operands that belong together: by position, if both have the same positions."""
    by_position = {operand.position: operand for operand in other.operands}
    if {operand.position for operand in one.operands} == set(by_position) and len(by_position) == len(other.operands):
        yield from ((operand, by_position[operand.position]) for operand in one.operands)
    else:
        yield from zip(one.operands, other.operands, strict=False)


def _are_the_same_in_another_order(one: Operation, other: Operation) -> bool:
    checksums = [sorted(map(_checksum, each.operands)) for each in (one, other)]
    return checksums[0] == checksums[1] and -1 not in checksums[0]


def _checksum(operand: Operand) -> int:
    """-1 if it is unknown."""
    fingerprint = None if operand.figures is None else operand.figures.fingerprint
    return -1 if fingerprint is None else fingerprint.checksum


def _result_dtypes(operation: Operation) -> list[str]:
    return [result.facts.dtype for result in operation.results if result.facts is not None]


def _with_distance(origin: Origin, result: Apart) -> Origin:
    return replace(origin, distance=result.distance)


def growth(a: Run, alignment: Alignment, forward: Forward, *, points: int = 8) -> tuple[GrowthPoint, ...]:
    """How the difference grows over the operations: each that is at least twice as far apart as all before it."""
    found: list[GrowthPoint] = []
    largest = 0.0
    for index in sorted(alignment.to_b):
        result = forward.results.get(index, SAME)
        far = result.distance or 0.0
        if result.differs and far >= 2 * largest and far > 0:
            largest = far
            operation = a.operations[index]
            found.append(GrowthPoint(index, operation.word, a.line_words(operation), far, result.level == "different"))
    if len(found) <= points:
        return tuple(found)
    crossing = next((i for i, point in enumerate(found) if point.is_beyond), len(found) - 1)
    step = (len(found) - 1) / (points - 1)
    kept = sorted({round(step * i) for i in range(points)} | {crossing})
    return tuple(found[i] for i in kept)
