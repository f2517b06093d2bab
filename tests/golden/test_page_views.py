"""The page looks as in the committed pictures, except for the smoothing of letters."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image
from playwright.sync_api import Browser

from tests.end_to_end.pages import started_browser
from tests.golden.drawn_pictures import drawn_page
from tests.golden.page_views import TOLERATED, VIEWS, PageView, demo_page, difference, take
from tests.golden.test_gallery import ACTUAL
from tests.shared_runs import SharedFolders


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with started_browser() as browser:
        yield browser


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.name)
def test_a_page_looks_as_in_its_committed_picture(
    view: PageView, browser: Browser, shared: SharedFolders, tmp_path: Path
) -> None:
    page = demo_page() if view.sample == "mlp" else drawn_page(shared)
    taken, actual = take(browser, view, page, tmp_path), ACTUAL / view.file.name
    part = difference(taken, view.file)
    if part <= TOLERATED:
        actual.unlink(missing_ok=True)
        return
    ACTUAL.mkdir(exist_ok=True)
    actual.write_bytes(taken.read_bytes())
    pytest.fail(
        f"{part:.1%} of {view.file} looks different now: see {actual}; `make gallery` accepts it", pytrace=False
    )


def test_a_box_that_moved_is_a_difference(tmp_path: Path) -> None:
    for name, left in (("one", 20), ("other", 40)):
        picture = Image.new("RGB", (400, 300), "white")
        picture.paste("navy", (left, 40, left + 100, 80))
        picture.save(tmp_path / f"{name}.png")
    assert difference(tmp_path / "one.png", tmp_path / "other.png") > TOLERATED
    assert difference(tmp_path / "one.png", tmp_path / "one.png") == 0
