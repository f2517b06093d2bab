"""``--inside`` measures gradients inside compiled code: those of uncompiled code; the program does not notice."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.integration.recording.child import forked_result
from tests.integration.recording.compiled.test_regions import NAMES, UNMEASURED
from tests.shared_runs import SharedFolders

_RUN = """
import logging
import warnings

logging.disable(logging.WARNING)
warnings.simplefilter("ignore")
import torch._dynamo

from tests.integration.recording.compiled.second_runs import DANGERS, compared, endangered

found = {{name: compared(name, {backend!r}) for name in {names!r}}}
found["dangers"] = {{name: endangered(name, {backend!r}) for name in {dangers!r}}}
print(json.dumps(found))
"""


SAME = ("random", "statistics", "views")
CHANGED = ("changed by itself", "changed by itself, late")
OTHER = ("changed by the program", "operators of others")


def outcome(backend: str, names: tuple[str, ...], dangers: tuple[str, ...]) -> Any:
    return forked_result(_RUN.format(backend=backend, names=names, dangers=dangers))


@pytest.fixture
def found(shared: SharedFolders) -> dict[str, Any]:
    def fill(folder: Path) -> None:
        (folder / "found.json").write_text(json.dumps(outcome("aot_eager", NAMES, (*SAME, *CHANGED, *OTHER))))

    result: dict[str, Any] = json.loads((shared.folder("compiled-inside", fill) / "found.json").read_text())
    return result


@pytest.mark.parametrize("name", NAMES)
def test_gradients_inside_are_bit_for_bit_those_of_uncompiled_code(found: dict[str, Any], name: str) -> None:
    assert found[name]["distance"] == 0.0
    assert found[name]["measured"]
    assert not any(UNMEASURED in each for each in found[name]["disclosures"])
    assert any("the rounding of compiled code" in each for each in found[name]["disclosures"])


@pytest.mark.parametrize("name", [*SAME, *CHANGED, *OTHER])
def test_a_second_run_changes_nothing_in_the_program(found: dict[str, Any], name: str) -> None:
    assert found["dangers"][name]["same"]


@pytest.mark.parametrize("name", SAME)
def test_random_numbers_statistics_and_views_are_those_of_the_first_run(found: dict[str, Any], name: str) -> None:
    assert found["dangers"][name]["measured"] == [True]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("changed by the program", "something that it got was changed in place before backward ended"),
        ("operators of others", "it calls gradviz_test::noted, which may do more than compute"),
    ],
)
def test_where_a_second_run_is_not_safe_there_is_none_and_it_is_told(
    found: dict[str, Any], name: str, reason: str
) -> None:
    assert found["dangers"][name]["measured"] == [False]
    assert any(each.endswith(f"in a second run: {reason}") for each in found["dangers"][name]["disclosures"])


@pytest.mark.parametrize("name", CHANGED)
def test_gradients_that_compiled_code_gets_wrong_are_told_and_no_second_ones_shown(
    found: dict[str, Any], name: str
) -> None:
    """With torch 2.13 the backward of these programs computes again with a buffer that was changed since."""
    result = found["dangers"][name]
    is_told = any("so compiled code computes something else" in each for each in result["disclosures"])
    assert result["measured"] == [not is_told]
    assert is_told == result["is_wrong"]


@pytest.mark.skipif(shutil.which("g++") is None, reason="inductor needs a C++ compiler")
def test_inductor_agrees_within_rounding_and_its_random_numbers_are_not_guessed() -> None:
    result = outcome("inductor", ("whole",), ("random",))
    assert result["whole"]["measured"]
    assert result["whole"]["distance"] < 1e-5
    random = result["dangers"]["random"]
    assert (random["same"], random["measured"]) == (True, [False])
    assert any("it draws random numbers, and a second run draws others" in each for each in random["disclosures"])
