"""One report for many ranks."""

from __future__ import annotations

from gradviz.analysis.check.job_report import job_report
from gradviz.analysis.check.report import Report
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.ranks.rank_words import rank_words
from gradviz.capture.capture import Rank


def report(*findings: Finding, raised: str | None = None, calls: int = 3) -> Report:
    return Report("train.py", findings, {}, (f"{calls} backward calls",), raised=raised)


def finding(code: str, line: int, message: str = "it is wrong") -> Finding:
    return Finding(code=code, cause="cause", severity="error", message=message, location=Location("train.py", line))


def test_a_thousand_ranks_stay_one_readable_report() -> None:
    shared, own = finding("GV101", 3), finding("GV301", 9)
    reports = [
        (Rank(number, 1000, "job"), report(shared, *[own] * (number % 100 == 7), calls=3 + (number == 5)))
        for number in range(1000)
    ]
    merged = job_report(reports, 1000)
    assert merged.program == "train.py, 1,000 ranks"
    assert [each.message for each in merged.findings] == [
        "it is wrong (all 1,000 ranks)",
        "it is wrong (ranks 7, 107, 207, 307, 407, 507 and 4 more groups)",
    ]
    assert merged.checked == ("ranks 0-4, 6-999: 3 backward calls", "rank 5: 4 backward calls")


def test_ranks_that_differ_in_figures_share_a_finding_in_the_words_of_the_first() -> None:
    reports = [(Rank(n, 3, "job"), report(finding("GV101", 3, f"norm {n}"))) for n in (0, 2)]
    merged = job_report(reports, 3, ["rank 1: it ended suddenly"])
    assert [each.message for each in merged.findings] == ["norm 0 (ranks 0, 2, in the words for rank 0)"]
    assert merged.program == "train.py, 2 of 3 ranks"
    assert merged.disclosures == ("rank 1: it ended suddenly",)


def test_ranks_that_failed_are_told_with_what_they_raised() -> None:
    raised = ["ValueError", None, "RuntimeError", "ValueError"]
    merged = job_report([(Rank(n, 4, "job"), report(raised=each)) for n, each in enumerate(raised)], 4)
    assert merged.raised == "ValueError on ranks 0, 3 and RuntimeError on rank 2"
    assert rank_words([0, 1], Rank(0, 2, "job", is_in_order=True)) == "all 2 processes"


def test_a_launcher_that_starts_one_process_is_no_job() -> None:
    own = report(finding("GV101", 3))
    assert job_report([(Rank(0, 1, "job"), own)], 1) == own
