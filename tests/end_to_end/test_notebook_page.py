"""The page in a notebook's cell, in a real browser, with and without permission to run scripts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from html import escape
from pathlib import Path

import pytest
from msgspec.structs import replace
from playwright.sync_api import Browser, FrameLocator, Page, expect

from gradviz.graph.model import BackwardCall, Root
from gradviz.inspection import Inspection
from gradviz.rendering.page import notebook
from gradviz.rendering.page.notebook import in_a_frame
from tests.captures import small_capture
from tests.end_to_end.pages import started_browser

Opener = Callable[..., Page]
READY = "#picture[data-ready][data-settled]:not([data-moving])"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with started_browser() as browser:
        yield browser


@pytest.fixture
def complaints() -> list[str]:
    """Messages of the browser; a test that expects one removes it."""
    return []


@pytest.fixture
def show(browser: Browser, tmp_path: Path, complaints: list[str]) -> Iterator[Opener]:
    """Opens a page with cells and a style for every element; nothing may be loaded or fail."""

    def note_request(url: str) -> None:
        if not url.startswith(("file:", "data:")):
            complaints.append(url)

    def open_page(*cells: str, head: str = "") -> Page:
        # Playwright tells every frame a colour scheme, if it is let.
        context = browser.new_context(color_scheme="null", reduced_motion="reduce")
        context.set_default_timeout(60_000)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: note_request(request.url))
        style = "<style>* {color: red} text {display: none}</style>"
        whole = f"<!doctype html>{head}{style}<body><p id=before>x</p>{''.join(cells)}<p style='height: 3000px'></p>"
        (tmp_path / "notebook.html").write_text(whole, encoding="utf-8")
        page.goto(f"file://{tmp_path}/notebook.html")
        return page

    yield open_page
    for context in browser.contexts:
        context.close()
    assert complaints == []


def cell(**options: object) -> str:
    return Inspection(small_capture()).html(**options)._repr_mimebundle_()["text/html"]


def frame_in(page: Page, place: int = 0) -> FrameLocator:
    frame = page.frame_locator("iframe").nth(place)
    frame.locator(READY).wait_for()
    return frame


def without_frames(html: str) -> str:
    """What remains if frames and style sheets are not allowed, as in a notebook that is not trusted."""
    return re.sub("<(iframe|style).*?</(iframe|style)>", "", html, flags=re.DOTALL)


def test_several_pages_work_on_their_own(show: Opener) -> None:
    page = show(cell(), cell(depth=0))
    one, other = frame_in(page), frame_in(page, 1)
    one.locator("#picture .item:has(text.t:text-is('linear')) text").first.click()
    expect(one.locator("#panel h2")).to_have_text("linear")
    expect(other.locator("#panel h2")).to_have_text("train.py --lr 0.1")
    other.locator(".toggle").first.click()
    expect(other.locator("#picture .item:has(text.t:text-is('linear'))")).to_have_count(1)
    assert page.url.endswith("notebook.html")
    expect(page.locator("#before")).to_have_css("color", "rgb(255, 0, 0)")
    expect(one.locator("#panel h2")).not_to_have_css("color", "rgb(255, 0, 0)")


def test_nothing_else_may_run_in_it(show: Opener, complaints: list[str]) -> None:
    frame = frame_in(show(cell()))
    script = "const s = document.createElement('script'); s.text = 'document.title = 1'; body.append(s);"
    title = frame.locator("body").evaluate(f"body => {{ {script} return document.title; }}")
    assert title == "train.py --lr 0.1 · gradviz"
    assert complaints.pop(0).startswith("Executing inline script violates")


def test_the_notebooks_own_theme_counts(show: Opener) -> None:
    page = show(cell())
    root = frame_in(page).locator("html")
    expect(root).to_have_attribute("data-theme", "light")
    page.locator("body").evaluate("body => { body.dataset.jpThemeLight = 'false'; }")
    expect(root).to_have_attribute("data-theme", "dark")
    expect(frame_in(show(cell(theme="dark"))).locator("html")).to_have_attribute("data-theme", "dark")


def test_the_wheel_scrolls_the_notebook_until_the_page_was_clicked(show: Opener) -> None:
    page = show(cell())
    frame = frame_in(page)
    scene, before = frame.locator("#scene"), frame.locator("#scene").get_attribute("transform")
    page.mouse.move(300, 300)
    page.mouse.wheel(0, 100)
    page.wait_for_function("scrollY > 50")
    expect(scene).to_have_attribute("transform", before or "")
    frame.locator("#picture").click(position={"x": 5, "y": 200})
    page.mouse.wheel(0, 100)
    expect(scene).not_to_have_attribute("transform", before or "")


NO_SCRIPTS = """<meta http-equiv="Content-Security-Policy" content="script-src 'none'">"""


@pytest.mark.parametrize(
    ("html", "head"), [(without_frames(cell()), ""), (cell(), NO_SCRIPTS)], ids=["no frames", "no scripts"]
)
def test_where_it_cannot_run_a_still_picture_is_seen(show: Opener, html: str, head: str, complaints: list[str]) -> None:
    page = show(html, head=head)
    page.locator("img").evaluate("image => image.decode()")
    size = page.locator("img").bounding_box()
    assert size is not None and size["height"] > 300
    seen = {page.screenshot() for _ in range(3)}
    page.locator("img").evaluate("image => { image.style.visibility = 'hidden'; }")
    # Also where a frame lies on it, which has nothing in it; the browser may take a moment to draw.
    assert any(page.screenshot() not in seen for _ in range(50))
    assert all("Content Security Policy" in complaint for complaint in complaints)
    complaints.clear()


SANDBOX = '<iframe sandbox="allow-scripts" style="width: 1200px; height: 800px" srcdoc="{}"></iframe>'
"""An origin without storage, as Colab uses for outputs."""
OF_VS_CODE = """<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src 'unsafe-inline'; \
style-src 'unsafe-inline'; img-src https: data:; font-src https:; connect-src https:; child-src https: data:">"""


