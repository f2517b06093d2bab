"""What a run is to record, decided before it starts. Does not import torch: the script does so first."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Protocol

from gradviz.capture.capture import Rank
from gradviz.capture.spool import Spool
from gradviz.errors import BadInput

MAX_KEPT_NODES = 1_000_000
MAX_VALUES = 64
"""Largest tensor that is kept whole when values are asked for, in elements."""


@dataclass(frozen=True)
class RunLimits:
    """When a run is ended early: see `run_limit`. Without limits it runs to its end."""

    seconds: float | None = None
    """Since the first backward."""
    steps: int | None = None
    """Steps of an optimizer, or backward calls if there is none."""


NO_LIMITS = RunLimits()


def _nobody_waits(line: str) -> None:
    """What becomes of a line for somebody who waits, outside of a command."""


@dataclass(frozen=True)
class RecordingPlan:
    """Which backward calls become graphs, and whether the script goes on afterwards."""

    backward: int | None = 1
    """The call to record, counted from 1; None for all."""
    only_last: bool = False
    """All calls are recorded, and each replaces the one before."""
    keep_going: bool = False
    limits: RunLimits = NO_LIMITS
    root: str | None = None
    """An expression to record at the end of the script, instead of any backward."""
    gradients: bool = True
    """Whether the gradients on all edges are measured while backward runs."""
    values_up_to: int = 0
    """Gradients with at most this many elements are kept whole."""
    for_pictures: bool = True
    """Whether to take what only pictures and reports of memory show: histograms, and totals of the allocators."""
    calls: bool = False
    """Whether every torch call is logged, with its tensors: see `call_recorder`."""
    fingerprints: bool = False
    """Whether the fingerprint of every gradient and, if calls are logged, of every tensor is kept."""
    root_shares: bool = False
    """Whether each loss's share in the gradient of every leaf is measured, with one backward per loss."""
    inside: bool = False
    """Whether the gradients inside compiled code are measured, with a second run of it."""
    begins_midway: bool = False
    """The program ran before the recording began, and may have freed parts of the recorded graphs."""
    max_kept_nodes: int = MAX_KEPT_NODES
    """Recording of all calls ends when this many nodes are kept."""
    remedy_when_full: str = "--backward N picks a single one, --backward last keeps the last"
    """What the user can do then, in terms of the command or function that was used."""
    working: Callable[[str], AbstractContextManager[object]] = nullcontext
    """Entered with a short text around work of gradviz that may take long."""
    announce: Callable[[str], object] = _nobody_waits
    """Called with a line about how long the run may take, while it runs."""
    member: JobMember | None = None
    """This process as one of a job of several, if it may be one."""
    spool: Spool | None = None
    """Where what was recorded so far is kept, in case the process ends suddenly."""

    def __post_init__(self) -> None:
        if self.backward is not None and (type(self.backward) is not int or self.backward < 1):
            raise BadInput(
                f"backward={self.backward!r} is neither a number from 1 on nor 'last'",
                hint="leave it out to record every call",
            )
        if type(self.values_up_to) is not int or self.values_up_to < 0:
            raise BadInput(
                f"values={self.values_up_to!r} is not a number of elements", hint="values=64 keeps small tensors whole"
            )

    def wants(self, number: int) -> bool:
        """True for a backward call that is to be recorded."""
        return self.backward is None or number == self.backward

    @property
    def keeps_one(self) -> bool:
        """True if a single graph is wanted."""
        return self.backward is not None or self.only_last

    def is_last(self, number: int) -> bool:
        """True if nothing is left to record after this call."""
        return self.backward is not None and number >= self.backward


class JobMember(Protocol):
    """This process as one of a job, of which none ends before the others have recorded what they want."""

    keep: Callable[[], object]
    """Writes what was recorded so far, if the process is about to end."""
    keep_result: Callable[[], object]
    """Makes the capture, when the last wanted backward has ended and the program goes on."""

    def rank(self) -> Rank | None:
        """Which process of the job it is; None as long as there is no other."""

    def before_backward(self) -> None:
        """The program is about to call backward."""

    def has_recorded_all(self) -> bool:
        """The last wanted backward has ended: True if the program may end; False if other ranks still need it."""

    def may_end(self) -> bool:
        """Whether it ran on for the others, and all ranks have recorded what they want by now."""

    def note_error(self, error: BaseException) -> None:
        """The program has failed with this exception."""

    def note_leaving(self, words: str, request: BaseException | None = None) -> None:
        """The program is about to end early, in another way than by an error."""

    def end(self) -> None:
        """The program has ended."""


class StopScript(SystemExit):
    """Ends the script: its ``finally`` blocks run, and ``except Exception`` does not catch it."""
