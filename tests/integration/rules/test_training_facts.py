"""Where no rule finds anything, the report says what was trained, for its author to compare with what was meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradviz.analysis.case import Case
from gradviz.analysis.check.report import Report, check_report
from gradviz.analysis.rules import RULES
from gradviz.rendering.reports.findings.json import findings_json
from gradviz.rendering.reports.findings.text import FindingsText
from tests.integration.rules.test_missing_gradients import BEGINNING, recorded

TWO_TERMS = """\
    z = body(x)
    recon = torch.nn.functional.mse_loss(head(z), x[:, :2])
    spread = z.var(dim=1).mean()
    loss = recon + 0.5 * spread
"""


def report_of(middle: str, folder: Path, beginning: str = BEGINNING) -> Report:
    return check_report(Case(recorded(middle, folder, beginning)), RULES)


def test_each_term_of_a_loss_is_told_with_its_line_axes_and_value(tmp_path: Path) -> None:
    report = report_of(TWO_TERMS, tmp_path)
    terms = [fact for fact in report.trained if fact.title == "term of loss"]
    assert [fact.text.partition("; ")[0] for fact in terms] == [
        "mse_loss of 6 x 2 and 6 x 2 (mean)",
        "var over axis 1 of 6 x 4, then mean of all 6",
    ]
    lines = [report_line(tmp_path, fact.location.line) for fact in terms if fact.location is not None]
    assert lines == ["recon = torch.nn.functional.mse_loss(head(z), x[:, :2])", "spread = z.var(dim=1).mean()"]


def report_line(folder: Path, line: int) -> str:
    (script,) = folder.glob("*.py")
    return script.read_text().splitlines()[line - 1].strip()


def test_the_value_of_a_term_is_what_it_adds_to_the_loss(tmp_path: Path) -> None:
    report = report_of("    error = head(body(x)).square().mean()\n    loss = error + 4.0 * error", tmp_path)
    (values,) = (fact.text.partition("; last value ")[2] for fact in report.trained if fact.title == "loss")
    plain, weighted = sorted(map(float, values.split(" and ")))
    assert weighted == pytest.approx(4 * plain, rel=0.01)


def test_a_term_that_is_subtracted_has_a_minus(tmp_path: Path) -> None:
    report = report_of("    loss = body(x).square().mean() - head(body(x)).square().mean()", tmp_path)
    values = [float(fact.text.partition("; last value ")[2]) for fact in report.trained if fact.title == "term of loss"]
    assert [value > 0 for value in values] == [True, False]


def test_an_optimizer_is_told_with_what_it_holds(tmp_path: Path) -> None:
    facts = report_of(TWO_TERMS, tmp_path).trained
    assert [fact.text for fact in facts if fact.title == "optimizer"] == [
        "optimizer: SGD, 4 tensors, 2 steps, learning rate 0.1"
    ]


def test_a_learning_rate_that_is_a_tensor_is_said_to_be_unknown(tmp_path: Path) -> None:
    facts = report_of(TWO_TERMS, tmp_path, BEGINNING.replace("0.1", "torch.tensor(0.1)")).trained
    assert [fact.text for fact in facts if fact.title == "optimizer"] == [
        "optimizer: SGD, 4 tensors, 2 steps, learning rate not known: no group has one that is a plain number"
    ]


BUFFER = BEGINNING + "    head.register_buffer('mix', torch.tensor([1.0, 0.0])) if step == 0 else None\n"


@pytest.mark.parametrize(("uses", "told"), [("head.mix", ["head.mix (2): a buffer"]), ("2.0", [])])
def test_a_buffer_in_a_loss_is_said_to_be_constant(uses: str, told: list[str], tmp_path: Path) -> None:
    report = report_of(f"    loss = (head(body(x)) * {uses}).square().mean()", tmp_path, BUFFER)
    assert [fact.text for fact in report.trained if fact.title == "not trained"] == told


def test_parameters_that_several_calls_share_are_told_with_how_many(tmp_path: Path) -> None:
    report = report_of("    loss = head(body(body(body(x)))).square().mean()", tmp_path)
    assert [fact.text for fact in report.trained if fact.title == "shared"] == [
        "body (each parameter is used 3 times for one backward)"
    ]


def test_where_something_is_wrong_nothing_else_is_told(tmp_path: Path) -> None:
    report = report_of("    loss = head(body(x).detach()).square().mean()", tmp_path)
    assert report.findings
    assert not report.trained


def test_facts_are_in_the_text_and_in_json(tmp_path: Path) -> None:
    report = report_of(TWO_TERMS, tmp_path)
    text = FindingsText(80).text(report)
    assert "to compare with what you meant" in text
    assert max(map(len, text.splitlines())) <= 80
    assert '"var over axis 1 of 6 x 4, then mean of all 6' in findings_json(report)
