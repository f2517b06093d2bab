"""Rules on parameters and optimizers: other programs than the documentation shows, and similar but correct ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradviz.analysis.case import Case
from gradviz.analysis.check.checker import check_case
from gradviz.analysis.check.why import why
from gradviz.analysis.finding import Finding
from gradviz.analysis.parameters.parameter_outcomes import counted_outcomes
from gradviz.analysis.rules import RULES
from gradviz.errors import BadInput
from gradviz.recording.run.program import find_script
from gradviz.recording.run.recording_plan import RecordingPlan
from gradviz.recording.script_runner import run

PROGRAMS = Path(__file__).parent / "parameter_programs"
FAULTY = sorted(path for path in PROGRAMS.glob("*/*.py") if path.parent.name != "healthy")
HEALTHY = sorted(PROGRAMS.glob("healthy/*.py"))

TORCHSCRIPT = pytest.mark.filterwarnings("ignore:.torch.jit.(script|trace)(_method)?. is deprecated:DeprecationWarning")
"""Warnings of torch itself, in some of these programs."""

PARTLY_FROZEN = HEALTHY[0].with_name("a_part_that_was_frozen_before.py")


def checked(program: Path) -> tuple[Case, list[Finding]]:
    plan = RecordingPlan(backward=None, keep_going=True, calls=True, for_pictures=False)
    case = Case(run(find_script(str(program)), (), plan).capture)
    return case, [finding for finding in check_case(case, RULES).findings if finding.is_alarm]


@TORCHSCRIPT
@pytest.mark.parametrize("program", FAULTY, ids=lambda program: program.stem)
def test_the_fault_is_named_with_its_line(program: Path) -> None:
    guilty = next(n for n, line in enumerate(program.read_text().splitlines(), start=1) if line.endswith("# guilty"))
    findings = checked(program)[1]
    assert [(each.cause, each.location and each.location.line) for each in findings[:1]] == [
        (program.parent.name, guilty)
    ]


@TORCHSCRIPT
@pytest.mark.parametrize("program", HEALTHY, ids=lambda program: program.stem)
def test_a_healthy_program_has_no_findings(program: Path) -> None:
    assert checked(program)[1] == []


def test_every_parameter_has_an_outcome() -> None:
    case, findings = checked(PARTLY_FROZEN)
    assert counted_outcomes(case) == "4 parameters: 2 reached, 2 frozen at a_part_that_was_frozen_before.py:8 (net.0)"
    assert why(case, findings, "net[0].weight").verdict == "gets no gradient: it does not require grad"
    healthy = why(case, findings, "2.bias")
    assert (healthy.name, healthy.verdict[:24]) == ("net.2.bias", "gets a gradient, of norm")
    assert dict(healthy.facts)["optimizer"] == "SGD opt"


@pytest.mark.parametrize(("name", "hint"), [("net.2.wieght", "net.2.weight"), ("weight", "net.0.weight, net.2.weight")])
def test_an_unknown_name_gets_near_matches(name: str, hint: str) -> None:
    case, findings = checked(PARTLY_FROZEN)
    with pytest.raises(BadInput) as told:
        why(case, findings, name)
    assert hint in str(told.value.hint)
