"""DOT text: Graphviz accepts it whatever the names, and its words are those of the picture."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from gradviz.capture.capture import Capture, Program
from gradviz.rendering.export.dot import DotRenderer
from gradviz.rendering.formats import Subject
from gradviz.rendering.words import item_words
from gradviz.view.build import view_of
from tests.captures import small_capture
from tests.unit.rendering import views
from tests.unit.rendering.views import Sketch

needs_dot = pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz is not installed")


def source(monkeypatch: pytest.MonkeyPatch, sketch: Sketch, *notes: str, failed: int | None = None) -> str:
    monkeypatch.setattr(item_words, "item_texts", lambda *_: tuple(sketch.texts))
    return DotRenderer().render(sketch.subject(*notes, failed_node=failed))


def layout_of(dot_source: str) -> str:
    finished = subprocess.run(["dot", "-Tplain"], input=dot_source.encode(), capture_output=True, timeout=600)
    assert finished.returncode == 0 and not finished.stderr, finished.stderr.decode()
    return finished.stdout.decode()


def test_open_boxes_become_clusters_and_links_become_edges(monkeypatch: pytest.MonkeyPatch) -> None:
    dot = source(monkeypatch, views.transformer_block())
    assert dot.count("subgraph cluster_") == 7
    assert dot.count("->") == len(views.transformer_block().links)
    assert dot.count("{") == dot.count("}")


def test_a_result_of_an_earlier_repetition_is_a_separate_node(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "<B>↻ previous tanh</B>" in source(monkeypatch, views.recurrent())


def test_notes_and_the_failure_are_written(monkeypatch: pytest.MonkeyPatch) -> None:
    dot = source(monkeypatch, views.tiny(), "12 nodes are folded", failed=2)
    assert "12 nodes are folded" in dot and "backward failed here" in dot


@needs_dot
@pytest.mark.parametrize("sketch", [views.tiny, views.transformer_block, views.every_role, views.recurrent, Sketch])
def test_graphviz_reads_it_without_complaint(monkeypatch: pytest.MonkeyPatch, sketch: type[Sketch]) -> None:
    layout_of(source(monkeypatch, sketch()))


@needs_dot
@pytest.mark.parametrize(
    "name", ["<b>", '"; evil [', "back\\slash", "\\", "\\N", "a\nb", "\x00\x07", "&amp;", "<", "\ud800"]
)
def test_any_name_is_taken_literally(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    sketch = Sketch()
    with sketch.box(name, subtitle=name):
        sketch.op(name, sketch.input(name), subtitle=name, tooltip=(name,))
    monkeypatch.setattr(item_words, "item_texts", lambda *_: tuple(sketch.texts))
    dot = DotRenderer().render(sketch.subject(name, capture=Capture(Program(name))))
    assert layout_of(dot).count("\nnode ") == 2


def test_boxes_may_nest_deeper_than_the_recursion_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    sketch = Sketch()
    boxes = [sketch.box("b") for _ in range(1_200)]
    for box in boxes:
        box.__enter__()
    assert source(monkeypatch, sketch).count("subgraph") == 1_200


def test_arrows_follow_the_gradient_on_request_and_constants_then_have_no_arrow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sketch = views.perceptron()
    monkeypatch.setattr(item_words, "item_texts", lambda *_: tuple(sketch.texts))
    dot = DotRenderer(arrows="gradient").render(sketch.subject())
    assert "dir=back" in dot and dot.count("dir=none") == 2 and "Arrows follow the gradient" in dot


def test_links_to_source_lines_appear_only_when_an_editor_is_named() -> None:
    capture = small_capture()
    viewed = view_of(capture.graphs[0])
    subject = Subject(capture, viewed.graph, viewed.view)
    assert "URL=" not in DotRenderer().render(subject)
    assert 'URL="vscode://file/project/train.py:7"' in DotRenderer(editor="vscode").render(subject)
