"""The last tensor that this process sent to a single rank, or asked to receive from one.

With gloo, torch's flight recorder does not tell of these. Whoever waits for one runs no line that says for which, so
the last one is what a standstill can be told with. No part of this needs torch.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from gradviz.capture.rank_end import Collective
from gradviz.recording.ranks.code_lines import code_line


class _Call(NamedTuple):
    name: str
    peer: int
    number: int
    shape: tuple[int, ...]
    dtype: str
    file: str
    line: int


_numbers: Counter[tuple[str, int]] = Counter()
_last: list[_Call] = []
"""Empty, or the last one."""


def note_message(name: str, peer: int, shape: tuple[int, ...], dtype: str, at: tuple[str, int]) -> None:
    """A message begins, to or from `peer`."""
    _numbers[name, peer] += 1
    _last[:] = [_Call(name, peer, _numbers[name, peer], shape, dtype, *at)]


def last_message() -> Collective | None:
    """The last one; None if there was none."""
    if not _last:
        return None
    name, peer, number, shape, dtype, file, line = _last[0]
    at = code_line(file, line) if line else None
    return Collective(name, number, "p2p", (shape,), (dtype,), at, peer=peer)


def forget_messages() -> None:
    """A forked process, or the next recording, counts anew."""
    _numbers.clear()
    _last.clear()
