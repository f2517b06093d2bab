"""What a conformance run is asked to examine."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatch


@dataclass(frozen=True)
class Order:
    """Which subjects and samples, and in how many processes."""

    share: int = 1
    """Only one in so many samples, spread evenly over all kinds of subjects; 1 for all."""
    only: str = "*"
    """A pattern that names of subjects match."""
    jobs: int = 2
    only_first: bool = False
    """Only the first sample of each subject."""
    limit: float = 600.0
    """Seconds of processor time that a compiled family may take."""
    backend: str = "aot_eager"
    """What the families are compiled with."""

    def wants(self, subject: str) -> bool:
        """True for a subject that is to be examined."""
        return fnmatch(subject, self.only)
