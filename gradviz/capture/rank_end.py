"""How the ranks of a job ended: where each stood if none got on, and which collectives it had called."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from gradviz.graph.bounded_types import Count, LineNumber, Magnitude, Size

WRAPPER = "forward"
"""`Stand.collective` of a rank that waits in a collective which its wrapper calls, such as DistributedDataParallel."""

POINT_TO_POINT = frozenset(
    ("send", "recv", "isend", "irecv", "batch_isend_irecv", "send_object_list", "recv_object_list")
)
"""Functions of torch.distributed in which two ranks take part."""


class CodeLine(Struct, frozen=True, omit_defaults=True):
    """A line of the program, with the statements around it."""

    file: str
    line: LineNumber
    text: str = ""
    function: str = ""
    loop: tuple[LineNumber, LineNumber] | None = None
    """First and last line of the outermost loop around it, in its function."""
    condition: LineNumber = 0
    """The line of the innermost ``if`` around it in its function, or before it with a ``return``; 0 for none."""
    condition_text: str = ""
    is_else: bool = False
    """Whether it is in the part that runs if the condition is false."""
    exits: tuple[tuple[LineNumber, str], ...] = ()
    """The first statements that leave or skip the rest of that loop: their lines, and ``break``, ``continue`` ..."""


class Collective(Struct, frozen=True, omit_defaults=True):
    """A collective that a rank has called, or a send or a receive."""

    name: str
    """As torch's flight recorder calls it: ``all_reduce``."""
    number: Count = 0
    """Its sequence number in its process group; 0 if unknown."""
    group: str = ""
    """The process group."""
    shapes: tuple[tuple[Size, ...], ...] = ()
    """Of what the rank gives."""
    dtypes: tuple[str, ...] = ()
    at: CodeLine | None = None
    """The innermost line of the program."""
    is_in_backward: bool = False
    """Whether autograd's engine called it, as for a bucket of DistributedDataParallel."""
    is_over: bool = False
    called: Magnitude = 0.0
    """Seconds since 1970, by the clock of the rank's host; 0 if unknown."""
    peer: Count | None = None
    """The other rank, of a send or a receive; None if unknown."""


class Traffic(Struct, frozen=True, omit_defaults=True):
    """What one line gave to collectives."""

    name: str
    """As in `Collective`."""
    calls: Count
    bytes: Count
    """Of all its calls, as far as sizes are known."""
    at: CodeLine | None = None
    is_in_backward: bool = False


class BusyLine(Struct, frozen=True, omit_defaults=True):
    """A line of the program, and for how long the main thread stood in it or in what it called."""

    at: CodeLine
    seconds: Magnitude


class Stand(Struct, frozen=True, omit_defaults=True):
    """Where a rank stands, or stood when its process died."""

    lines: tuple[CodeLine, ...] = ()
    """The program's own lines on the stack, the innermost first."""
    collective: str = ""
    """The function of torch.distributed in which it waits, or `WRAPPER`."""
    is_in_backward: bool = False
    message: Collective | None = None
    """The last send or receive that it called, if it waits for one: with several, it may be another of them."""


class RankEnd(Struct, frozen=True, omit_defaults=True):
    """How one rank ended."""

    rank: Count
    how: Literal["finished", "failed", "terminated", "died", "hung"] = "finished"
    """``failed`` by an exception; ``terminated`` by SIGTERM, with which launchers end the others; ``died`` without a
    chance to say anything."""
    at: Magnitude = 0.0
    """Seconds since 1970; 0 if unknown."""
    backward_calls: Count = 0
    """How many it has begun."""
    error: str = ""
    """The type and the message of the exception."""
    stand: Stand | None = None
    """Where it stood, unless it finished."""
    collectives: tuple[Collective, ...] = ()
    """The last ones, in order, if torch's flight recorder was on."""
    collectives_called: Count = 0
    """All that the flight recorder has seen."""
    traffic: tuple[Traffic, ...] = ()
    """By line, the largest first, of the collectives that the flight recorder still had."""
    busy: tuple[BusyLine, ...] = ()
    """The lines that took most time from the first backward on, without what was spent in backward, in collectives and
    in gradviz. A thread has looked twenty times a second."""
