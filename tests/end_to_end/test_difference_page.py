"""The page of two runs in a real browser: it opens at the first difference, and ``d`` goes through all of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn

import gradviz
from tests.end_to_end.pages import Screen, started_browser


class Block(nn.Module):
    def __init__(self, eps: float, *, has_extra: bool) -> None:
        super().__init__()
        self.norm, self.up = nn.LayerNorm(8, eps=eps), nn.Linear(8, 8)
        if has_extra:
            self.extra = nn.Sequential(nn.Linear(8, 8), nn.Tanh())

    def forward(self, x: torch.Tensor) -> Any:
        hidden = self.up(self.norm(x)).relu()
        return x + (self.extra(hidden) if hasattr(self, "extra") else hidden)


def recorded(*, other_eps_at: int = -1, extra_at: int = -1, is_scaled: bool = False) -> gradviz.Recording:
    torch.manual_seed(0)
    blocks = [Block(1e-2 if i == other_eps_at else 1e-5, has_extra=i == extra_at) for i in range(6)]
    model = nn.Sequential(*blocks)
    for parameter in model.parameters():
        nn.init.constant_(parameter, 0.1)
    data = torch.arange(16.0).reshape(2, 8).sin()
    with gradviz.record(fingerprints=True) as recording:
        result = model(data)
        (result / 2 if is_scaled else result).square().mean().backward()
    return recording


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Screen]:
    """In A the result is scaled; in B a layer norm has another eps, and a block another layer."""
    file = tmp_path_factory.mktemp("difference") / "d.html"
    one, other = recorded(is_scaled=True), recorded(other_eps_at=2, extra_at=4)
    gradviz.diff(one, other).save(file)
    with started_browser() as browser:
        context = browser.new_context(viewport={"width": 1400, "height": 1000}, reduced_motion="reduce")
        context.set_default_timeout(60_000)
        screen = Screen(context.new_page(), [], file)
        screen.page.on("console", lambda message: screen.complaints.append(message.text))
        screen.page.on("pageerror", lambda error: screen.complaints.append(str(error)))
        yield screen
        assert not screen.complaints


@pytest.fixture
def opened(page: Screen) -> Screen:
    return page.reopen(page.file.read_text(encoding="utf-8"))


def badge(screen: Screen, title: str) -> str:
    """The last words on an item."""
    return screen.item(title).first.locator("text").last.text_content() or ""


def is_in_sight(screen: Screen, title: str) -> bool:
    box, stage = screen.item(title).first.bounding_box(), screen.page.locator("#stage").bounding_box()
    assert box is not None and stage is not None
    return (
        stage["x"] <= box["x"] and stage["y"] <= box["y"] and box["y"] + box["height"] <= stage["y"] + stage["height"]
    )


def test_the_page_opens_at_the_first_difference_with_the_rest_folded(opened: Screen) -> None:
    assert opened.heading() == "layer_norm" and is_in_sight(opened, "layer_norm")
    assert badge(opened, "layer_norm") == "✗ first difference: changed"
    assert opened.titles().count("layer_norm") == 1  # the other five are in closed boxes
    assert "×2" in (opened.page.text_content("#picture") or "")
    assert opened.page.input_value("#colour") == "state"
    legend = opened.page.inner_text("#legend")
    for words in ("− only in A", "+ only in B", "✗ first difference", "the same in both"):
        assert words in legend


def test_the_panel_has_the_figures_of_both_sides(opened: Screen) -> None:
    rows = {row.split("\t")[0].strip(): row.split("\t")[1:] for row in table(opened)}
    assert rows["≠ eps"] == ["1e-05", "0.01"]
    assert rows["shape"] == ["[2, 8]", "[2, 8]"] and rows["dtype"] == ["float32", "float32"]
    assert all(len(set(rows[f"≠ {what}"])) == 2 for what in ("value: norm", "gradient: norm"))
    assert re.search(r"results are \d\.\de-\d\d of the norm apart", opened.panel())


def table(screen: Screen) -> list[str]:
    return screen.page.inner_text("#panel .sides tbody").splitlines()


def test_d_goes_from_difference_to_difference_and_opens_what_is_around(opened: Screen) -> None:
    opened.page.click("#fold-all")
    opened.settled()
    assert "layer_norm" not in opened.titles()
    seen = []
    for _ in range(4):
        opened.press("d")
        title = opened.heading()
        assert is_in_sight(opened, title)
        seen.append((title, opened.page.inner_text("#status").partition(" · ")[0]))
    assert seen == [
        ("layer_norm", "difference 1 of 3: first difference: changed"),
        ("extra", "difference 2 of 3: + only in B"),
        ("div", "difference 3 of 3: − only in A"),
        ("layer_norm", "difference 1 of 3: first difference: changed"),
    ]
    opened.press("D")
    assert opened.heading() == "div" and badge(opened, "div") == "− only in A"
    assert "≠ operation\tdiv\t–" in table(opened)
    keys = opened.press("Escape", "?").page.inner_text("#help-lists")
    assert "difference" in keys and "play the backward pass" not in keys and "wires as wide" not in keys


def test_the_list_of_differences_leads_to_them(opened: Screen) -> None:
    opened.turn_to("Differences")
    assert "eps is 1e-05 in A, 0.01 in B" in opened.panel()
    opened.page.click("#panel .difference button:has-text('extra')")
    opened.settled()
    assert opened.heading() == "extra" and "Linear" not in opened.titles()
    opened.turn_to("About")
    assert "≠ operations\t0\t" in "\n".join(table(opened))


def test_a_page_of_one_run_has_no_key_for_differences(page: Screen) -> None:
    content = page.file.read_text(encoding="utf-8")
    recorded().save(page.file.with_name("one.html"))
    try:
        one = page.reopen(page.file.with_name("one.html").read_text(encoding="utf-8"))
        assert not one.page.is_visible("#next-difference")
        assert "next difference" not in one.press("d", "?").page.inner_text("#help-lists")
    finally:
        page.file.write_text(content, encoding="utf-8")
