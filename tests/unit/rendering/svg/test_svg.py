"""The SVG: well-formed whatever the names, self-contained, and with all required words."""

from __future__ import annotations

import re
from collections.abc import Callable
from xml.etree import ElementTree

import pytest
from msgspec import structs

from gradviz.capture.capture import Capture, Program, ScriptError
from gradviz.errors import BadInput
from gradviz.graph.model import Root
from gradviz.rendering.formats import Subject
from gradviz.rendering.look.text_metrics import text_width
from gradviz.rendering.svg.svg import SvgRenderer
from gradviz.rendering.words import item_words
from tests.unit.rendering import views
from tests.unit.rendering.views import Sketch

Draw = Callable[..., str]
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def draw(monkeypatch: pytest.MonkeyPatch) -> Draw:
    """Draws a sketch with the words that are stored in the sketch."""

    def drawn(
        sketch: Sketch, *notes: str, failed: int | None = None, capture: Capture | None = None, **options: object
    ) -> str:
        monkeypatch.setattr(item_words, "item_texts", lambda *_: tuple(sketch.texts))
        subject = sketch.subject(*notes, failed_node=failed, capture=capture)
        return SvgRenderer(**options).render(subject)  # type: ignore[arg-type]

    return drawn


def words(svg: str) -> str:
    """All text that can be read or selected in the picture, without tooltips."""
    root = ElementTree.fromstring(svg)
    return "\n".join("".join(text.itertext()) for text in root.iter(f"{SVG}text"))


def tooltips(svg: str) -> list[str]:
    return [title.text or "" for title in ElementTree.fromstring(svg).iter(f"{SVG}title")]


NASTY_NAMES = [
    "</script>",
    '<b>&"',
    "two\nlines",
    "bell\x07",
    "lone \ud800 surrogate",
    "]]>",
    "<!--",
    "\x00",
    "漢字 😀",
]


@pytest.mark.parametrize("name", NASTY_NAMES)
def test_any_name_gives_well_formed_utf8(draw: Draw, name: str) -> None:
    sketch = Sketch()
    with sketch.box(name, subtitle=name, badge=name):
        data = sketch.op(name, sketch.input(name), subtitle=name, line=name, tooltip=(name,))
    sketch.root(name, data)
    program = Capture(Program(name, arguments=(name,)), error=ScriptError(name, name, name), disclosures=(name,))
    svg = draw(sketch, name, capture=program)
    ElementTree.fromstring(svg.encode("utf-8"))
    assert "<script" not in svg and "<b>" not in svg


def test_the_words_of_every_item_can_be_selected(draw: Draw) -> None:
    text = words(draw(views.perceptron()))
    for word in ("linear", "relu", "weight", "bias", "cross_entropy", "loss", "mlp.py:12", "4.2k params"):
        assert word in text


def test_a_shortened_name_is_whole_in_the_tooltip(draw: Draw) -> None:
    name = "a_very_long_name_of_a_function_" * 5
    sketch = Sketch()
    sketch.op(name)
    svg = draw(sketch)
    assert name not in words(svg) and any(name in tooltip for tooltip in tooltips(svg))


def test_the_picture_says_what_was_recorded(draw: Draw) -> None:
    text = words(draw(views.tiny()))
    assert "train.py" in text and "torch 2.13.0" in text and "4 autograd nodes" in text


def test_notes_disclosures_and_the_error_are_below_the_picture(draw: Draw) -> None:
    sketch = views.tiny()
    capture = Capture(
        Program("train.py"),
        error=ScriptError("RuntimeError", "shapes do not match", "", ("/home/me/train.py", 31), in_backward=True),
        disclosures=("sizes of two tensors are unknown",),
    )
    text = words(draw(sketch, "120 nodes are folded", capture=capture)).replace("\n", " ")
    assert "120 nodes are folded" in text and "sizes of two tensors are unknown" in text
    assert "backward failed (train.py:31): RuntimeError: shapes do not match" in text


def test_the_legend_names_only_roles_that_appear(draw: Draw) -> None:
    text = words(draw(views.tiny()))
    assert "input that requires grad" in text
    assert "checkpoint" not in text and "module call" not in text


def test_a_result_of_an_earlier_repetition_has_its_sign_in_the_picture_and_in_the_legend(draw: Draw) -> None:
    text = words(draw(views.recurrent()))
    assert "↻ previous tanh" in text and "↻ from an earlier repetition" in text


def test_the_node_in_which_backward_failed_is_marked(draw: Draw) -> None:
    assert "failed" not in words(draw(views.tiny()))
    svg = draw(views.tiny(), failed=2)
    assert "failed" in words(svg) and 'class="operation failed"' in svg


def test_a_failure_inside_a_folded_box_marks_the_box(draw: Draw) -> None:
    sketch = Sketch()
    sketch.folded("fc", sketch.input("x"))
    assert 'class="box failed"' in draw(sketch, failed=1)


def test_no_word_leaves_its_box(draw: Draw) -> None:
    sketch = Sketch()
    long = "W" * 400
    sketch.folded(long, subtitle=long, shape=long, line=long, badge=long)
    box = draw(sketch)
    lines = [line for line in words(box).splitlines() if "WW" in line]
    assert len(lines) == 4
    assert all(text_width(line, 13, bold=True) < 300 for line in lines)


