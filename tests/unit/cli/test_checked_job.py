"""The report on the processes that a program started."""

from __future__ import annotations

from gradviz.analysis.case import Case
from gradviz.analysis.check.installed_rules import RuleSet
from gradviz.analysis.check.report import check_report
from gradviz.analysis.rules import RULES
from gradviz.cli.captures.checked_job import Ranks, report_of_job
from gradviz.cli.captures.source import Source
from tests.captures import small_capture


def test_the_only_process_that_trained_is_reported_like_a_script() -> None:
    capture = small_capture()
    own = check_report(Case(capture), RULES)
    ranks = Ranks(iter((capture,)), 1, ("process 7: it ended suddenly",))
    report = report_of_job(own, Source(capture, capture.graphs), ranks, lambda _: capture, RuleSet(RULES), None)
    assert report.program == own.program
    assert report.checked == own.checked != ()
    assert report.disclosures == (*own.disclosures, "process 7: it ended suddenly")
