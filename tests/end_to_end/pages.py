"""Pages in a real browser, for tests, which look only at what is on the screen."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, sync_playwright

from gradviz.capture.capture import Capture, Program
from gradviz.graph.model import Graph
from gradviz.rendering.formats import format_named
from gradviz.rendering.page.html import HtmlRenderer
from gradviz.rendering.subjects import subject_of
from gradviz.view.build import ViewOptions
from tests.debian_packages import BROWSERS


@contextmanager
def started_browser() -> Iterator[Browser]:
    """The browser that the machine has."""
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        pytest.skip(f"there is no {', '.join(BROWSERS)} on this machine")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--font-render-hinting=none"])
        yield browser
        browser.close()


def page_of(graph: Graph, capture: Capture | None = None, view: ViewOptions | None = None, **look: object) -> str:
    """The file that shows a graph."""
    whole = capture or Capture(Program("train.py", torch_version="2.13.0"), (graph,))
    content = format_named("html").renderer(**look).render(subject_of(whole, graph, view or ViewOptions()))
    assert isinstance(content, str)
    return content


def page_of_all(graphs: Sequence[Graph], **look: object) -> str:
    """The file that shows several graphs of one recording."""
    capture = Capture(Program("train.py", torch_version="2.13.0"), tuple(graphs))
    return HtmlRenderer(**look).page([subject_of(capture, graph, ViewOptions()) for graph in graphs])  # type: ignore[arg-type]


@dataclass
class Screen:
    """An open page; its errors and warnings are in `complaints`."""

    page: Page
    complaints: list[str]
    file: Path

    def reopen(self, content: str, address: str = "") -> Screen:
        """Opens a page from disk."""
        self.file.write_text(content, encoding="utf-8")
        self.page.goto("about:blank")
        self.page.goto(f"file://{self.file}{address}")
        return self.settled()

    def note_request(self, url: str) -> None:
        """Nothing but the page itself may be loaded."""
        if not url.startswith(("file:", "data:font/", "blob:", "about:")):
            self.complaints.append(url)

    def settled(self) -> Screen:
        """Wait until nothing moves, and the panel has all that it shows."""
        self.page.wait_for_selector("#picture[data-ready][data-settled]:not([data-moving])", timeout=60_000)
        self.page.wait_for_selector("#panel:not([aria-busy])", state="attached", timeout=60_000)
        return self

    def item(self, title: str) -> Locator:
        """The item with that title, not an item inside it."""
        return self.page.locator(f'#picture .item:has(text.t:text-is("{title}"), text.v:text-is("{title}"))')

    def titles(self) -> list[str]:
        """The titles of everything in the picture, closed or open, sorted."""
        return self._titles("")

    def click(self, title: str, **options: Any) -> Screen:
        """Click on the words of an item."""
        self.item(title).first.locator("text").first.click(**options)
        return self.settled()

    def toggle(self, title: str) -> Screen:
        """Click on the sign that opens and closes a box."""
        self.item(title).first.locator(".toggle").click()
        return self.settled()

    def press(self, *keys: str) -> Screen:
        for key in keys:
            self.page.keyboard.press(key)
            self.settled()
        return self

    def turn_to(self, tab: str) -> None:
        """Shows one of the lists about the whole graph."""
        self.page.click(f"#panel [role=tab]:text-is('{tab}')")

    def search(self, words: str) -> str:
        """Types into the search field; returns what the page says about it."""
        self.page.fill("#search", words)
        return self.page.inner_text("#search-count")

    def panel(self) -> str:
        return self.page.inner_text("#panel")

    def heading(self) -> str:
        """The title of the panel."""
        return self.page.inner_text("#panel h2")

    def in_state(self, state: str) -> list[str]:
        """Titles of items and boxes in a state of the replay, sorted."""
        return self._titles(f".{state}")

    def lit(self, way: str) -> list[str]:
        """Titles of items that are highlighted as ``from`` or ``to`` the selected one, sorted."""
        return self._titles(f".lit-{way}")

    def _titles(self, marked: str) -> list[str]:
        script = "marked => [...document.querySelectorAll(`#picture .item${marked}`)]"
        return sorted(self.page.evaluate(f"{script}.map(i => i.querySelector('text').firstChild.data)", marked))

    def place(self, title: str) -> tuple[float, float]:
        """Where the middle of an item's upper edge is on the screen."""
        script = "element => { const r = rectOf(element); return [(r.x + r.right) / 2, r.y]; }"
        x, y = self.item(title).first.evaluate(f"element => {{ {_RECT_OF} return ({script})(element); }}")
        return x, y

    def widths(self) -> list[str]:
        """How wide the wires between items are drawn, those to roots not counted."""
        script = "[...document.querySelectorAll('.wire path:not(.w)')].map(p => getComputedStyle(p).strokeWidth)"
        found: list[str] = self.page.evaluate(script)
        return found[:-1]

    def overlaps(self) -> list[str]:
        """Pairs of things that overlap although neither contains the other."""
        found: list[str] = self.page.evaluate(_OVERLAPS)
        return found

    def titles_on_titles(self) -> list[str]:
        """Pairs of titles of open boxes that overlap."""
        found: list[str] = self.page.evaluate(_TITLES_ON_TITLES)
        return found

    def stray_ends(self) -> list[str]:
        """Wires of which an end touches neither an item nor the border of a box."""
        found: list[str] = self.page.evaluate(_STRAY_ENDS)
        return found


