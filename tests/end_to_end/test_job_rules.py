"""Rules about whole jobs: the example of each is found with two ranks, and its remedy has no findings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gradviz.analysis.rule import Rule
from gradviz.analysis.rules import RULES
from gradviz.analysis.rules.bases.job_rule import JobRule
from tests.end_to_end.command import SCRIPTS, Run, gradviz

JOB_RULES = [rule for rule in RULES if issubclass(rule, JobRule)]


def checked(example: str, folder: Path, *options: str) -> Run:
    (folder / "example.py").write_text(f"import torch\n\n{example}\n")
    return gradviz("check", "--hang", "2", *options, SCRIPTS / "as_ranks.py", "--", "example.py", cwd=folder)


@pytest.mark.parametrize("rule", JOB_RULES, ids=lambda rule: rule.name)
def test_the_example_of_a_rule_is_found_and_its_remedy_is_clean(rule: type[Rule], tmp_path: Path) -> None:
    sections = rule.documentation()
    found = checked(sections["Example"], tmp_path, "--format", "json")
    findings = json.loads(found.stdout)["findings"]
    assert [each["code"] for each in findings] == [rule.code], found.stderr
    assert Path(findings[0]["file"]).name == "example.py"
    assert found.exit_code != 0
    remedy = checked(sections["Instead"], tmp_path, "--format", "json", "--allow-empty")
    assert json.loads(remedy.stdout)["findings"] == []
    assert remedy.exit_code == 0, remedy.stderr
