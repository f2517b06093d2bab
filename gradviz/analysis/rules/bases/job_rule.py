"""A rule about all ranks of a job: what one rank shows says nothing."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.ranks.divergences import Divergence
from gradviz.analysis.ranks.job_case import JobCase
from gradviz.analysis.ranks.stand_words import at_words, shapes_words
from gradviz.analysis.rule import Rule
from gradviz.capture.rank_end import CodeLine, Collective


class JobRule(Rule):
    """Looks for one cause in a whole job."""

    @abstractmethod
    def check_job(self, job: JobCase) -> Iterator[Finding]:
        """Everything of this kind that is wrong with the job."""

    def check(self, case: Case) -> Iterator[Finding]:
        """One rank alone has nothing of this kind."""
        return iter(())


def location_of(line: CodeLine | None) -> Location | None:
    """The line, as findings have it."""
    return None if line is None else Location(line.file, line.line)


def call_words(call: Collective) -> str:
    """``all_reduce() of [3] float at train.py:12``."""
    if call.is_in_backward:
        return f"the {call.name}{shapes_words(call)} of backward(){at_words(call.at)}"
    return f"{call.name}(){shapes_words(call)}{at_words(call.at)}"


def number_words(found: Divergence) -> str:
    """`` (collective 12 of its process group)``; empty if unknown."""
    return f" (collective {found.number} of its process group)" if found.number else ""
