"""The same report in every format for programs."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import pytest

from gradviz.analysis.check.report import Report
from gradviz.analysis.finding import Finding, Location
from gradviz.errors import BadInput
from gradviz.rendering.reports.findings.formats import FINDING_FORMATS, finding_format

HOSTILE = "</failure> ]]> & 50 % :: \n \x1b[31m"
FINDING = Finding(
    code="GV101",
    cause="detached",
    severity="error",
    symptom="grad_none",
    message=f"w gets no gradient: {HOSTILE}",
    fix="remove .detach()",
    location=Location("net:1,a.py", 3),
    symptom_location=Location("net:1,a.py", 5),
    tensors=("w",),
    evidence={"version": 2},
)
NOTE = Finding(code="GV701", cause="frozen", severity="note", message="b is frozen")
REPORT = Report("train.py", (FINDING, NOTE), {"net:1,a.py": {3: "h = h.detach()"}}, ("2 parameters",))


def written(name: str, report: Report = REPORT) -> str:
    return finding_format(name).renderer(report)


@pytest.mark.parametrize("name", [each.name for each in FINDING_FORMATS])
def test_every_format_has_verdict_code_and_line_and_ends_in_a_line_feed(name: str) -> None:
    text = written(name)
    assert "GV101" in text
    assert "gets no gradient" in text
    assert "3" in text
    assert text.endswith("\n")


def test_json_has_every_field_of_a_finding_even_if_it_is_unknown() -> None:
    first, second = json.loads(written("json"))["findings"]
    assert (first["cause"], first["file"], first["line"], first["source"]) == (
        "detached", "net:1,a.py", 3, "h = h.detach()",
    )  # fmt: skip
    assert first["evidence"] == {"version": 2}
    assert set(first) == set(second)
    assert second["line"] is None


def test_sarif_has_a_result_for_each_finding_with_its_rule_and_locations() -> None:
    (run,) = json.loads(written("sarif"))["runs"]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    first, second = run["results"]
    assert rules == ["GV101", "GV701"]
    assert first["locations"][0]["physicalLocation"]["region"] == {"startLine": 3}
    assert first["relatedLocations"][0]["physicalLocation"]["region"] == {"startLine": 5}
    assert second["level"] == "note"
    assert "locations" not in second


@pytest.mark.parametrize("name", ["json", "sarif"])
def test_a_name_that_is_not_utf8_is_written_with_its_bytes_spelled_out(name: str) -> None:
    finding = Finding(
        code="GV101", cause="detached", severity="error", message="w", location=Location("tr\udce4in.py", 3)
    )
    text = written(name, Report("tr\udce4in.py", (finding,), {"tr\udce4in.py": {3: "h"}}, ()))
    assert r"tr\\udce4in.py" in text


def test_sarif_describes_rules_that_only_run_on_request() -> None:
    finding = Finding(code="GV901", cause="saved_memory", severity="error", message="too much")
    (run,) = json.loads(written("sarif", Report("a.py", (finding,), {}, ())))["runs"]
    assert run["tool"]["driver"]["rules"][0]["shortDescription"]["text"]


def test_annotations_are_one_line_each_and_nothing_in_them_ends_a_property() -> None:
    first, second = written("github").splitlines()
    assert first.startswith("::error file=net%3A1%2Ca.py,line=3,title=GV101 detached::w gets no gradient")
    assert "%0A" in first
    assert second == "::notice title=GV701 frozen::b is frozen"


def test_a_junit_report_fails_for_errors_and_warnings_and_passes_for_notes_and_without_findings() -> None:
    suite = ElementTree.fromstring(written("junit"))[0]
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    assert [case.find("failure") is not None for case in suite] == [True, False]
    clean = ElementTree.fromstring(written("junit", Report("train.py", (), {}, ())))[0]
    assert (clean.get("tests"), clean.get("failures")) == ("1", "0")


def test_an_unknown_format_is_refused_with_near_matches() -> None:
    with pytest.raises(BadInput, match=r"'sarf'.*did you mean 'sarif'"):
        finding_format("sarf")
