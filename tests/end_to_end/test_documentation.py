"""The documentation builds: every command on its pages does what the page says. Its result needs no network."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.end_to_end.command import python

REPOSITORY = Path(__file__).parents[2]
COURSE = sorted((REPOSITORY / "samples" / "course").glob("*.py"))


@pytest.fixture(scope="module")
def documentation(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built documentation."""
    result = tmp_path_factory.mktemp("documentation") / "html"
    build = [sys.executable, "-m", "sphinx", "--fail-on-warning", "--keep-going", "--quiet", "--fresh-env"]
    run = subprocess.run([*build, "docs", str(result)], cwd=REPOSITORY, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return result


@pytest.mark.timeout(600)  # about seventy commands
def test_the_documentation_builds_without_a_warning_and_needs_no_network(documentation: Path) -> None:
    pages = sorted(documentation.rglob("*.html"))
    assert len(pages) > 50
    loaded = re.compile(r'<(?:script|img|iframe|link)\b[^>]*?\b(?:src|href)="(https?:[^"]+)"')
    assert {page.name: loaded.findall(page.read_text(encoding="utf-8")) for page in pages} == {
        page.name: [] for page in pages
    }


@pytest.mark.parametrize("lesson", COURSE, ids=[lesson.stem for lesson in COURSE])
def test_every_fact_of_a_lesson_holds(lesson: Path, tmp_path: Path) -> None:
    run = python(lesson, cwd=tmp_path)
    said = re.sub(r".*Guards may run slower.*\n.*\n", "", run.stderr)  # Dynamo, with Python 3.13.0 alone
    assert (run.exit_code, said) == (0, "")
