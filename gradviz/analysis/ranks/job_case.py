"""A job under examination: what rules about a whole job look at."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from gradviz.analysis.ranks.divergences import Divergence, divergences, of_stacks
from gradviz.analysis.ranks.rank_difference import RankComparison, RankDifference
from gradviz.analysis.ranks.rank_words import rank_words
from gradviz.analysis.ranks.stand_words import awaited_message, is_of_connection, own_line, pending
from gradviz.capture.capture import Rank
from gradviz.capture.rank_end import POINT_TO_POINT, WRAPPER, CodeLine, Collective, RankEnd

_NAMES_RANKS = re.compile(r"rank|\bis_(main|master|chief|leader)", re.IGNORECASE)


class JobCase:
    """How the ranks of a job ended, and in which respects they differ."""

    def __init__(
        self,
        ends: Sequence[RankEnd],
        hung_for: float | None,
        rank: Rank,
        world_size: int,
        comparison: RankComparison | None = None,
    ) -> None:
        self.ends = tuple(ends)
        self.hung_for = hung_for
        self.world_size = world_size
        self._rank = rank
        self._differences = () if comparison is None else comparison.differences

    @property
    def hangs(self) -> bool:
        """Whether no rank got on."""
        return self.hung_for is not None

    def who(self, ranks: Sequence[int]) -> str:
        """``rank 1``, ``ranks 0, 2-5``, ``all 4 ranks``."""
        return rank_words(sorted(ranks), self._rank, self.world_size)

    def differences(self, kind: str) -> Iterator[RankDifference]:
        """In which respects of this kind the ranks differ."""
        return (each for each in self._differences if each.kind == kind)

    def lines(self) -> Iterator[CodeLine]:
        """All lines of the program that are known from how ranks ended."""
        for each in self.ends:
            yield from each.stand.lines if each.stand is not None else ()
            yield from (call.at for call in each.collectives if call.at is not None)

    @cached_property
    def lost(self) -> tuple[RankEnd, ...]:
        """The ranks that died or failed before the others, which fail or wait because of it."""
        died = tuple(each for each in self.ends if each.how == "died")
        if died:
            return died
        failed = sorted((each for each in self.ends if each.how == "failed"), key=lambda each: each.at)
        own = [each for each in failed if not is_of_connection(each.error)]
        if not own:  # then a launcher had no reason to end one
            own = [each for each in self.ends if each.how == "terminated" and not self.hangs]
        own_ranks = {each.rank for each in own}
        left = [
            each for each in self.ends if each.rank not in own_ranks and each.how in ("hung", "terminated", "failed")
        ]
        return tuple(own[:1]) if own and left else ()

    @cached_property
    def in_backward(self) -> tuple[RankEnd, ...]:
        """The ranks that wait inside a backward call."""
        return tuple(each for each in self.waiting if each.stand is not None and each.stand.is_in_backward)

    @cached_property
    def in_message(self) -> tuple[RankEnd, ...]:
        """The ranks that wait to send to a single rank, or to receive from one."""
        return tuple(
            each
            for each in self.waiting
            if each.stand is not None and (each.stand.collective in POINT_TO_POINT or awaited_message(each) is not None)
        )

    @cached_property
    def waiting(self) -> tuple[RankEnd, ...]:
        """The ranks that wait for others, or that failed because another one left while they waited."""
        return tuple(
            each
            for each in self.ends
            if each.stand is not None
            and (each.how == "hung" or (each.how == "failed" and is_of_connection(each.error)))
        )

    @cached_property
    def is_seen(self) -> bool:
        """Whether torch's flight recorder tells which collectives were called."""
        return any(each.collectives for each in self.ends)

    @cached_property
    def out_of_step(self) -> OutOfStep | None:
        """Why a rank may have been aborted inside a collective, though what it had called before is lost with it."""
        for aborted in filter(is_aborted_in_collective, self.lost):
            for peer in self.ends:
                calls = reversed(peer.collectives) if peer is not aborted else ()
                call = next((call for call in calls if call.at is not None and call.at.condition), None)
                if call is not None:
                    return OutOfStep(aborted, peer, call)
        return None

    @cached_property
    def aborted_unseen(self) -> RankEnd | None:
        """A rank that was aborted in a collective of its wrapper, where nothing tells what the ranks had called."""
        if self.is_seen:
            return None
        aborted = filter(is_aborted_in_collective, self.lost)
        return next((each for each in aborted if each.stand is not None and each.stand.collective == WRAPPER), None)

    @cached_property
    def by_rank(self) -> ByRank | None:
        """A collective in which a rank stands under a condition that names ranks, where no other rank stands.

        The others wait in the loop around that condition, or the rank was aborted: one behind the loop may be right.
        """
        if self.in_message:
            return None
        for end in self.ends:
            waiting = pending(end)
            is_own_group = waiting is not None and waiting.group not in ("0", "")
            if end.stand is None or not end.stand.collective or end.stand.is_in_backward or is_own_group:
                continue
            lines = (each for each in end.stand.lines if each.condition and _NAMES_RANKS.search(each.condition_text))
            line = next(lines, None)
            others = [each for each in self.ends if each is not end]
            if line is None or any(_stands_in(each, line) for each in others):
                continue
            if is_aborted_in_collective(end) or any(not has_left(each, line) for each in others if line.loop):
                return ByRank(end, line)
        return None

    @cached_property
    def left_loop(self) -> LeftLoop | None:
        """Ranks that left a loop in which another one waits, in a collective that they called in earlier steps."""
        if self.lost:
            return None
        for waiter in self.waiting:
            stand, at = waiter.stand, own_line(waiter)
            line = line_of_loop(waiter)
            if stand is None or at is None or line is None or line.loop is None or at.condition or line.condition:
                continue
            if not stand.collective or stand.is_in_backward or stand.collective in POINT_TO_POINT:
                continue
            others = [each for each in self.ends if each is not waiter and has_left(each, line)]
            left = tuple(each for each in others if any(call.at == at for call in each.collectives))
            if left:
                return LeftLoop(waiter, line, left)
        return None

    @cached_property
    def divergence(self) -> Divergence | None:
        """Where the ranks of a job that hung or was aborted cease to call the same collectives."""
        if not self.waiting or self.lost:
            return None
        found = list(divergences(self.ends)) if self.is_seen else [of_stacks(self.ends)]
        return next((each for each in found if each is not None), None)


