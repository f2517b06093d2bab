"""Rules of other packages run beside gradviz's own, and one that cannot be used does not stop the others."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import EntryPoint

from gradviz.analysis.case import Case
from gradviz.analysis.check.installed_rules import RuleSet, with_installed_rules
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule


class Ours(Rule):
    code, name, severity = "GV101", "detached", "error"

    def check(self, case: Case) -> Iterator[Finding]:
        yield from ()


class Theirs(Ours):
    code, name = "HOUSE1", "house_style"


class Another(Ours):
    code, name = "HOUSE2", "house_names"


class SameCode(Ours):
    name = "detached_again"


class Nameless(Rule):
    code = "HOUSE3"


PAIR = (Another, Theirs)


def rule_set(*names: str) -> RuleSet:
    points = [EntryPoint(f"rules{place}", f"{__name__}:{name}", "gradviz.rules") for place, name in enumerate(names)]
    return with_installed_rules([Ours], points)


def test_rules_of_a_package_come_after_gradvizs_own_sorted_by_code() -> None:
    assert rule_set("Theirs").rules == (Ours, Theirs)
    assert rule_set("PAIR").rules == (Ours, Theirs, Another)


def test_an_unusable_entry_point_is_reported_with_its_reason_and_the_others_are_used() -> None:
    found = rule_set("Gone", "SameCode", "Nameless", "__name__", "Theirs")
    assert found.rules == (Ours, Theirs)
    messages = [finding.message for finding in found.unusable]
    assert [finding.is_alarm for finding in found.unusable] == [False] * 4
    assert "has no attribute 'Gone'" in messages[0]
    assert "GV101 detached_again exists already, as GV101 detached" in messages[1]
    assert "Nameless has no name and no severity" in messages[2]
    assert "is not a gradviz.analysis.rule.Rule" in messages[3]
