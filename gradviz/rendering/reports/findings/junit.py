"""Findings as a JUnit report: each is a failed test, and a run without findings is a passed test."""

from __future__ import annotations

from xml.etree import ElementTree

from gradviz.analysis.check.report import Report, skipped_rules_in_words
from gradviz.analysis.finding import Finding
from gradviz.safe_text import printable, terminal_text


def findings_junit(report: Report) -> str:
    """A suite with one case for each finding. Notes pass: they are no reason for a build to fail."""
    failures = sum(finding.is_alarm for finding in report.findings)
    suites = ElementTree.Element("testsuites")
    suite = ElementTree.SubElement(
        suites,
        "testsuite",
        name="gradviz check",
        tests=str(max(1, len(report.findings) + len(skipped_rules_in_words(report)))),
        failures=str(failures),
        errors="0",
        skipped=str(len(skipped_rules_in_words(report))),
    )
    for finding in report.findings:
        _add_case(suite, report, finding)
    blind = skipped_rules_in_words(report)
    for words in blind:
        name = f"not looked for on this torch: {words}"
        ElementTree.SubElement(
            ElementTree.SubElement(suite, "testcase", classname=report.program, name=name), "skipped", message=name
        )
    if not report.findings and not blind:
        ElementTree.SubElement(suite, "testcase", classname=report.program, name="nothing found")
    for element in suites.iter():  # as text for the log of a build, where the report may be printed
        element.attrib = {name: terminal_text(printable(value)) for name, value in element.attrib.items()}
        element.text = terminal_text(printable(element.text or ""))
    ElementTree.indent(suites)
    return ElementTree.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"


def _add_case(suite: ElementTree.Element, report: Report, finding: Finding) -> None:
    location = (
        {"file": finding.location.file, "line": str(finding.location.line)} if finding.location is not None else {}
    )
    name = f"{finding.code} {finding.cause}: {finding.message}"
    case = ElementTree.SubElement(suite, "testcase", {"classname": report.program, "name": name, **location})
    text = "\n".join(filter(None, (finding.message, finding.why, finding.fix)))
    if finding.is_alarm:
        failure = ElementTree.SubElement(case, "failure", type=finding.severity, message=finding.message)
        failure.text = text
    else:
        ElementTree.SubElement(case, "system-out").text = text
