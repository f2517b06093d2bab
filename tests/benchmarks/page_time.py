"""The page in Chromium: making the file, opening it, memory, unfolding a box, searching, panning and zooming."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from playwright.sync_api import Browser, CDPSession, Page

from gradviz.graph.model import Graph
from gradviz.view.build import ViewOptions
from gradviz.view.folding import FoldOptions
from tests.benchmarks.measuring import Row
from tests.builders import chain_graph, irregular_graph, transformer, unrolled_rnn
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
    "10,000 distinct operations": irregular_graph(10_000),
    "100,000 distinct operations": irregular_graph(100_000),
}
"""The last two have no modules: everything lies directly in the outermost box."""

CROWDS: dict[str, Graph] = {
    "2,600 boxes in sight": irregular_graph(2_600, columns=200),
    "10,400 boxes in sight": irregular_graph(10_400, columns=200),
}

_OPENED = "() => performance.now()"
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
_FRAMES = """async kind => {
  const svg = document.getElementById('picture'), times = [], {x, y, width, height} = svg.getBoundingClientRect();
  const frame = () => new Promise(requestAnimationFrame);
  const at = step => ({bubbles: true, cancelable: true, view: window,
    clientX: x + width / 2 + 60 * Math.sin(step / 5), clientY: y + height / 2 + 60 * Math.cos(step / 5)});
  if (kind === 'pan') svg.dispatchEvent(new MouseEvent('mousedown', at(0)));
  let last = await frame();
  for (let step = 0; step < 60; step++) {
    if (kind === 'pan') window.dispatchEvent(new MouseEvent('mousemove', at(step)));
    else svg.dispatchEvent(new WheelEvent('wheel', {...at(0), deltaY: step % 16 < 8 ? 30 : -30}));
    const now = await frame();
    times.push(now - last);
    last = now;
  }
  if (kind === 'pan') window.dispatchEvent(new MouseEvent('mouseup', at(0)));
  return times.sort((one, other) => one - other)[30];
}"""


def measure() -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder, started_browser() as browser:
        file = Path(folder) / "page.html"
        for name, graph in GRAPHS.items():
            seconds = _written(file, graph, FOLDED)
            times, size = _medians([_looked_at(browser, file) for _ in range(TURNS)]), file.stat().st_size / 1e6
            yield Row(
                name,
                times["open"] / 1000,
                f"until it can be used, {times['heap']:.0f} MB of heap; {seconds:.1f} s to make its {size:.2f} MB; "
                f"unfolding {times['unfold']:.0f} ms, search {times['search']:.1f} ms",
            )
        for name, graph in CROWDS.items():
            _written(file, graph, ViewOptions(fold=FoldOptions(show_all=True)))
            times = _medians([_moved(browser, file) for _ in range(TURNS)])
            yield Row(
                name,
                times["zoom"] / 1000,
                f"for a frame while zooming, {times['pan']:.0f} ms while panning; the browser computes for "
                f"{times['zoom busy']:.0f} and {times['pan busy']:.0f} ms of that",
            )


def _written(file: Path, graph: Graph, view: ViewOptions) -> float:
    """Seconds of processor time that it took."""
    start = time.process_time()
    file.write_text(page_of(graph, view=view), encoding="utf-8")
    return time.process_time() - start


def _medians(turns: list[dict[str, float]]) -> dict[str, float]:
    return {what: median(turn[what] for turn in turns) for what in turns[0]}


def _opened(browser: Browser, file: Path) -> tuple[Page, CDPSession]:
    page = browser.new_page(viewport={"width": 1280, "height": 800}, reduced_motion="reduce")
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    page.goto(file.as_uri())
    page.wait_for_selector("#picture[data-ready]")
    return page, session


def _metric(session: CDPSession, name: str) -> float:
    metrics: list[dict[str, Any]] = session.send("Performance.getMetrics")["metrics"]
    return next(float(metric["value"]) for metric in metrics if metric["name"] == name)


def _looked_at(browser: Browser, file: Path) -> dict[str, float]:
    page, session = _opened(browser, file)
    found: dict[str, float] = {"open": page.evaluate(_OPENED), "heap": _metric(session, "JSHeapUsedSize") / 1e6}
    found |= {"unfold": page.evaluate(_UNFOLDED) or 0.0, "search": page.evaluate(_FOUND)}
    page.close()
    return found


def _moved(browser: Browser, file: Path) -> dict[str, float]:
    """Milliseconds of a frame, and for how long the page's own thread computes for one."""
    page, session = _opened(browser, file)
    page.click("#fit")
    found: dict[str, float] = {}
    for kind in ("pan", "zoom"):
        before = _metric(session, "TaskDuration")
        found[kind] = page.evaluate(_FRAMES, kind)
        found[f"{kind} busy"] = (_metric(session, "TaskDuration") - before) / 60 * 1000
    page.close()
    return found