_RECT_OF = """
const rectOf = element => {
  const back = document.querySelector(`#picture [data-back="${element.dataset.item}"]`);
  const parts = back ? [back] : [...element.querySelectorAll(':scope > .s')];
  const rects = parts.map(part => part.getBoundingClientRect());
  const front = rects.at(-1);
  const bottom = Math.max(...rects.map(rect => rect.bottom));
  return {x: front.x, y: front.y, right: front.right, bottom, isBox: Boolean(back)};
};
"""
_RECTS = f"""{_RECT_OF}
const rects = [...document.querySelectorAll('#picture .item')].map(element =>
  ({{...rectOf(element), title: element.querySelector('text').firstChild.data}}));
"""
_OVERLAPS = f"""() => {{ {_RECTS}
const within = (a, b) => a.x >= b.x - 1 && a.right <= b.right + 1 && a.y >= b.y - 1 && a.bottom <= b.bottom + 1;
const found = [];
for (const [i, a] of rects.entries()) for (const b of rects.slice(i + 1)) {{
  const apart = a.right <= b.x + 1 || b.right <= a.x + 1 || a.bottom <= b.y + 1 || b.bottom <= a.y + 1;
  if (!apart && !(b.isBox && within(a, b)) && !(a.isBox && within(b, a))) found.push(`${{a.title}} / ${{b.title}}`);
}}
return found; }}"""
_TITLES_ON_TITLES = """() => {
const titles = [...document.querySelectorAll('#picture .h.item .title')];
const shown = titles.filter(title => getComputedStyle(title).opacity > 0);
const rects = shown.map(({textContent: title, children: [, text]}) => ({title, rect: text.getBoundingClientRect()}));
const apart = (a, b) => a.right <= b.left || b.right <= a.left || a.bottom <= b.top + 1 || b.bottom <= a.top + 1;
const pairs = rects.flatMap((a, i) => rects.slice(i + 1).map(b => [a, b]));
return pairs.filter(([a, b]) => !apart(a.rect, b.rect)).map(([a, b]) => `${a.title} / ${b.title}`);
}"""
_STRAY_ENDS = f"""() => {{ {_RECTS}
const found = [];
const near = (value, ...edges) => edges.some(edge => Math.abs(value - edge) < 1.5);
for (const wire of document.querySelectorAll('.wire')) {{
  const path = wire.querySelector('.w');
  const turn = path.getScreenCTM();
  for (const place of [0, path.getTotalLength()]) {{
    const point = path.getPointAtLength(place).matrixTransform(turn);
    const touches = rects.some(r => point.x > r.x - 9 && point.x < r.right + 9
      && point.y > r.y - 9 && point.y < r.bottom + 9
      && (!r.isBox || near(point.y, r.y, r.bottom) || near(point.x, r.x, r.right)));
    if (!touches) found.push(wire.dataset.line);
  }}
}}
return found; }}"""
