"""Gradients that are multiplied by ``min(1, norm / bound)``: the factor of a clip, upside down."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from math import prod

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.formulas.moments import is_turned, leaves_of_gradients
from gradviz.graph.call_log import Call

_BOTH = 2
_MIN_TIMES = 3
_MAX_CALLS = 60
_MAX_READ = 4
_EXACT = 1e-3
_VARIES = 0.01
_BOUNDS = frozenset({"clamp", "clip", "clamp_max", "clamp_min", "minimum", "maximum", "min", "max"})
_NORMS = frozenset({"norm", "vector_norm", "_foreach_norm", "sum", "dot", "inner", "vdot"})
_ONWARD = _BOUNDS | {"mul", "add", "sqrt", "stack", "to", "detach", "view", "reshape", "item", "float", "clone"}
_TURNS = frozenset({"reciprocal", "rsqrt"})


class InvertedClip(Struct, frozen=True):
    """A call that makes small gradients smaller, and leaves large ones."""

    scaled: int
    factor: int
    """The call that divides the norm by the bound, or reads it as a number."""


def inverted_clips(case: Case) -> Iterator[InvertedClip]:
    """One for each line that scales gradients so, after three backward calls or more."""
    flow, backwards = case.dataflow, case.histories.backward_calls
    if not backwards:
        return
    leaves, tried = leaves_of_gradients(case), set[tuple[int | None, int | None]]()
    found: dict[int | None, dict[int | None, InvertedClip]] = defaultdict(dict)
    numbers: dict[int | None, dict[int | None, tuple[int, int, float]]] = defaultdict(dict)
    for row in range(backwards[0] + 1, len(flow.log.calls)):
        call = flow.log.calls[row]
        name = plain_name(call.function).removeprefix("_foreach_")
        if name not in ("mul", "div") or call.kind != "operation" or call.node_count:
            continue
        backward = flow.backward_before(row)
        if (call.call_site, backward) in tried:
            continue
        single = next((each for each in flow.lists.singles(row) if _is_of_gradient(leaves, each)), None)
        if single is None:
            continue
        tried.add((call.call_site, backward))
        factors = [use for use in single.inputs if use.tensor not in leaves and prod(shape_of(flow, use.tensor)) == 1]
        if factors:
            divided = _divided(flow, leaves, factors[0].tensor, row, -1 if name == "div" else 1)
            if divided is not None:
                found[call.call_site][backward] = InvertedClip(row, divided)
        elif name == "mul" and type(number := single.scalars.get("1")) is float and number > 0:
            numbers[call.call_site][backward] = row, backward or 0, number
    read = _norms_read(flow, leaves) if any(numbers.values()) else []
    for site, samples in numbers.items():
        clip = _by_numbers(flow, read, list(samples.values()))
        if clip is not None:
            found[site] = dict.fromkeys(samples, clip)
    for clips in found.values():
        if len(clips) >= _MIN_TIMES:
            yield next(iter(clips.values()))


def _is_of_gradient(leaves: dict[int, int], call: Call) -> bool:
    return any(use.tensor in leaves for use in call.inputs)


def _divided(flow: Dataflow, leaves: dict[int, int], factor: int, before: int, sign: int) -> int | None:
    """The call that divides a norm of gradients, if a factor grows with it and is bounded; None if it falls with it."""
    waiting, signs, count = [(factor, before, sign)], set[int](), 0
    divided, is_bounded = None, False
    while waiting:
        tensor, before, sign = waiting.pop()
        made = flow.newest_producer(tensor, before)
        count += 1
        if made is None or count > _MAX_CALLS:
            continue
        call = flow.lists.single(made, tensor)
        name = plain_name(call.function)
        if name in _NORMS:
            signs |= {sign} if _is_made_of_gradients(flow, leaves, made) else {0}
        elif name == "div":
            first, second = (-sign, sign) if is_turned(call) else (sign, -sign)
            waiting += [(use.tensor, made, first if index == 0 else second) for index, use in enumerate(call.inputs)]
            divided = made
        elif name in _ONWARD or name in _TURNS:
            is_bounded |= name in _BOUNDS
            waiting += [(use.tensor, made, -sign if name in _TURNS else sign) for use in call.inputs]
        elif call.inputs:
            return None  # A constant, as of ones(), takes no part.
    return divided if signs == {1} and is_bounded else None


def _is_made_of_gradients(flow: Dataflow, leaves: dict[int, int], row: int) -> bool:
    waiting, seen = [row], set[int]()
    while waiting and len(seen) < _MAX_CALLS:
        row = waiting.pop()
        seen.add(row)
        for use in flow.log.calls[row].inputs:
            if use.tensor in leaves:
                return True
            made = flow.newest_producer(use.tensor, row)
            if made is not None and made not in seen:
                waiting.append(made)
    return False


# -- factors that are Python numbers -----------------------------------------------------------------------------------


def _norms_read(flow: Dataflow, leaves: dict[int, int]) -> list[int]:
    """The calls that read a number which was made of gradients."""
    read = [row for row, call in enumerate(flow.log.calls) if type(call.result) is float and call.inputs]
    return [row for row in read if not flow.log.calls[row].node_count and _is_made_of_gradients(flow, leaves, row)]


def _by_numbers(flow: Dataflow, read: list[int], samples: list[tuple[int, int, float]]) -> InvertedClip | None:
    """A clip whose factors below 1 are all the same share of the norm that was read last."""
    shares: list[tuple[float, float]] = []
    clip = None
    for row, backward, factor in samples:
        index = bisect_left(read, row)
        rows = read[max(0, index - _MAX_READ) : index]
        norms = [each for each in rows if each > backward]
        result = flow.log.calls[norms[-1]].result if norms else None
        if isinstance(result, float) and result > 0 and factor < 1:
            shares.append((result / factor, result))
            clip = InvertedClip(row, norms[-1])
    if len(shares) < _MIN_TIMES or clip is None:
        return None
    bounds, results = [each for each, _ in shares], [each for _, each in shares]
    is_share = max(bounds) - min(bounds) < _EXACT * max(bounds)
    return clip if is_share and max(results) - min(results) > _VARIES * max(results) else None
