"""Pictures in a notebook's page: none changes another, and each follows the notebook's theme."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from gradviz.inspection import Inspection
from gradviz.rendering.notebook import DARK_PAGES, SvgPicture, TreeText, confined, html_of
from tests.captures import small_capture

HOLDER = "#gradviz-1"


def picture(**options: object) -> str:
    return Inspection(small_capture()).svg(**options)


def test_every_rule_is_confined_to_its_picture() -> None:
    assert confined("text{a:b}\n.t,.v .q{c:d}", HOLDER) == (f"{HOLDER} text{{a:b}}\n{HOLDER} .t,{HOLDER} .v .q{{c:d}}")


def test_commas_inside_brackets_separate_no_selectors() -> None:
    assert confined(".s:is(.a,.b) .c{e:f}", HOLDER) == f"{HOLDER} .s:is(.a,.b) .c{{e:f}}"


def test_a_font_is_left_as_it_is() -> None:
    font = '@font-face{font-family:"F";src:url(data:x)}'
    assert confined(font, HOLDER) == font


def test_other_conditions_keep_their_rules_inside() -> None:
    assert confined("@media print{.a{b:c}}", HOLDER) == f"@media print{{{HOLDER} .a{{b:c}}}}"


def test_the_dark_theme_follows_the_page_and_not_the_system() -> None:
    html = html_of(picture())
    assert "prefers-color-scheme" not in html
    dark = [line for line in html.splitlines() if DARK_PAGES[0] in line]
    assert len(dark) > 10
    name = re.search(r'<div id="([^"]+)"', html)
    assert name is not None
    assert all(f" #{name[1]} " in line for line in dark)


def test_no_rule_of_a_real_picture_reaches_beyond_it() -> None:
    html = html_of(picture())
    (style,) = re.findall(r"<style>(.*?)</style>", html, re.DOTALL)
    selectors = re.findall(r"(?:^|\})\s*([^{}@]+)\{", style)
    assert len(selectors) > 40
    assert [selector for selector in selectors if "#gradviz-" not in selector and '"' not in selector] == []


def test_two_pictures_on_a_page_share_no_names() -> None:
    one, other = html_of(picture()), html_of(picture(direction="LR"))
    names = [set(re.findall(r' id="([^"]+)"', html)) for html in (one, other)]
    assert len(names[0]) > 1
    assert names[0] & names[1] == set()
    for html, own in zip((one, other), names, strict=True):
        assert set(re.findall(r"url\(#([^)]+)\)", html)) <= own


def test_the_picture_is_still_the_same_picture() -> None:
    svg = picture()
    drawn = re.search(r"<svg.*</svg>", html_of(svg), re.DOTALL)
    assert drawn is not None
    before, after = ElementTree.fromstring(svg), ElementTree.fromstring(drawn[0])
    assert [element.tag for element in before.iter()] == [element.tag for element in after.iter()]
    texts = [
        [element.text for element in root.iter() if element.tag.endswith(("text", "title"))] for root in (before, after)
    ]
    assert texts[0] == texts[1]


def test_the_same_picture_is_the_same_html_every_time() -> None:
    assert html_of(picture()) == html_of(picture())


def test_text_and_pictures_display_themselves() -> None:
    assert repr(TreeText("a\n  b\n")) == "a\n  b"
    shown = SvgPicture(picture())._repr_mimebundle_()
    assert set(shown) == {"text/html", "image/svg+xml", "text/plain"}
    assert shown["image/svg+xml"].startswith("<svg")
    assert len(shown["text/plain"]) < 200
