"""PDF: one page as large as the picture, with text that can be selected in the shipped font."""

from __future__ import annotations

import io
import sys
from importlib.machinery import PathFinder

import pypdf
import pytest

from gradviz.errors import MissingDependency
from gradviz.rendering.formats import Subject
from gradviz.rendering.layout.shape import Shape
from gradviz.rendering.svg.pdf import LARGEST_SIDE, PdfRenderer
from gradviz.rendering.svg.svg import SvgRenderer
from gradviz.rendering.words import item_words
from tests.unit.rendering import views
from tests.unit.rendering.svg.test_png import column
from tests.unit.rendering.views import Sketch


def page(
    monkeypatch: pytest.MonkeyPatch, sketch: Sketch, subject: Subject | None = None, shape: Shape = "auto"
) -> pypdf.PageObject:
    monkeypatch.setattr(item_words, "item_texts", lambda *_: tuple(sketch.texts))
    (only,) = pypdf.PdfReader(io.BytesIO(PdfRenderer(shape=shape).render(subject or sketch.subject()))).pages
    return only


def test_words_can_be_selected(monkeypatch: pytest.MonkeyPatch) -> None:
    text = page(monkeypatch, views.perceptron()).extract_text()
    for words in ("cross_entropy", "NllLossBackward0", "mlp.py:20", "[8, 64]", "4.2k params"):
        assert words in text


def test_the_shipped_font_is_inside() -> None:
    pdf = PdfRenderer().render(views.tiny().subject())
    assert b"GradvizSans-Regular" in pdf and b"GradvizSans-Bold" in pdf


def test_the_page_is_as_large_as_the_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    box = page(monkeypatch, views.tiny()).mediabox
    drawing = SvgRenderer(theme="light").draw(views.tiny().subject())
    assert float(box.width) == pytest.approx(drawing.width * 0.75, abs=0.1)
    assert float(box.height) == pytest.approx(drawing.height * 0.75, abs=0.1)


def test_a_page_is_no_larger_than_pdf_viewers_show(monkeypatch: pytest.MonkeyPatch) -> None:
    box = page(monkeypatch, column(400), shape="tall").mediabox
    assert float(box.height) == pytest.approx(LARGEST_SIDE, abs=1) and float(box.width) < LARGEST_SIDE


def test_no_date_is_written() -> None:
    metadata = pypdf.PdfReader(io.BytesIO(PdfRenderer().render(views.tiny().subject()))).metadata
    assert metadata is not None and metadata.title == "train.py"
    assert metadata.creation_date is None and metadata.modification_date is None


def test_without_typst_the_package_to_install_is_named_before_the_script_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    find_spec = PathFinder.find_spec
    monkeypatch.delitem(sys.modules, "typst", raising=False)
    monkeypatch.setattr(
        PathFinder, "find_spec", lambda name, *rest: None if name == "typst" else find_spec(name, *rest)
    )
    with pytest.raises(MissingDependency, match=r"pip install 'gradviz-inspector\[pdf\]'"):
        PdfRenderer()
