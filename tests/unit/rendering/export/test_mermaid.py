"""Mermaid text: the same graph as the picture, nothing that a name could break, and nothing that is too large."""

from __future__ import annotations

import re

import pytest

from gradviz.errors import BadInput
from gradviz.rendering.export.mermaid import MermaidRenderer
from gradviz.rendering.words import item_words
from tests.unit.rendering import views
from tests.unit.rendering.views import Sketch


def chart(
    monkeypatch: pytest.MonkeyPatch, sketch: Sketch, *notes: str, failed: int | None = None, **options: object
) -> str:
    monkeypatch.setattr(item_words, "item_texts", lambda *_: tuple(sketch.texts))
    return MermaidRenderer(**options).render(sketch.subject(*notes, failed_node=failed))  # type: ignore[arg-type]


def links(text: str) -> list[tuple[str, str]]:
    return re.findall(r"^  (i\d+) -\.?->? (i\d+)$", text, re.MULTILINE)


def test_open_boxes_become_subgraphs_and_links_become_arrows(monkeypatch: pytest.MonkeyPatch) -> None:
    sketch = views.transformer_block()
    text = chart(monkeypatch, sketch)
    assert text.count("subgraph ") == text.count("\n" + " " * 2 + "end") + text.count("    end") == 7
    assert links(text) == [(f"i{link.source}", f"i{link.target}") for link in sketch.links]


def test_arrows_with_the_gradient_change_no_positions(monkeypatch: pytest.MonkeyPatch) -> None:
    forward, backward = (chart(monkeypatch, views.tiny(), arrows=way) for way in ("data", "gradient"))
    assert "flowchart TB\n" in forward and "flowchart BT\n" in backward
    assert links(backward) == [(target, source) for source, target in links(forward)]
    assert "Arrows follow the gradient" in backward and "Arrows follow" not in forward


def test_notes_and_the_failure_are_written(monkeypatch: pytest.MonkeyPatch) -> None:
    text = chart(monkeypatch, views.tiny(), "12 nodes are folded", failed=2)
    assert "12 nodes are folded" in text and "✗ backward failed here" in text and ":::failed" in text


def test_every_colour_that_is_used_is_defined(monkeypatch: pytest.MonkeyPatch) -> None:
    text = chart(monkeypatch, views.every_role(), failed=2)
    used = set(re.findall(r":::([\w-]+)", text)) | set(re.findall(r"^  class \S+ (\w+)$", text, re.MULTILINE))
    assert used == set(re.findall(r"^  classDef ([\w-]+) ", text, re.MULTILINE)) - ({"failed"} - used)


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ('say "hi"', "say #34;hi#34;"),
        ("<script>", "#60;script#62;"),
        ("#quot;", "#8288;#35;quot#59;"),
        ("`**bold**`", "ˋ#8727;#8727;bold#8727;#8727;ˋ"),
        ("_private_", "#8288;_private_#8288;"),
        ("log_softmax", "log_softmax"),
        ("1. first", "#8288;1. first"),
        ("- item", "#8288;- item"),
        ("[text](link)", "[text]#8288;(link)"),
        ("http://a", "http:#8288;//a"),
        ("fa:fa-car", "fa:#8288;fa-car"),
        ("train.py:41", "train.py:41"),
        ("größe", "größe"),
    ],
)
def test_a_name_means_nothing_to_mermaid(monkeypatch: pytest.MonkeyPatch, name: str, written: str) -> None:
    sketch = Sketch()
    sketch.op(name)
    assert f'i0["{written}"]' in chart(monkeypatch, sketch)


def test_a_view_with_too_many_links_is_refused_with_its_size(monkeypatch: pytest.MonkeyPatch) -> None:
    sketch = Sketch()
    data = sketch.input("x")
    for _ in range(501):
        data = sketch.op("f", data)
    with pytest.raises(BadInput, match=r"takes 50,000 characters and 500 links: it has .*; show less with --depth"):
        chart(monkeypatch, sketch)


def test_a_wrong_option_is_refused_before_anything_is_drawn() -> None:
    with pytest.raises(BadInput, match="unknown arrows 'gradients'; did you mean 'gradient'"):
        MermaidRenderer(arrows="gradients")  # type: ignore[arg-type]
