"""Every word of a page can be read, and every button has a name: WCAG AA, light and dark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from gradviz.rendering.page.html_file import FOLDER
from gradviz.view.build import ViewOptions
from gradviz.view.folding import FoldOptions
from tests.builders import graph_of, transformer
from tests.end_to_end.pages import page_of, started_browser
from tests.unit.rendering.look.test_color_by import fading

AXE = Path(str(FOLDER)) / "node_modules" / "axe-core" / "axe.min.js"
RULES = (
    "color-contrast",
    "button-name",
    "label",
    "select-name",
    "aria-required-attr",
    "aria-required-children",
    "list",
)
MIN_CONTRAST = 4.5

_AXE_FINDS = """async (rules) => {
  const { violations } = await axe.run(document, { runOnly: rules, iframes: false });
  return violations.flatMap(({ id, nodes }) => nodes.map(({ target, any }) => `${id}: ${target} ${any.map((each) => each.message)}`));
}"""  # noqa: E501

_WORDS_IN_THE_PICTURE = """() => {
  const channels = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const visible = (colour) => colour !== 'none' && channels(colour)[3] !== 0;
  const luminance = ([red, green, blue]) => [red, green, blue].map((each) => each / 255)
    .map((each) => (each <= 0.04045 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4))
    .reduce((sum, each, at) => sum + each * [0.2126, 0.7152, 0.0722][at], 0);
  const contrast = (one, other) => {
    const [low, high] = [luminance(channels(one)), luminance(channels(other))].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  };
  const page = getComputedStyle(document.body).backgroundColor;
  const groundOf = (text) => {
    const chip = text.matches('.b') ? text.parentElement.querySelector('.c') : null;
    const item = text.closest('.item');
    const back = item && item.matches('.h') ? document.querySelector(`[data-back="${item.dataset.item}"]`) : null;
    const own = item && !back ? [...item.querySelectorAll('.s')].filter((path) => path.parentElement === item).at(-1) : null;
    const fills = [chip, back, own].filter(Boolean).map((each) => getComputedStyle(each).fill).filter(visible);
    return fills[0] ?? page;
  };
  return [...document.querySelectorAll('#picture .item text')].filter((text) => text.getBoundingClientRect().width)
    .flatMap((text) => [text, ...text.querySelectorAll('tspan')])
    .map((text) => ({ words: text.textContent, ratio: contrast(getComputedStyle(text).fill, groundOf(text.closest('text'))) }))
    .filter(({ ratio }) => ratio < MIN).map(({ words, ratio }) => `${words}: ${ratio.toFixed(2)}`);
}""".replace("MIN", str(MIN_CONTRAST))  # noqa: E501


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with started_browser() as browser:
        yield browser


def _complaints(page: Page) -> list[str]:
    page.wait_for_selector("#picture[data-ready][data-settled]:not([data-moving])")
    page.wait_for_function("document.getAnimations().every(({ playState }) => playState === 'finished')")
    found: list[str] = page.evaluate(_AXE_FINDS, list(RULES)) + page.evaluate(_WORDS_IN_THE_PICTURE)
    return found


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_word_has_the_contrast_of_wcag_aa_and_every_button_a_name(
    browser: Browser, tmp_path: Path, theme: str
) -> None:
    whole = transformer(2)
    pages = {
        "transformer": page_of(whole, view=ViewOptions(fold=FoldOptions(depth=9)), theme=theme),
        "fading": page_of(fading(graph_of("w -> Mul -> Sin -> Exp -> Sum -> loss; Mul -> Cos -> Sum")), theme=theme),
    }
    # Scripts of pages may not be added to, except here.
    page = browser.new_page(viewport={"width": 1400, "height": 900}, reduced_motion="reduce", bypass_csp=True)
    found = {}
    for name, content in pages.items():
        (tmp_path / f"{name}.html").write_text(content, encoding="utf-8")
        page.goto(f"file://{tmp_path}/{name}.html")
        page.add_script_tag(path=AXE)
        found[name] = _complaints(page)
        for colour in page.locator("#colour option").evaluate_all("all => all.map(option => option.value)"):
            page.select_option("#colour", colour)
            found[f"{name} by {colour}"] = _complaints(page)
        page.click("#help")
        found[f"{name}: help"] = _complaints(page)
        page.keyboard.press("Escape")
        for tab in page.locator("#panel [role=tab]").all_inner_texts():
            page.click(f"#panel [role=tab]:text-is('{tab}')")
            found[f"{name}: {tab}"] = _complaints(page)
    page.keyboard.press("p")
    page.keyboard.press("ArrowRight")
    found["player"] = page.evaluate(_AXE_FINDS, list(RULES))
    page.close()
    assert {name: complaints for name, complaints in found.items() if complaints} == {}
