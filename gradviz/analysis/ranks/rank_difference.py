"""In which respects the ranks of a job differ, as data."""

from __future__ import annotations

from msgspec import Struct

from gradviz.analysis.finding import Location
from gradviz.analysis.ranks.communication import Communication
from gradviz.analysis.ranks.rank_summary import RankSummary


class RankDifference(Struct, frozen=True):
    """One respect in which ranks differ, or are alike."""

    kind: str
    what: str
    """A sentence."""
    is_alarm: bool = True
    """False for what is only worth knowing."""
    details: tuple[str, ...] = ()
    having: tuple[int, ...] = ()
    """The ranks that are as most are, that have something, or that are alike."""
    missing: tuple[int, ...] = ()
    """The ranks that differ, or do not have it."""
    parameters: tuple[str, ...] = ()
    """Names of the parameters that it is about."""
    location: Location | None = None
    """The line that it is about."""
    remedy: str = ""
    """What to do, where that depends on how they came to differ."""
    is_reduced: bool = False
    """Whether a wrapper makes one gradient out of those of these ranks."""


class RankComparison(Struct, frozen=True):
    """All ranks of a job that were recorded."""

    program: str
    world_size: int
    ranks: tuple[RankSummary, ...]
    differences: tuple[RankDifference, ...]
    disclosures: tuple[str, ...] = ()
    communication: tuple[Communication, ...] = ()

    @property
    def has_alarm(self) -> bool:
        """Whether something is likely to be wrong."""
        return any(each.is_alarm for each in self.differences)
