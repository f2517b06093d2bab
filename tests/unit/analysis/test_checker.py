"""Rules run one by one: chosen by their codes, not stopped by one that fails, without findings that others explain."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from gradviz.analysis import rules as of_gradviz
from gradviz.analysis.case import Case
from gradviz.analysis.check.baseline import baseline_of, read_baseline
from gradviz.analysis.check.checker import check_case, chosen_rules
from gradviz.analysis.check.report import Report, check_report
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule
from gradviz.capture.capture import Capture, Program
from gradviz.errors import BadInput
from gradviz.recording.torch_access.capabilities import CAPABILITIES
from gradviz.rendering.reports.findings.formats import FINDING_FORMATS, finding_format
from gradviz.rendering.reports.findings.text import FindingsText

LINES = {"train.py": {3: "h = h.detach()  # a cut", 4: "h = h.round()  # gradviz: ignore[GV2]", 5: "loss.backward()"}}
CAPTURE = Capture(Program("train.py"), sources=LINES)


class Deep(Rule):
    code, name, severity = "GV101", "detached", "error"

    def check(self, case: Case) -> Iterator[Finding]:
        yield self.finding("w is cut off", location=Location("train.py", 3), tensors=("w",))


class Shallow(Rule):
    code, name, severity, yields_to = "GV190", "nothing_arrived", "error", ("detached",)

    def check(self, case: Case) -> Iterator[Finding]:
        yield self.finding("w got nothing", location=Location("train.py", 5), tensors=("w",))
        yield self.finding("b got nothing", location=Location("train.py", 5), tensors=("b",))


class Rounded(Rule):
    code, name, severity = "GV201", "zero_gradient_op", "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        yield self.finding("round has no slope", location=Location("train.py", 4), tensors=("s",))


class OfTwoTowers(Rule):
    code, name, severity = "GV405", "data_access", "error"

    def check(self, case: Case) -> Iterator[Finding]:
        for tower in ("users", "items"):
            names = (f"{tower}.weight", "scale")
            yield self.finding("tanh is overwritten", location=Location("train.py", 3), tensors=names)
        yield self.finding("tanh is overwritten", location=Location("train.py", 5), tensors=("scale",))


class OfTwoCallers(Rule):
    code, name, severity = "GV791", "indexes_not_shifted", "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        for rows, line in ((304, 3), (1_338, 3), (304, 5)):
            yield self.finding(f"indexes choose among {rows:,} rows", location=Location("train.py", line))
        for name in ("conv1", "conv2"):
            yield self.finding(f"the indexes of {name} choose", location=Location("train.py", 3))


class Steep(Rule):
    code, name, severity, comes_later = "GV204", "vanishing_chain", "warning", True

    def check(self, case: Case) -> Iterator[Finding]:
        yield self.finding("the gradient vanishes", location=Location("train.py", 3), tensors=("v",))


class OfBothLines(Rule):
    code, name, severity, is_general = "GV601", "missing_zero_grad", "error", True

    def check(self, case: Case) -> Iterator[Finding]:
        first, second = Location("train.py", 3), Location("train.py", 5)
        for tensor in ("w", "b"):
            yield self.finding(f"{tensor} is not cleared", location=second, symptom_location=first, tensors=(tensor,))


class OfTheLoop(Rule):
    code, name, severity = "GV633", "sampling_gradients_kept", "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        first, second = Location("train.py", 3), Location("train.py", 5)
        yield self.finding("a loop leaves gradients", location=first, symptom_location=second, tensors=("w",))


class Broken(Rule):
    code, name, severity = "GV999", "broken", "error"

    def check(self, case: Case) -> Iterator[Finding]:
        yield self.finding("half a finding")
        raise KeyError("mask")


class Strict(Rule):
    code, name, severity, requested_by = "GV799", "strict", "error", "--strictly"

    def check(self, case: Case) -> Iterator[Finding]:
        yield from ()


RULES = (Rounded, Shallow, Broken, Deep)


def messages(*rules: type[Rule]) -> list[str]:
    return [finding.message for finding in check_case(Case(CAPTURE), rules).findings]


def test_the_most_severe_findings_come_first() -> None:
    assert messages(Rounded, Deep) == ["w is cut off", "round has no slope"]


def test_what_may_have_many_causes_comes_after_findings_that_are_as_severe() -> None:
    assert messages(Steep, Rounded) == ["round has no slope", "the gradient vanishes"]
    assert messages(Steep, Rounded, Deep)[0] == "w is cut off"


def test_two_lines_that_a_rule_with_more_precise_words_joins_are_told_once() -> None:
    assert messages(OfBothLines) == ["w is not cleared", "b is not cleared"]
    assert messages(OfBothLines, OfTheLoop) == ["b is not cleared", "a loop leaves gradients"]
    assert messages(OfBothLines, Deep) == ["w is not cleared", "b is not cleared", "w is cut off"]


def test_a_finding_that_another_rule_explains_is_left_out() -> None:
    assert messages(Shallow) == ["w got nothing", "b got nothing"]
    assert messages(Shallow, Deep) == ["b got nothing", "w is cut off"]


def test_a_line_that_does_the_same_in_two_modules_is_one_finding_with_the_tensors_of_both() -> None:
    findings = check_case(Case(CAPTURE), (OfTwoTowers,)).findings
    assert [(each.location and each.location.line, each.tensors) for each in findings] == [
        (3, ("users.weight", "scale", "items.weight")),
        (5, ("scale",)),
    ]


def test_a_line_that_two_callers_run_with_other_counts_is_one_finding() -> None:
    assert [
        (each.location and each.location.line, each.message)
        for each in check_case(Case(CAPTURE), (OfTwoCallers,)).findings
    ] == [
        (3, "indexes choose among 304 rows"),
        (5, "indexes choose among 304 rows"),
        (3, "the indexes of conv1 choose"),
        (3, "the indexes of conv2 choose"),
    ]


def test_a_rule_that_fails_is_reported_and_the_others_run() -> None:
    result = check_case(Case(CAPTURE), (Broken, Deep))
    verdict, breakdown = result.findings
    assert verdict.message == "w is cut off"
    assert (breakdown.code, breakdown.severity) == ("GV000", "note")
    assert "GV999 (broken)" in breakdown.message
    assert "KeyError: 'mask'" in breakdown.message
    assert result.rules == ("GV101",)


@pytest.mark.parametrize(
    ("select", "ignore", "chosen"),
    [
        ([], [], ["GV201", "GV190", "GV999", "GV101"]),
        (["GV1"], [], ["GV190", "GV101"]),
        (["gv101", "broken"], [], ["GV999", "GV101"]),
        (["GV1"], ["detached"], ["GV190"]),
    ],
)
def test_rules_are_chosen_by_name_code_and_family(select: list[str], ignore: list[str], chosen: list[str]) -> None:
    assert [rule.code for rule in chosen_rules(RULES, select, ignore)] == chosen


def test_an_unknown_rule_is_refused_with_those_most_like_it() -> None:
    with pytest.raises(BadInput, match=r"no rule 'GV102'.*GV101"):
        chosen_rules(RULES, ["GV102"], [])


def test_a_rule_on_request_runs_only_if_requested_and_can_be_ignored() -> None:
    rules = (*RULES, Strict)
    assert Strict not in chosen_rules(rules, [], [])
    assert chosen_rules(rules, ["GV1"], [], [Strict])[-1] is Strict
    assert Strict not in chosen_rules(rules, [], ["GV799"], [Strict])
    with pytest.raises(BadInput, match=r"GV799 \(strict\) only runs on request") as refusal:
        chosen_rules(rules, ["strict"], [])
    assert refusal.value.hint == "--strictly asks for it"


def test_a_comment_on_the_line_suppresses_a_finding_and_is_counted() -> None:
    report = check_report(Case(CAPTURE), (Rounded, Deep))
    assert [finding.code for finding in report.findings] == ["GV101"]
    assert report.suppressed == 1


def test_only_findings_that_are_not_in_the_baseline_are_new_even_if_lines_moved() -> None:
    before = check_report(Case(CAPTURE), (Deep,))
    known = read_baseline(baseline_of("train.py", before.findings, before.source), "known.json", "train.py")
    lines = {"train.py": {3: "h = h.detach()  # a cut", 5: "loss.backward()"}}
    report = check_report(Case(Capture(Program("train.py"), sources=lines)), (Shallow, Deep), known)
    assert [finding.message for finding in report.findings] == ["b got nothing"]
    assert report.known == 1


def test_a_comment_that_names_no_rule_is_reported_with_its_line_and_near_names() -> None:
    lines = {"train.py": {3: "h = h.detach()  # gradviz: ignore[detachd, GV2]"}}
    report = check_report(Case(Capture(Program("train.py"), sources=lines)), (Deep,))
    shown, unknown = report.findings
    assert (shown.code, unknown.location, unknown.severity) == ("GV101", Location("train.py", 3), "note")
    assert "'detachd'" in unknown.message
    assert "'detached'" in unknown.fix


@pytest.mark.parametrize(
    ("content", "refusal"),
    [
        (b"{", "not a baseline"),
        (b'{"program": "train.py"}', "not a baseline"),
        (baseline_of("a.py", (), {}), "of a.py, not"),
    ],
)
def test_a_file_that_is_no_baseline_of_this_program_is_refused(content: bytes, refusal: str) -> None:
    with pytest.raises(BadInput, match=refusal):
        read_baseline(content, "known.json", "train.py")


class Blind(Rule):
    code, name, severity, needs = "GV603", "custom_function_wrong_backward", "error", ("custom functions",)

    def check(self, case: Case) -> Iterator[Finding]:
        yield self.finding("guessed from nothing")


BLIND = replace(CAPTURE, missing={"custom functions": "custom functions are not seen"})
TOLD = "not looked for on this torch: GV603 (custom functions are not seen)"


def test_a_rule_that_lacks_what_it_needs_does_not_run_and_is_named_with_the_reason() -> None:
    result = check_case(Case(BLIND), [Blind, Deep])
    assert [finding.code for finding in result.findings] == ["GV101"]
    assert [(each.code, each.reason) for each in result.not_looked_for] == [("GV603", "custom functions are not seen")]
    assert check_case(Case(CAPTURE), [Blind]).not_looked_for == ()


def test_nothing_wrong_is_never_said_without_what_was_not_looked_for() -> None:
    text = FindingsText(100).text(check_report(Case(BLIND), [Blind]))
    assert text.splitlines()[0] == "train.py: nothing to check"
    assert TOLD in text


@pytest.mark.parametrize(
    ("raised", "told"),
    [
        ("KeyboardInterrupt", "nothing wrong found before it was interrupted"),
        ("ValueError", "it raised ValueError, which no rule explains"),
    ],
)
def test_an_interruption_by_the_user_is_no_failure_of_the_script(raised: str, told: str) -> None:
    report = Report("train.py", (), {}, ("3 backward calls",), raised=raised)
    assert FindingsText(100).text(report).splitlines()[0] == f"train.py: {told}"


def test_the_first_line_says_it_where_something_was_not_recorded() -> None:
    seen = Report("train.py", (), {}, ("3 backward calls",))
    first = FindingsText(100).text(seen).splitlines()[0]
    assert first == "train.py: nothing wrong found"
    unseen = replace(seen, disclosures=("the numbers inside compiled code",))
    text = FindingsText(100).text(unseen)
    assert text.splitlines()[0] == "train.py: nothing wrong found in what was recorded"
    assert "not recorded: the numbers inside compiled code" in text


@pytest.mark.parametrize("name", [each.name for each in FINDING_FORMATS])
def test_every_format_says_what_was_not_looked_for(name: str) -> None:
    said = finding_format(name).renderer(check_report(Case(BLIND), [Blind]))
    assert "GV603" in said
    assert "custom functions are not seen" in said
    assert "GV603" not in finding_format(name).renderer(check_report(Case(CAPTURE), []))


def test_rules_need_nothing_but_what_the_table_of_capabilities_has() -> None:
    known = {capability.name for capability in CAPABILITIES}
    assert {name for rule in (*of_gradviz.RULES, *of_gradviz.ON_REQUEST) for name in rule.needs} <= known
