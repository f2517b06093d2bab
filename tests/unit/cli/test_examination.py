"""What ``gradviz doctor`` looks at besides torch."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from gradviz.cli.reports import examination
from gradviz.cli.reports.examination import PACKAGES, asked_versions, examined, is_within
from gradviz.rendering.reports.doctor_document import Part

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PROJECT = Path(__file__).parents[3] / "pyproject.toml"


def found(name: str) -> Part:
    document = examined()
    return next(each for each in (*document.versions, *document.machine) if each.name == name)


def test_every_package_that_gradviz_needs_is_looked_at() -> None:
    needed = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]["dependencies"]
    names = {re.split(r"[^\w.-]", each)[0] for each in needed}
    assert set(PACKAGES) | {"torch", "tomli"} == names


@pytest.mark.parametrize(
    ("version", "asked", "is_one"),
    [
        ("0.22.0", "<1,>=0.19", True),
        ("0.18.9", "<1,>=0.19", False),
        ("1.0", "<1,>=0.19", False),
        ("15.0.0", "<16,>=13.7", True),
        ("2.13.0+cpu", ">=2.6", True),
        ("7.1", "", True),
    ],
)
def test_a_version_is_compared_with_those_that_are_asked_for(version: str, asked: str, is_one: bool) -> None:
    assert is_within(version, asked) is is_one


def test_what_is_asked_for_is_read_from_the_installed_distribution(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = ["rich<16,>=13.7", "tomli<3,>=2; python_version < '3.11'", "typst<0.16; extra == 'pdf'", "PyYAML (>=6)"]
    monkeypatch.setattr("importlib.metadata.requires", lambda name: asked)
    assert asked_versions("rich") == "<16,>=13.7"
    assert asked_versions("tomli") == "<3,>=2"
    assert asked_versions("pyyaml") == ">=6"
    assert asked_versions("typst") == asked_versions("numpy") == ""


def test_a_package_of_another_version_is_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examination, "installed_version", lambda name: "12.0")
    monkeypatch.setattr(examination, "asked_versions", lambda name: "<16,>=13.7")
    assert (found("rich").state, found("rich").found) == ("limited", "12.0; gradviz asks for <16,>=13.7")


def test_a_package_that_is_missing_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examination, "installed_version", lambda name: None)
    assert (found("graphlay").state, found("graphlay").found) == ("problem", "not installed")
    assert examined().problems == len(PACKAGES)


def test_a_font_without_files_is_a_problem(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("gradviz.rendering.look.text_metrics.FONT_FOLDER", tmp_path)
    assert found("font").state == "problem"


def test_a_program_dot_that_fails_is_not_said_to_work(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "dot"
    program.write_text("#!/bin/sh\nexit 3\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert found("Graphviz's dot").state == "limited"
    assert "exit code 3" in found("Graphviz's dot").found
    program.unlink()
    assert found("Graphviz's dot").state == "absent"


def test_a_text_browser_without_a_display_is_no_browser(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    assert found("browser").state == "absent"


def test_a_folder_that_is_not_there_yet_is_a_cache_and_is_not_made(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("GRADVIZ_CACHE_DIR", str(tmp_path / "new" / "cache"))
    assert found("formula cache").state == "works"
    assert list(tmp_path.iterdir()) == []