def test_an_auto_picture_follows_the_users_theme(draw: Draw) -> None:
    assert "prefers-color-scheme:dark" in draw(views.tiny())
    assert "prefers-color-scheme" not in draw(views.tiny(), theme="light")
    assert draw(views.tiny(), theme="light") != draw(views.tiny(), theme="dark")


def test_the_picture_needs_nothing_from_elsewhere(draw: Draw) -> None:
    svg = draw(views.transformer_block())
    assert "data:font/woff2;base64," in svg
    links = re.findall(r"(?:href=|url\()[\"']?([^\"')]{1,20})", svg)
    assert {link[:5] for link in links} <= {"#a", "#ak", "data:"}


def test_a_typical_picture_stays_small(draw: Draw) -> None:
    assert len(draw(views.transformer_block()).encode()) < 100_000


def test_the_same_subject_gives_the_same_bytes(draw: Draw) -> None:
    assert draw(views.resnet()) == draw(views.resnet())


def test_an_unknown_option_is_refused_with_the_choices() -> None:
    with pytest.raises(BadInput, match=r"unknown theme 'drak'.*'dark'"):
        SvgRenderer(theme="drak")  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="unknown direction"):
        SvgRenderer(direction="up")  # type: ignore[arg-type]


def test_an_empty_graph_gives_an_empty_page(draw: Draw) -> None:
    assert "train.py" in words(draw(Sketch()))


def wires(svg: str) -> list[tuple[float, float]]:
    """The y at which each visible wire starts and ends."""
    paths = re.findall(r'<path[^>]*marker-end="url\(#ak?\)" d="M[\d.]+ ([\d.]+)[^"]*[ L][\d.]+ ([\d.]+)"', svg)
    return [(float(start), float(end)) for start, end in paths]


def test_arrows_follow_the_data_or_the_gradient_and_nothing_else_moves(draw: Draw) -> None:
    data, gradient = draw(views.perceptron()), draw(views.perceptron(), arrows="gradient")
    assert all(start <= end for start, end in wires(data))
    assert any(start < end for start, end in wires(data)) and any(start > end for start, end in wires(gradient))
    places = re.compile(r'<text[^>]* x="[^"]*" y="[^"]*"')
    assert places.findall(data) == places.findall(gradient)


def test_the_legend_says_in_which_direction_arrows_point(draw: Draw) -> None:
    assert "data; gradients go back" in words(draw(views.tiny()))
    assert "gradients; data comes against them" in words(draw(views.tiny(), arrows="gradient"))


def test_no_gradient_arrow_points_at_data(draw: Draw) -> None:
    assert 'marker-end="url(#ak)"' in draw(views.perceptron())
    assert 'marker-end="url(#ak)"' not in draw(views.perceptron(), arrows="gradient")


def test_operations_are_in_the_legend_only_beside_folded_boxes(draw: Draw) -> None:
    assert "operation" not in words(draw(views.tiny()))
    assert "operation" in words(draw(views.gpt2_folded()))


def test_a_graph_that_no_backward_started_has_no_root_of_backward() -> None:
    sketch = views.tiny()
    graph = structs.replace(sketch.graph(), backward=None, roots=(Root(2, name="z"),))
    text = words(SvgRenderer().render(Subject(Capture(Program("train.py")), graph, sketch.view())))
    assert "root of the graph" in text and "from z, without a backward()" in text
    assert "root of backward" not in text


def test_there_are_no_links_to_files_unless_an_editor_is_named(draw: Draw) -> None:
    sketch = Sketch()
    sketch.op("mul", source=("/home/me/my <model>.py", 41))
    assert "<a " not in draw(sketch) and "/home/me" not in draw(sketch)
    svg = draw(sketch, editor="vscode")
    links = [link.get("href") for link in ElementTree.fromstring(svg).iter(f"{SVG}a")]
    assert links == ["vscode://file/home/me/my%20%3Cmodel%3E.py:41"]


def test_an_editor_is_checked_before_anything_is_drawn() -> None:
    with pytest.raises(BadInput, match=r"unknown editor 'vscod'.*'vscode'"):
        SvgRenderer(editor="vscod")


def test_every_link_has_a_tooltip(draw: Draw) -> None:
    found = tooltips(draw(views.tiny()))
    assert any(text.startswith("x → mul") for text in found) and any(text.startswith("log → z") for text in found)


def test_a_long_class_name_does_not_cost_the_words_after_it(draw: Draw) -> None:
    sketch = Sketch()
    sketch.folded("h.0", subtitle=f"{'VeryLong' * 10}Block · holds 3 custom functions")
    assert "holds 3 custom functions" in words(draw(sketch))


def test_a_long_file_name_does_not_cost_the_shape(draw: Draw) -> None:
    sketch = Sketch()
    sketch.op("conv2d", name="features", shape="[2, 512, 28, 28]", line=f"{'deeply_nested_' * 10}model.py:41")
    text = words(draw(sketch))
    assert "features · [2, 512, 28, 28] · " in text and "el.py:41" in text


def test_an_item_shows_the_arguments_that_decide_its_meaning(draw: Draw) -> None:
    sketch = Sketch()
    sketch.op("softmax", settings="dim=-1")
    assert "softmaxdim=-1" in words(draw(sketch))


def test_the_legend_names_what_boxes_represent(draw: Draw) -> None:
    sketch = Sketch()
    sketch.folded("mul, add", sketch.input("x"))
    text = words(draw(sketch))
    assert "group of operations" in text and "module call" not in text
