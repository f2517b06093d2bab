"""Every rule's documentation has four sections, its example is found, and its remedy has no findings, nor has the
example with the line that the finding proposes."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from functools import cache, partial
from pathlib import Path

import pytest

from gradviz.analysis.case import Case
from gradviz.analysis.check.checker import check_case
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import FAMILIES, SECTIONS, Rule
from gradviz.analysis.rules import ON_REQUEST, RULES
from gradviz.analysis.rules.bases.job_rule import JobRule
from gradviz.analysis.rules.cost.saved_memory import saved_memory_above
from gradviz.analysis.rules.parameters.parameter_without_gradient import ParameterWithoutGradient
from gradviz.recording.run.program import find_script
from gradviz.recording.run.recording_plan import RecordingPlan
from gradviz.recording.script_runner import run
from tests.integration.rules.followed_advice import FOLLOWED, Edits

OF_ONE_PROCESS = tuple(rule for rule in RULES if not issubclass(rule, JobRule))
"""The examples of the others need several processes: see `tests/end_to_end/test_job_rules.py`."""
REQUESTED = (ParameterWithoutGradient, saved_memory_above(3 * 2**20))
HEAD = "import torch\n\ntorch.manual_seed(0)\n"
every_rule = pytest.mark.parametrize("rule", (*RULES, *REQUESTED), ids=lambda rule: rule.name)


def findings_in(source: str, folder: Path, rules: Iterable[type[Rule]]) -> tuple[Finding, ...]:
    script = folder / "example.py"
    script.write_text(source)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Torch's own, on what the example does wrong.
        capture = run(
            find_script(str(script)), (), RecordingPlan(backward=None, calls=True, for_pictures=False)
        ).capture
    return check_case(Case(capture), rules).findings


def causes_of(findings: Iterable[Finding], also: str) -> set[str]:
    """The causes of alarms, and of notes of the rule `also`."""
    return {finding.cause for finding in findings if finding.is_alarm or finding.cause == also}


def with_proposed_lines(source: str, findings: Iterable[Finding], cause: str) -> str:
    """The source, with the lines that findings of one cause propose."""
    lines = source.splitlines()
    for finding in findings:
        if finding.cause == cause and finding.changed_line is not None and finding.location is not None:
            lines[finding.location.line - 1] = finding.changed_line
    return "\n".join(lines) + "\n"


def with_edits(source: str, edits: Edits) -> str:
    """The source, after each of the edits."""
    for old, new in edits:
        assert old in source, old
        source = source.replace(old, new)
    return source


@every_rule
def test_a_rule_has_a_code_of_a_family_and_documentation_with_all_sections(rule: type[Rule]) -> None:
    assert rule.code[:3] in FAMILIES
    assert tuple(rule.documentation()) == SECTIONS
    assert all(rule.documentation().values())
    assert rule.headline().endswith(".")


def test_codes_are_in_order_and_names_given_once_in_a_family() -> None:
    for rules in (RULES, ON_REQUEST):
        codes = [rule.code for rule in rules]
        assert codes == sorted(set(codes))
    # One cause may show in two ways: `.data` that is read cuts a gradient off, `.data` that is written falsifies it.
    assert len({(rule.code[:3], rule.name) for rule in RULES}) == len(RULES)


@pytest.mark.parametrize("rule", (*OF_ONE_PROCESS, *REQUESTED), ids=lambda rule: rule.name)
def test_the_example_of_a_rule_is_found_and_mended_by_its_remedy_and_by_all_advice(
    rule: type[Rule], tmp_path: Path
) -> None:
    example, remedy = (f"{HEAD}{rule.documentation()[title]}\n" for title in ("Example", "Instead"))
    rules = RULES if rule in RULES else [rule]
    findings_of = cache(partial(findings_in, folder=tmp_path, rules=rules))  # several ways lead to the remedy
    found = findings_of(example)
    assert rule.name in causes_of(found, rule.name)
    assert causes_of(findings_of(remedy), rule.name) == set()
    mended = with_proposed_lines(example, found, rule.name)
    if mended != example:
        assert causes_of(findings_of(mended), rule.name) == set()
    beside = {each.cause for each in (*found, *findings_of(remedy)) if not each.is_alarm}
    for phrase, edits in FOLLOWED[rule.code]:
        assert any(phrase in (each.fix or "") for each in found if each.code == rule.code), phrase
        after = findings_of(with_edits(example, edits))
        assert causes_of(after, rule.name) == set(), (phrase, after)
        assert {each.cause for each in after} <= beside, (phrase, after)
