"""Compares what was observed of two runs, and says in a line each what differs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from tests.harmless import forked_programs
from tests.prepared import forks, programs

MAX_PEAK_MEMORY = 96 * 2**20
"""Bytes that a recorded run may have in use at once beyond those of the plain one, for gradviz itself."""
MAX_BYTES_A_NODE = 2048
"""The same for each node that is recorded: its place in the graph, and in the file that is written."""

_OURS_ON_STDOUT = ("wrote ", "next:  ", "       gradviz ", "left ")
_FORKED_BY = tuple(module.__file__ for module in (forks, programs, forked_programs))
_NO_GRAPH = (2, 0)
"""Exit codes, recorded and plain, where the script ends well without any graph to record."""


@dataclass(frozen=True)
class Difference:
    """One thing that was not the same."""

    place: str
    plain: str
    recorded: str

    def __str__(self) -> str:
        return f"{self.place}\n      plain:    {self.plain}\n      recorded: {self.recorded}"


def differences(plain: Mapping[str, Any], recorded: Mapping[str, Any]) -> list[Difference]:
    """All of them, the plainest first."""
    if not all(run[moment] for run in (plain, recorded) for moment in ("end", "exit")):
        ends = [f"exit code {run['exit code']}, {run['stderr'][-800:]!r}" for run in (plain, recorded)]
        return [Difference("a run ended before it could be looked at", *ends)]
    return [
        *_of_output(plain, recorded),
        *of_calls(plain, recorded),
        *_of_memory(plain, recorded),
        *of_facts(plain, recorded),
    ]


def _of_output(plain: Mapping[str, Any], recorded: Mapping[str, Any]) -> Iterator[Difference]:
    codes = recorded["exit code"], plain["exit code"]
    if codes[0] != codes[1] and codes != _NO_GRAPH:
        yield Difference("exit code", str(codes[1]), str(codes[0]))
    lines = [line for line in recorded["stdout"].splitlines() if not line.startswith(_OURS_ON_STDOUT)]
    yield from _of_lines("standard output", plain["stdout"].splitlines(), lines)
    lines = [line for line in recorded["stderr"].splitlines() if not line.startswith("gradviz: ")]
    yield from _of_lines("standard error", _without_harness(plain["stderr"].splitlines()), _without_harness(lines))
    yield from _of_mapping("files", plain["files"], recorded["files"])


def _without_harness(lines: Sequence[str]) -> list[str]:
    """Without the frames that call the program in a forked process, which stand above it in stacks that torch prints.

    Of the recorded one they are not there: what is above the program belongs to the command.
    """
    kept: list[str] = []
    is_ours = False
    for line in lines:
        is_ours = _is_harness(line) if line.startswith("  File ") else is_ours and line.startswith("    ")
        if not is_ours:
            kept.append(line)
            continue
        while kept and kept[-1].startswith("  "):
            kept.pop()  # Python's own frames that called the harness
    return kept


def _is_harness(line: str) -> bool:
    return any(f'{file}"' in line for file in _FORKED_BY)


def _of_lines(place: str, plain: Sequence[str], recorded: Sequence[str]) -> Iterator[Difference]:
    for number, (left, right) in enumerate(zip_longest(plain, recorded, fillvalue="nothing"), 1):
        if left != right:
            yield Difference(f"{place}, line {number}", left, right)
            return


def of_calls(plain: Mapping[str, Any], recorded: Mapping[str, Any]) -> Iterator[Difference]:
    """Calls of the program's own functions, by thread."""
    ours, theirs = recorded["end"].get("calls", {}), plain["end"].get("calls", {})
    for thread in sorted({*ours, *theirs}):
        left, right = theirs.get(thread, []), ours.get(thread, [])
        if left != right:
            place = next((nr for nr, (one, other) in enumerate(zip_longest(left, right)) if one != other), 0)
            more, fewer = Counter(right) - Counter(left), Counter(left) - Counter(right)
            words = f"{len(right)}, first other at {place + 1}: {right[place : place + 1]}"
            words += f"; more: {dict(more.most_common(4))}; fewer: {dict(fewer.most_common(4))}"
            yield Difference(f"calls in thread {thread}", f"{len(left)}, {left[place : place + 1]}", words)


def _of_memory(plain: Mapping[str, Any], recorded: Mapping[str, Any]) -> Iterator[Difference]:
    left, right = (run["end"].get("peak memory", 0) for run in (plain, recorded))
    if left and right > left + MAX_PEAK_MEMORY + MAX_BYTES_A_NODE * recorded["nodes"]:
        yield Difference("peak memory", f"{left / 2**20:.0f} MiB", f"{right / 2**20:.0f} MiB")


def of_facts(plain: Mapping[str, Any], recorded: Mapping[str, Any]) -> Iterator[Difference]:
    """What was there at the end, and at exit."""
    for moment in ("end", "exit"):
        for group in sorted({*plain[moment], *recorded[moment]} - {"calls", "peak memory"}):
            place = f"at {moment}, {group}"
            yield from _of_mapping(place, plain[moment].get(group, {}), recorded[moment].get(group, {}))


def _of_mapping(place: str, plain: Mapping[str, str], recorded: Mapping[str, str]) -> Iterator[Difference]:
    for name in sorted({*plain, *recorded}):
        left, right = plain.get(name, "absent"), recorded.get(name, "absent")
        if left != right:
            yield Difference(f"{place}: {name}", *_around_the_difference(left, right))


def _around_the_difference(left: str, right: str, width: int = 300) -> tuple[str, str]:
    """Both, cut to where they begin to differ."""
    if max(len(left), len(right)) <= width:
        return left, right
    first = next((nr for nr, (one, other) in enumerate(zip_longest(left, right)) if one != other), 0)
    start = max(0, first - 60)
    return f"…{left[start : start + width]}", f"…{right[start : start + width]}"
