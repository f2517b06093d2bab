"""The collectives that this process has called, as torch's flight recorder has seen them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

from gradviz.capture.rank_end import CodeLine, Collective, Traffic
from gradviz.recording.ranks.standstill import innermost_line, is_in_engine

MAX_COLLECTIVES = 64
MAX_LINES = 8
_SIZES = {
    "Double": 8, "Long": 8, "Float": 4, "Int": 4, "Half": 2, "BFloat16": 2, "Short": 2, "Char": 1, "Byte": 1, "Bool": 1,
    "ComplexFloat": 8, "ComplexDouble": 16,
}  # fmt: skip
"""Bytes of an element; of all that begins with Float8 one."""


class CollectivesCalled(NamedTuple):
    """The last ones, how many there were, and what each line gave to them."""

    last: tuple[Collective, ...] = ()
    made: int = 0
    traffic: tuple[Traffic, ...] = ()


def collectives_called() -> CollectivesCalled:
    """What is known now."""
    if "torch" not in sys.modules:
        return CollectivesCalled()
    from gradviz.recording.torch_access.distributed.flight_recorder import entries

    found = [_collective(entry) for entry in entries()]
    return CollectivesCalled(tuple(found[-MAX_COLLECTIVES:]), len(found), _traffic(found))


def bytes_called_since(moment: float) -> list[int]:
    """What this process gave to each collective that it called since then, by the clock of `time`; in order."""
    from gradviz.recording.torch_access.distributed.flight_recorder import entries

    found = map(_collective, entries(with_stacks=False))
    return [_bytes(each) for each in found if each.called >= moment]


def _collective(entry: dict[str, Any]) -> Collective:
    frames = [(each["filename"], each["line"], each["name"]) for each in entry.get("frames", ())]
    group = entry.get("process_group") or ("",)
    return Collective(
        name=str(entry["profiling_name"]).rpartition(":")[2],
        number=int(entry["p2p_seq_id"] if entry.get("is_p2p") else entry["collective_seq_id"]),
        group=f"{group[0]}{' p2p' if entry.get('is_p2p') else ''}",
        shapes=tuple(tuple(shape) for shape in entry["input_sizes"]),
        dtypes=tuple(str(each) for each in entry.get("input_dtypes", ())),
        at=innermost_line(frames),
        is_in_backward=is_in_engine(frames),
        is_over=bool(entry.get("retired")),
        called=max(0, entry.get("time_created_ns") or 0) / 1e9,
    )


def _traffic(calls: Sequence[Collective]) -> tuple[Traffic, ...]:
    found: dict[tuple[str, CodeLine | None, bool], tuple[int, int]] = {}
    for each in calls:
        key = each.name, each.at, each.is_in_backward
        count, size = found.get(key, (0, 0))
        found[key] = count + 1, size + _bytes(each)
    made = (Traffic(name, count, size, at, inside) for (name, at, inside), (count, size) in found.items())
    return tuple(sorted(made, key=lambda each: -each.bytes)[:MAX_LINES])


def _bytes(call: Collective) -> int:
    return sum(
        prod(size for size in shape if isinstance(size, int)) * _size(dtype)
        for shape, dtype in zip(call.shapes, call.dtypes, strict=False)
    )


def _size(dtype: str) -> int:
    return 1 if dtype.startswith("Float8") else _SIZES.get(dtype, 0)
