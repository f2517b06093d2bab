"""PNG: the same picture as pixels, with letters on machines without fonts, in a size that viewers can open."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from gradviz.errors import BadInput
from gradviz.rendering.layout.graphlay_engine import lay_out
from gradviz.rendering.look.geometry import Layout
from gradviz.rendering.svg import svg
from gradviz.rendering.svg.pdf import PdfRenderer
from gradviz.rendering.svg.png import MAX_SIDE, PngRenderer
from gradviz.rendering.svg.still_picture import StillPicture
from gradviz.rendering.words import item_words
from gradviz.view.model import View
from tests.unit.rendering import views
from tests.unit.rendering.views import Sketch


def pixels(monkeypatch: pytest.MonkeyPatch, sketch: Sketch, **options: object) -> bytes:
    monkeypatch.setattr(item_words, "item_texts", lambda *_: tuple(sketch.texts))
    return PngRenderer(**options).render(sketch.subject())  # type: ignore[arg-type]


def size(png: bytes) -> tuple[int, int]:
    assert png.startswith(b"\x89PNG\r\n")
    width, height = struct.unpack(">II", png[16:24])
    return int(width), int(height)


def column(length: int) -> Sketch:
    sketch = Sketch()
    data = sketch.input("x")
    for _ in range(length):
        data = sketch.op("mul", data)
    return sketch


def test_scale_multiplies_the_pixels(monkeypatch: pytest.MonkeyPatch) -> None:
    single = size(pixels(monkeypatch, views.tiny(), scale=1))
    double = size(pixels(monkeypatch, views.tiny(), scale=2))
    assert abs(double[0] - 2 * single[0]) <= 2 and abs(double[1] - 2 * single[1]) <= 2


def test_letters_are_drawn_without_any_installed_font(monkeypatch: pytest.MonkeyPatch) -> None:
    named, blank = Sketch(), Sketch()
    named.op("WWWWWW", subtitle="NamedBackward0")
    blank.op("      ", subtitle="NamedBackward0")
    assert len(pixels(monkeypatch, named)) > len(pixels(monkeypatch, blank))


def test_themes_give_different_pixels(monkeypatch: pytest.MonkeyPatch) -> None:
    assert pixels(monkeypatch, views.tiny(), theme="light") != pixels(monkeypatch, views.tiny(), theme="dark")


def test_the_same_subject_gives_the_same_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert pixels(monkeypatch, views.perceptron()) == pixels(monkeypatch, views.perceptron())


def test_a_tall_picture_is_shrunk_until_it_can_be_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    width, height = size(pixels(monkeypatch, column(300), shape="tall"))
    assert MAX_SIDE * 0.98 < height <= MAX_SIDE and width < MAX_SIDE


def test_a_shrunk_picture_is_laid_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    laid_out: list[View] = []

    def counted(view: View, *options: Any) -> Layout:
        laid_out.append(view)
        return lay_out(view, *options)

    monkeypatch.setattr(svg, "lay_out", counted)
    pixels(monkeypatch, column(300), shape="tall")
    assert len(laid_out) == 1


def test_a_picture_that_would_be_unreadable_is_refused_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadInput, match=r"too large for a readable PNG; write an \.svg"):
        pixels(monkeypatch, column(1_200), shape="tall")


@pytest.mark.parametrize("scale", [0, -1, 1000, float("nan")])
def test_a_senseless_scale_is_refused(scale: float) -> None:
    with pytest.raises(BadInput, match="scale"):
        PngRenderer(scale=scale)


def test_a_png_has_no_automatic_theme() -> None:
    with pytest.raises(BadInput, match="choose from light, dark"):
        PngRenderer(theme="auto")  # type: ignore[arg-type]


@pytest.mark.parametrize("renderer", [PngRenderer, PdfRenderer])
def test_a_note_counts_characters_that_the_font_lacks(
    monkeypatch: pytest.MonkeyPatch, renderer: type[StillPicture]
) -> None:
    sketch = Sketch()
    sketch.op("权重", tooltip=("вес",))
    monkeypatch.setattr(item_words, "item_texts", lambda *_: tuple(sketch.texts))
    markup = renderer().draw(sketch.subject()).markup
    assert "2 different characters are not in the font of this picture: SVG shows them." in markup
