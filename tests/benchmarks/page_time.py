"""The page in Chromium: from opening the file to a picture, unfolding a box, searching, and a frame while zooming."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from playwright.sync_api import Browser, Page

from gradviz.graph.folding import FoldOptions
from gradviz.graph.model import Graph
from gradviz.graph.viewing import ViewOptions
from tests.benchmarks.measuring import Row
from tests.builders import chain_graph, transformer, unrolled_rnn
from tests.end_to_end.pages import page_of, started_browser

TURNS = 5
FOLDED = ViewOptions(fold=FoldOptions(depth=2))
"""So that there is a box to unfold."""

GRAPHS: dict[str, Graph] = {
    "transformer, 12 blocks": transformer(12),
    "transformer, 96 blocks": transformer(96),
    "transformer, 3,000 blocks": transformer(3_000),
    "RNN, 25,000 steps": unrolled_rnn(25_000),
    "chain of 100,000": chain_graph(100_000),
}

_OPENED = "() => performance.now()"
_MEMORY = "() => performance.memory.usedJSHeapSize / 1e6"
_UNFOLDED = """() => {
  const closed = [...document.querySelectorAll('#picture .item[aria-expanded="false"] .toggle')];
  if (!closed.length) return null;
  const start = performance.now();
  closed[0].dispatchEvent(new MouseEvent('click', {bubbles: true}));
  return performance.now() - start;
}"""
_FOUND = """() => {
  const field = document.getElementById('search');
  field.value = 'add';
  const start = performance.now();
  field.dispatchEvent(new Event('input'));
  return performance.now() - start;
}"""
_FRAME = """() => new Promise(done => {
  const svg = document.getElementById('picture'), times = [];
  let last = performance.now();
  requestAnimationFrame(function step(now) {
    times.push(now - last);
    last = now;
    const place = {clientX: 400, clientY: 300, bubbles: true, cancelable: true};
    svg.dispatchEvent(new WheelEvent('wheel', {deltaY: times.length % 2 ? 40 : -40, ...place}));
    if (times.length < 45) requestAnimationFrame(step);
    else done(times.slice(5).sort((one, other) => one - other)[20]);
  });
})"""


def measure() -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder, started_browser() as browser:
        for name, graph in GRAPHS.items():
            file = Path(folder) / "page.html"
            file.write_text(page_of(graph, view=FOLDED), encoding="utf-8")
            turns = [_measured(browser, file) for _ in range(TURNS)]
            times = {what: median(turn[what] for turn in turns) for what in turns[0]}
            yield Row(
                name,
                times["open"] / 1000,
                f"until it can be used; {file.stat().st_size / 1e6:.2f} MB, {times['heap']:.0f} MB in memory; "
                f"unfolding {times['unfold']:.0f} ms, search {times['search']:.1f} ms, frame {times['frame']:.0f} ms",
            )


def _measured(browser: Browser, file: Path) -> dict[str, float]:
    page: Page = browser.new_page(viewport={"width": 1280, "height": 800}, reduced_motion="reduce")
    page.goto(file.as_uri())
    page.wait_for_selector("#picture[data-ready]")
    found: dict[str, Any] = {"open": page.evaluate(_OPENED), "heap": page.evaluate(_MEMORY)}
    found |= {"unfold": page.evaluate(_UNFOLDED) or 0.0, "search": page.evaluate(_FOUND)}
    found["frame"] = page.evaluate(_FRAME)
    page.close()
    return found
