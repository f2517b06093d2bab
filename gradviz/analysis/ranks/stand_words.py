"""What is said of where a rank stands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gradviz.capture.rank_end import CodeLine, Collective, RankEnd
from gradviz.graph.number_words import counted
from gradviz.graph.query.own_line import line_words_of

MAX_RANKS = 16
POINT_TO_POINT = frozenset(
    ("send", "recv", "isend", "irecv", "batch_isend_irecv", "send_object_list", "recv_object_list")
)
"""Functions of torch.distributed in which two ranks take part."""
_OF_THE_CONNECTION = (
    "closed by peer", "reset by peer", "Broken pipe", "Connection refused", "DistBackendError", "DistNetworkError",
    "DistStoreError", "NCCL error", "remote process exited", "gloo",
)  # fmt: skip
"""Parts of what a rank raises when another one has gone."""


def standing_words(ends: Sequence[RankEnd], hung_for: float | None) -> tuple[str, ...]:
    """A sentence for each rank, if the job hung."""
    return tuple(_sentences(ends)) if hung_for is not None else ()


def _sentences(ends: Sequence[RankEnd]) -> Iterator[str]:
    for each in ends[:MAX_RANKS]:
        yield f"rank {each.rank} {end_words(each)}"
    if len(ends) > MAX_RANKS:
        yield f"and {len(ends) - MAX_RANKS:,} more ranks"


def end_words(end: RankEnd) -> str:
    """Where a rank stands, or how it ended: the rest of a sentence about it."""
    after = f"after {counted(end.backward_calls, 'backward call')}"
    if is_of_connection(end.error):
        return f"lost its connection{at_words(own_line(end))}{_sequence(end)}, {after}"
    if end.how == "failed":
        return f"failed{at_words(own_line(end))}: {end.error}"
    if end.how == "died":
        inside = f" in {end.stand.collective}()" if end.stand is not None and end.stand.collective else ""
        return f"died{inside}{at_words(own_line(end))}, {after}"
    if end.stand is None:
        return f"has ended, {after}"
    at = at_words(own_line(end))
    if end.stand.is_in_backward:
        return f"waits in backward {end.backward_calls}{at}{_sequence(end)}"
    if end.stand.collective:
        return f"waits in {end.stand.collective}(){at}{_sequence(end)}, {after}"
    return f"stands{at}, {after}"


def _sequence(end: RankEnd) -> str:
    """The collective for which it waits, as the flight recorder numbers it."""
    waiting = pending(end)
    if waiting is None or not waiting.number:
        return ""
    return f" ({waiting.name} {waiting.number} of its process group{shapes_words(waiting)})"


def pending(end: RankEnd) -> Collective | None:
    """The first collective that this rank has called and that is not over."""
    return next((each for each in end.collectives if not each.is_over), None)


def shapes_words(collective: Collective) -> str:
    """`` of [3, 4] float``; empty if unknown."""
    if not collective.shapes:
        return ""
    kinds = collective.dtypes or ("",) * len(collective.shapes)
    told = [f"{list(shape)} {kind.lower()}".strip() for shape, kind in zip(collective.shapes, kinds, strict=False)]
    return f" of {', '.join(told[:2])}{' ...' if len(told) > 2 else ''}"


def own_line(end: RankEnd) -> CodeLine | None:
    """The innermost line of the program where a rank stands."""
    return end.stand.lines[0] if end.stand is not None and end.stand.lines else None


def at_words(line: CodeLine | None) -> str:
    """`` at train.py:12``; empty if unknown."""
    return "" if line is None else f" at {line_words_of(line.file, line.line)}"


def is_refused_by_ddp(error: str) -> bool:
    """Whether a rank raised this because parameters got no gradient on it, for which DDP waited."""
    return "Expected to have finished reduction in the prior iteration" in error


def is_of_connection(error: str) -> bool:
    """Whether a rank raised this because another one has gone."""
    return any(part in error for part in _OF_THE_CONNECTION)
