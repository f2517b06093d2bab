"""The text of ``gradviz doctor``: what does not work comes first, and everything fits."""

from __future__ import annotations

import pytest

from gradviz.rendering.reports.doctor_document import CapabilityResult, DoctorDocument, Part, State, doctor_document
from gradviz.rendering.reports.doctor_text import doctor_text


def part(name: str, state: State, found: str = "1.0", lost: str = "", remedy: str = "") -> Part:
    return Part(name, state, found, "something", lost, remedy)


def capability(name: str, state: State, lost: str = "what nodes saved", instead: str = "") -> CapabilityResult:
    return CapabilityResult(name, state, f"to know {name}", lost, instead, "2.13 to 2.15", ("Node._x",))


def document(torch: State = "works", saved: State = "works", dot: State = "works") -> DoctorDocument:
    versions = (part("Python", "works", "3.11"), part("torch", torch, "2.13", "no recording", "pip install torch"))
    machine = (part("dot", dot, "not installed", "no --engine dot", "apt install graphviz"),)
    return doctor_document(versions, machine, (capability("views", "works"), capability("saved tensors", saved)))


def test_with_everything_there_no_problem_is_found() -> None:
    assert doctor_text(document(), 80).splitlines()[0] == "no problem found"


def test_problems_come_before_limits_and_both_before_what_works() -> None:
    lines = doctor_text(document(torch="problem", saved="limited"), 80).splitlines()
    assert lines[:4] == [
        "1 problem and 1 limit",
        "",
        "✗ problem  torch          2.13; no recording; pip install torch",
        "! limited  saved tensors  lost: what nodes saved; seen to work with torch 2.13",
    ]


def test_a_limit_that_something_else_makes_up_for_says_what() -> None:
    result = capability("views", "limited", lost="", instead="all tensors are asked")
    text = doctor_text(doctor_document((), (), (result,)), 80)
    assert "! limited  views  instead: all tensors are asked; seen to work" in text
    assert "lost" not in text


def test_without_torch_the_first_line_says_what_can_be_done() -> None:
    first = doctor_text(document(torch="absent"), 80).splitlines()[0]
    assert first == "torch is not installed: recordings can be shown, nothing can be recorded"


def test_what_is_absent_says_what_is_missed_and_how_to_get_it() -> None:
    text = doctor_text(document(dot="absent"), 80)
    assert "· absent   dot  not installed; no --engine dot; apt install graphviz" in text
    assert text.startswith("no problem found")


@pytest.mark.parametrize("width", [60, 80, 120])
def test_it_fits(width: int) -> None:
    lines = doctor_text(document("problem", "limited", "absent"), width).splitlines()
    assert max(map(len, lines)) <= width


def test_colours_are_added_to_the_words_and_replace_none() -> None:
    coloured = doctor_text(document(saved="limited"), 80, color=True)
    assert "\x1b[" in coloured
    assert "! limited" in coloured
