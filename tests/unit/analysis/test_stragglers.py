"""Which rank the others wait for, from the moments at which collectives were called."""

from __future__ import annotations

import pytest

from gradviz.analysis.ranks.communication import communication
from gradviz.analysis.ranks.stragglers import Straggler, straggler
from gradviz.capture.rank_end import BusyLine, CodeLine, Collective, RankEnd, Traffic


def line(number: int) -> CodeLine:
    return CodeLine("train.py", number, f"line {number}")


def calling(rank: int, *seconds: float, busy: tuple[BusyLine, ...] = ()) -> RankEnd:
    calls = tuple(Collective("all_reduce", number, "0", called=at) for number, at in enumerate(seconds, 1))
    return RankEnd(rank, "finished", collectives=calls, busy=busy)


def found(*ends: RankEnd) -> Straggler:
    slow = straggler(ends)
    assert slow is not None
    return slow


def test_the_rank_that_comes_last_is_named_with_the_line_that_takes_it_longer() -> None:
    slow = found(
        calling(0, 10.0, 11.0, 12.0, busy=(BusyLine(line(7), 0.5),)),
        calling(1, 10.0, 11.6, 12.6, busy=(BusyLine(line(5), 1.3), BusyLine(line(7), 1.5))),
        calling(2, 10.1, 11.1, 12.1, busy=(BusyLine(line(5), 1.0), BusyLine(line(7), 0.5))),
    )
    assert (slow.rank, slow.times, slow.collectives) == (1, 2, 3)
    assert slow.seconds == pytest.approx(1.0)
    assert slow.line is not None
    assert (slow.line.at.line, slow.usual) == (7, 0.5)


def test_what_several_buckets_wait_for_at_the_same_time_counts_once() -> None:
    slow = found(calling(0, 10.0, 11.0, 11.1, 12.0, 12.1), calling(1, 10.0, 11.5, 11.6, 12.5, 12.6))
    assert slow.seconds == pytest.approx(1.2)


def test_nobody_is_called_slow_who_is_as_often_waited_for_as_others() -> None:
    assert straggler([calling(0, 10.0, 11.0, 12.5, 13.0), calling(1, 10.0, 11.5, 12.0, 13.0)]) is None
    assert straggler([calling(0, 10.0, 11.0), calling(1, 10.0, 11.01)]) is None
    assert straggler([calling(0, 10.0, 11.0)]) is None


def test_nobody_is_called_slow_who_is_waited_for_once() -> None:
    """It may have begun later, or loaded something before its first step."""
    assert straggler([calling(0, 10.0, 11.0, 11.1, 12.0), calling(1, 10.0, 11.5, 11.6, 12.0)]) is None


def test_ranks_that_call_other_collectives_there_are_not_compared() -> None:
    other = RankEnd(
        1, collectives=(Collective("barrier", 1, "0", called=10.0), Collective("barrier", 2, "0", called=19.0))
    )
    assert straggler([calling(0, 10.0, 11.0), other]) is None


def test_what_is_given_to_collectives_is_told_by_line_with_who_gives_it() -> None:
    gives = [
        RankEnd(0, traffic=(Traffic("all_reduce", 3, 120, line(9), is_in_backward=True), Traffic("broadcast", 1, 8))),
        RankEnd(1, traffic=(Traffic("all_reduce", 2, 80, line(9), is_in_backward=True),)),
    ]
    first, second = communication(gives)
    assert (first.name, first.ranks, first.calls, first.bytes) == ("all_reduce", (0, 1), (2, 3), (80, 120))
    assert (second.name, second.ranks, second.at) == ("broadcast", (0,), None)
