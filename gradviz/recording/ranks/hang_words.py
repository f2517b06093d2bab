"""What is said about a job in which no rank gets on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gradviz.graph.number_words import counted
from gradviz.recording.ranks.job_folder import Process

MAX_RANKS = 16


def hang_words(processes: Sequence[Process]) -> Iterator[str]:
    """Sentences: where each rank stands, and what their comparison says."""
    ranks = [each for each in processes if each.rank is not None]
    for each in ranks[:MAX_RANKS]:
        assert each.rank is not None
        yield f"rank {each.rank.number} {_stands(each)}"
    if len(ranks) > MAX_RANKS:
        yield f"and {len(ranks) - MAX_RANKS:,} more ranks"
    yield from _comparison(ranks)


def _stands(process: Process) -> str:
    stand = process.stand
    if stand is None or process.has_ended:
        return f"has ended, after {counted(process.backward_calls, 'backward call')}"
    at = f" at {stand.line}" if stand.line else ""
    if stand.is_in_backward:
        return f"waits in backward {stand.backward_calls}{at}"
    if stand.collective:
        calls = counted(stand.backward_calls, "backward call")
        return f"waits in {stand.collective}(){at}, after {calls}"
    return f"stands{at}, after {counted(stand.backward_calls, 'backward call')}"


def _comparison(ranks: Sequence[Process]) -> Iterator[str]:
    """Why they wait for each other, as far as it shows."""
    inside = [each for each in ranks if not each.has_ended and each.stand is not None and each.stand.is_in_backward]
    outside = [each for each in ranks if each not in inside]
    if inside and outside:
        first, other = inside[0], min(outside, key=lambda each: each.backward_calls)
        if other.backward_calls < first.backward_calls:
            yield (
                f"{_name(first)} waits in backward {first.backward_calls} for gradients of {_name(other)}, which made "
                f"only {counted(other.backward_calls, 'backward call')}: its loop ended earlier, for example because "
                "its data is shorter"
            )
        else:
            yield (
                f"{_name(first)} waits in backward {first.backward_calls} for gradients of {_name(other)}, which is "
                "through with it: it has sent fewer, for example because a parameter takes no part there"
            )
        return
    collectives = {(each.stand.collective, each.stand.line) for each in ranks if each.stand and each.stand.collective}
    if len(collectives) > 1:
        told = " and ".join(f"{name}() at {line}" for name, line in sorted(collectives))
        yield f"ranks wait in different collectives: {told}; all ranks must call the same ones in the same order"
    elif collectives and outside and any(not (each.stand and each.stand.collective) for each in outside):
        name, line = next(iter(collectives))
        yield f"not all ranks call {name}() at {line}, and each that does waits for the others"


def _name(process: Process) -> str:
    assert process.rank is not None
    return f"rank {process.rank.number}"
