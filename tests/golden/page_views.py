"""Five views of pages in a browser: the page, and the clicks before the picture.

`python -m tests.golden.gallery` takes them anew; `test_page_views` compares them with what is seen now.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from PIL import Image, ImageChops
from playwright.sync_api import Browser

import gradviz.cli.demo
from gradviz.capture.capture_file import load_capture
from tests.end_to_end.command import SAMPLES
from tests.end_to_end.pages import Screen, page_of

VIEWS_FOLDER = SAMPLES / "gallery" / "page"

COARSE = 4
"""The number of pixels averaged in each direction: machines smooth letters differently."""
NOTICEABLE = 40
"""Of 255, in one of the colours."""
TOLERATED = 0.01
"""The part of the picture that may differ noticeably: less than three buttons of the bar."""


@dataclass(frozen=True)
class PageView:
    """A page after some clicks, in a window of some size."""

    name: str
    sample: Literal["mlp", "gpt2"]
    act: Callable[[Screen], object] = Screen.settled
    scheme: Literal["light", "dark"] = "light"
    size: tuple[int, int] = (1280, 800)

    @property
    def file(self) -> Path:
        """The file of its picture."""
        return VIEWS_FOLDER / f"{self.name}.png"


def _map_the_first_block(screen: Screen) -> None:
    screen.page.select_option("#colour", "memory")
    screen.turn_to("Memory")
    screen.page.locator(".treemap text:has-text('h.0')").click()


def _play_to_the_last_layer(screen: Screen) -> None:
    screen.press("p", *["ArrowRight"] * 3)


VIEWS = (
    PageView("gpt2_memory", "gpt2", _map_the_first_block),
    PageView("gpt2_narrow", "gpt2", scheme="dark", size=(800, 600)),
    PageView("mlp_backward", "mlp", _play_to_the_last_layer),
    PageView("mlp_found", "mlp", lambda screen: screen.search("op:addmm"), scheme="dark"),
    PageView("mlp_parameters", "mlp", lambda screen: screen.turn_to("Parameters"), size=(1000, 700)),
)


@cache
def demo_page() -> str:
    """The page of the recording of samples/mlp.py in gradviz: its figures are the same on every machine."""
    capture = load_capture(Path(gradviz.cli.demo.__file__).with_name("demo.gradviz"))
    return page_of(capture.graphs[0], capture)


_KEEPS_RARE_COLOURS = Image.Quantize.FASTOCTREE
"""Pillow's usual way gives thin wires the colour of the words: those that are lit would look as if they were not."""

_IS_AT_REST = """() => document.fonts.status === "loaded" && !document.querySelector("#status[data-shown], .cell:hover")
  && document.getAnimations().every(({ playState }) => playState === "finished")"""


def take(browser: Browser, view: PageView, page: str, folder: Path) -> Path:
    """A picture of the view in `folder`."""
    width, height = view.size
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme=view.scheme, reduced_motion="reduce"
    )
    screen = Screen(context.new_page(), [], folder / f"{view.name}.html").reopen(page)
    view.act(screen)
    # What is under the pointer looks different, from some later frame on.
    screen.settled().page.mouse.move(0, 0)
    screen.page.wait_for_function(_IS_AT_REST)
    picture = folder / f"{view.name}.png"
    screen.page.screenshot(path=picture, animations="disabled", caret="hide")
    context.close()
    return picture


def take_all(browser: Browser, pages: dict[str, str], folder: Path) -> None:
    """Replace the committed pictures, with fewer colours so that they stay small."""
    VIEWS_FOLDER.mkdir(exist_ok=True)
    for view in VIEWS:
        with Image.open(take(browser, view, pages[view.sample], folder)) as picture:
            small = picture.convert("RGB").quantize(128, _KEEPS_RARE_COLOURS, dither=Image.Dither.NONE)
            small.save(view.file, optimize=True)


def difference(one: Path, other: Path) -> float:
    """The part of two pictures that differs noticeably; everything if their sizes differ."""
    first, second = _coarse(one), _coarse(other)
    if first.size != second.size:
        return 1.0
    largest = list(_largest(ImageChops.difference(first, second)))
    return sum(value > NOTICEABLE for value in largest) / len(largest)


def _coarse(file: Path) -> Image.Image:
    with Image.open(file) as picture:
        reduced: Image.Image = picture.convert("RGB").reduce(COARSE)
    return reduced


def _largest(picture: Image.Image) -> Iterator[int]:
    channels: Iterable[bytes] = (channel.tobytes() for channel in picture.split())
    return map(max, zip(*channels, strict=True))