@dataclass(frozen=True)
class OutOfStep:
    """A rank that its backend aborted, and a collective that another rank has called under a condition."""

    aborted: RankEnd
    peer: RankEnd
    call: Collective

    @property
    def is_certain(self) -> bool:
        """Whether sizes can only differ because the ranks called different collectives: those that a wrapper exchanges
        itself are the same on all of them."""
        return self.aborted.stand is not None and self.aborted.stand.collective == WRAPPER


@dataclass(frozen=True)
class LeftLoop:
    """Ranks that made fewer steps."""

    waiter: RankEnd
    line: CodeLine
    left: tuple[RankEnd, ...]


@dataclass(frozen=True)
class ByRank:
    """A rank that is in a collective alone."""

    end: RankEnd
    line: CodeLine
    """One of the lines where it stands, under a condition that names ranks."""


def _stands_in(end: RankEnd, line: CodeLine) -> bool:
    """Whether a rank stands under the same condition, or in its other branch."""
    lines = () if end.stand is None else end.stand.lines
    return any((each.file, each.condition) == (line.file, line.condition) for each in lines)


def is_aborted_in_collective(end: RankEnd) -> bool:
    """Whether compiled code ended this rank while it was in a collective."""
    return end.how == "died" and end.stand is not None and bool(end.stand.collective)


def is_waiting(end: RankEnd) -> bool:
    """Whether this rank stands in a collective or in a backward, where others are waited for."""
    stand = end.stand
    if stand is None:
        return False
    return bool(stand.collective or awaited_message(end) or stand.is_in_backward or pending(end))


def line_of_loop(waiter: RankEnd) -> CodeLine | None:
    """The line of the outermost loop of the program in which backward is called; the call's own if there is none."""
    lines = () if waiter.stand is None else waiter.stand.lines
    return next((line for line in lines if line.loop is not None), own_line(waiter))


def has_left(end: RankEnd, line: CodeLine | None) -> bool:
    """Whether a rank has ended, or stands outside of the loop around this line."""
    if end.how == "finished":
        return True
    if end.how not in ("hung", "terminated") or end.stand is None or end.stand.is_in_backward:
        return False
    return line is None or line.loop is None or not any(_is_inside(each, line) for each in end.stand.lines)


def _is_inside(line: CodeLine, around: CodeLine) -> bool:
    assert around.loop is not None
    return line.file == around.file and around.loop[0] <= line.line <= around.loop[1]
