"""The documentation builds: every command on its pages does what the page says. Its result needs no network."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tests.end_to_end.command import python
from tests.end_to_end.pages import started_browser
from tests.shared_runs import SharedFolders

REPOSITORY = Path(__file__).parents[2]
COURSE = sorted((REPOSITORY / "samples" / "course").glob("*.py"))


@pytest.fixture
def documentation(shared: SharedFolders) -> Path:
    """The built documentation. Two builds at the same time would write to the same files."""

    def fill(folder: Path) -> None:
        build = [sys.executable, "-m", "sphinx", "--fail-on-warning", "--keep-going", "--quiet", "--fresh-env"]
        run = subprocess.run([*build, "docs", str(folder / "html")], cwd=REPOSITORY, capture_output=True, text=True)
        assert run.returncode == 0, run.stderr

    return shared.folder("documentation", fill) / "html"


class _Links(HTMLParser):
    """The targets of a page and its links to others; pages that commands wrote have none for us to check."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.targets: set[str] = set()
        self.links: list[str] = []
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        for name, value in attributes:
            if name == "id" and value:
                self.targets.add(value)
            elif name in ("href", "src") and value:
                self.links.append(value)


def _broken(documentation: Path) -> Iterator[str]:
    pages = {page: _Links(page) for page in documentation.rglob("*.html") if "gradviz_pages" not in page.parts}
    targets: defaultdict[Path, set[str]] = defaultdict(set, {page: found.targets for page, found in pages.items()})
    for page, found in pages.items():
        for link in found.links:
            parts = urlsplit(link)
            target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            if parts.scheme or parts.netloc:
                continue
            if not target.is_file() or (parts.fragment and target in pages and parts.fragment not in targets[target]):
                yield f"{page.relative_to(documentation)}: {link}"


def test_the_documentation_builds_without_a_warning_and_needs_no_network(documentation: Path) -> None:
    pages = sorted(documentation.rglob("*.html"))
    assert len(pages) > 50
    loaded = re.compile(r'<(?:script|img|iframe|link)\b[^>]*?\b(?:src|href)="(https?:[^"]+)"')
    assert {page.name: loaded.findall(page.read_text(encoding="utf-8")) for page in pages} == {
        page.name: [] for page in pages
    }


def test_every_link_of_the_documentation_leads_to_something(documentation: Path) -> None:
    assert list(_broken(documentation)) == []


def test_its_search_finds_pages_without_a_network(documentation: Path) -> None:
    with started_browser() as browser:
        context = browser.new_context(offline=True)
        page = context.new_page()
        page.goto(f"{(documentation / 'search.html').as_uri()}?q=checkpointing")
        result = page.locator("#search-results ul.search li a").first
        result.wait_for(timeout=60_000)
        found = page.locator("#search-results ul.search li a").all_text_contents()
        assert any("Checkpointing and memory" in title for title in found), found
        result.click()
        assert "checkpointing" in page.content().lower()


@pytest.mark.parametrize("lesson", COURSE, ids=[lesson.stem for lesson in COURSE])
def test_every_fact_of_a_lesson_holds(lesson: Path, tmp_path: Path) -> None:
    run = python(lesson, cwd=tmp_path)
    said = re.sub(r".*Guards may run slower.*\n.*\n", "", run.stderr)  # Dynamo, with Python 3.13.0 alone
    assert (run.exit_code, said) == (0, "")


def test_every_lesson_of_the_course_has_a_page_that_shows_it() -> None:
    pages = "".join(page.read_text(encoding="utf-8") for page in (REPOSITORY / "docs" / "course").glob("*.md"))
    assert len(COURSE) == 10
    assert [lesson.name for lesson in COURSE if f"{{script}} {lesson.name}" not in pages] == []
