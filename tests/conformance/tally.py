"""What a part of the conformance run counted, and how it is printed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

MAX_SHOWN = 40
"""Failures that are printed; the others are counted."""


@dataclass
class Tally:
    """Counts of one part, or of a share of it that one process examined.

    A *subject* is an operator, a kind of module or a family of models, a *sample* is one program of it that was
    recorded. Every sample is passed, skipped for a reason, or failed.
    """

    subjects: Counter[str] = field(default_factory=Counter)
    """Samples of each subject that were recorded; 0 for one of which none could be."""
    passed: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    """Samples that are no test of gradviz, by reason."""
    told: Counter[str] = field(default_factory=Counter)
    """Samples of which gradviz said that something could not be measured, by what it said."""
    failures: list[str] = field(default_factory=list)
    """``subject: what is wrong``."""
    nodes: int = 0
    lines: list[str] = field(default_factory=list)
    """A table of the part's own, printed under the counts."""

    def add(self, other: Tally) -> None:
        """Take in what another process counted."""
        self.subjects.update(other.subjects)
        self.passed += other.passed
        self.skipped.update(other.skipped)
        self.told.update(other.told)
        self.failures += other.failures
        self.nodes += other.nodes
        self.lines += other.lines

    def report(self, noun: str) -> Iterator[str]:
        """The lines to print; `noun` says what the subjects are."""
        recorded = sum(1 for samples in self.subjects.values() if samples)
        yield (
            f"{recorded:,} of {len(self.subjects):,} {noun}, {sum(self.subjects.values()):,} samples recorded, "
            f"{self.nodes:,} nodes: {self.passed:,} samples passed, {len(self.failures):,} failed"
        )
        for title, counts in (("skipped", self.skipped), ("told by gradviz", self.told)):
            for reason, count in counts.most_common():
                yield f"  {title} {count:>7,}  {reason}"
        yield from (f"  {line}" for line in self.lines)
        yield from (f"  FAILED {failure}" for failure in sorted(self.failures)[:MAX_SHOWN])
        if len(self.failures) > MAX_SHOWN:
            yield f"  and {len(self.failures) - MAX_SHOWN:,} more"