@pytest.mark.parametrize(("around", "head"), [(SANDBOX, ""), ("{}", OF_VS_CODE)], ids=["colab", "vs code"])
def test_it_runs_where_others_allow_little_and_turns_to_another_graph(
    show: Opener, around: str, head: str, complaints: list[str]
) -> None:
    graph = small_capture().graphs[0]
    graphs = graph, replace(graph, roots=(Root(2, name="other"),), backward=BackwardCall(2))
    html = Inspection(replace(small_capture(), graphs=graphs))._repr_mimebundle_()["text/html"]
    frame = show(around.format(escape(html) if around == SANDBOX else html), head=head).frame_locator("iframe")
    page = frame.frame_locator("iframe") if around == SANDBOX else frame
    page.locator(READY).wait_for()
    page.locator("#call").select_option("1")
    expect(page.locator("#facts")).to_contain_text("backward() no. 2")
    page.locator(READY).wait_for()
    # The page's own font is one of the things that are refused.
    complaints[:] = [complaint for complaint in complaints if "font" not in complaint]


def test_nbconvert_keeps_the_page(show: Opener) -> None:
    import nbformat
    from nbconvert import HTMLExporter  # 4 s, for this alone

    output = nbformat.v4.new_output("execute_result", Inspection(small_capture())._repr_mimebundle_())
    output.execution_count = 1
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("recording", outputs=[output])])
    (converted, _) = HTMLExporter().from_notebook_node(notebook)
    # The page around it loads what draws mathematics from the network.
    frame_in(show(re.sub(r'<script [^>]*src="http[^>]*>', "<script>", converted)))


def test_its_height_is_that_of_the_picture_within_limits() -> None:
    heights = [in_a_frame("", f'<svg width="9" height="{height}">') for height in (30, 400, 5000)]
    assert [re.findall(r'height="(\d+)"', html) for html in heights] == [["420"], ["510"], ["600"]]


def test_a_page_that_would_make_the_notebook_large_is_a_picture_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notebook, "MAX_IN_A_NOTEBOOK", 1000)
    shown = Inspection(small_capture())._repr_mimebundle_()
    assert "<svg" in shown["text/html"] and "iframe" not in shown["text/html"]
    assert set(shown) == {"text/html", "image/svg+xml", "text/plain"}
