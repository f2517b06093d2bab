"""What is to be recorded of a run, decided before it starts. No torch here: the script imports it first."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from gradviz.errors import BadInput

MAX_KEPT_NODES = 1_000_000
MAX_VALUES = 64
"""Elements of a tensor that is kept whole when values are asked for."""


@dataclass(frozen=True)
class RunLimits:
    """When a run has shown enough: see `run_limit`. Without any, it goes on to its end."""

    seconds: float | None = None
    """From the first backward on."""
    steps: int | None = None
    """Of an optimizer, or backward calls where there is none."""


NO_LIMITS = RunLimits()


@dataclass(frozen=True)
class RecordingPlan:
    """Which backward calls become graphs, and whether the script goes on afterwards."""

    backward: int | None = 1
    """The call to record, counted from 1; None for all."""
    only_last: bool = False
    """All calls are recorded, and each takes the place of the one before."""
    keep_going: bool = False
    limits: RunLimits = NO_LIMITS
    root: str | None = None
    """An expression to record at the script's end instead of any backward."""
    gradients: bool = True
    """Whether what flows along every edge is measured while backward runs."""
    values_up_to: int = 0
    """Gradients with so many elements or fewer are kept whole."""
    calls: bool = False
    """Whether every torch call is logged, with the tensors that it took and gave: see `call_recorder`."""
    root_shares: bool = False
    """Whether each loss's share in every leaf's gradient is measured, by a backward for each."""
    begins_midway: bool = False
    """The program computed before the recording began, and may have freed what is recorded."""
    max_kept_nodes: int = MAX_KEPT_NODES
    """Recording all calls ends when so many nodes are kept."""
    remedy_when_full: str = "--backward N picks a single one, --backward last keeps the last"
    """What to do then, in the words of whoever asked for the recording."""
    working: Callable[[str], AbstractContextManager[object]] = nullcontext
    """Entered with a few words on what is done, around work of ours that may take long."""

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
        """True where a single graph is wanted."""
        return self.backward is not None or self.only_last

    def is_last(self, number: int) -> bool:
        """True when nothing is left to record after this call."""
        return self.backward is not None and number >= self.backward


class StopScript(SystemExit):
    """Ends the script politely: its ``finally`` blocks run, and ``except Exception`` does not hold it up."""
