"""ARCHITECTURE.md names every folder of the package, and nothing that does not exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")


def folders() -> set[str]:
    package = ROOT / "gradviz"
    return {f"{init.parent.relative_to(package).as_posix()}/" for init in package.rglob("__init__.py")} - {"./"}


def test_every_folder_has_a_paragraph() -> None:
    described = set(re.findall(r"^\*\*`([a-z_/]+/)`\*\*", TEXT, re.MULTILINE))
    assert described == folders()


def test_every_file_that_it_names_is_there() -> None:
    named = set(re.findall(r"`([a-z_/]+\.py)`", TEXT))
    assert named
    missing = sorted(name for name in named if not (ROOT / "gradviz" / name).is_file())
    assert not missing


def test_no_folder_holds_more_files_than_one_can_read_at_a_glance() -> None:
    counts = {folder: len(list((ROOT / "gradviz" / folder).glob("*.py"))) for folder in folders()}
    assert {folder: count for folder, count in counts.items() if count > 22} == {}
