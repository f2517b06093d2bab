"""Pictures of pages, taken in a browser while the documentation is built, so that they show today's code."""

from __future__ import annotations

import shutil
from pathlib import Path

from playwright.sync_api import sync_playwright

from tests.debian_packages import BROWSERS

SIZE = (1280, 800)
_IS_SETTLED = "#picture[data-ready][data-settled]:not([data-moving])"
_IS_AT_REST = """() => document.fonts.status === "loaded"
  && document.getAnimations().every(({ playState }) => playState === "finished")"""


def take_screenshot(page: Path, address: str, picture: Path) -> bool:
    """Write what a window shows that opens `page` at `address`; False if this machine has no browser."""
    browser_path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser_path is None:
        return False
    width, height = SIZE
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path, args=["--no-sandbox"])
        window = browser.new_page(
            viewport={"width": width, "height": height}, color_scheme="light", reduced_motion="reduce"
        )
        window.goto(f"{page.resolve().as_uri()}{address}")
        window.wait_for_selector(_IS_SETTLED, timeout=60_000)
        window.wait_for_function(_IS_AT_REST)
        window.screenshot(path=picture, animations="disabled", caret="hide")
        browser.close()
    return True
