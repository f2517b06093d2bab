"""The page as a file: what it may load, and that its boxes fit together. How it behaves is tested in a browser."""

from __future__ import annotations

import base64
import re
import zlib
from hashlib import sha256
from html import unescape

import msgspec
import pytest

from gradviz.capture.capture import Capture, Program
from gradviz.errors import BadInput
from gradviz.graph.model import Graph
from gradviz.rendering.page.document import PageDocument
from gradviz.rendering.page.html import HtmlRenderer
from gradviz.rendering.subjects import subject_of
from gradviz.view.build import ViewOptions
from gradviz.view.folding import FoldOptions
from gradviz.view.select.selection import SelectOptions
from tests.builders import graph_of, transformer, unrolled_rnn


def page(graph: Graph, view: ViewOptions | None = None) -> str:
    return HtmlRenderer().render(subject_of(Capture(Program("train.py")), graph, view or ViewOptions()))


def document(graph: Graph, view: ViewOptions | None = None) -> PageDocument:
    packed = re.search(r'<script class="data"[^>]*>([^<]*)</script>', page(graph, view))
    assert packed is not None
    return msgspec.json.decode(zlib.decompress(base64.b64decode(packed[1]), -15), type=PageDocument)


def test_a_script_whose_name_is_markup_stays_text_in_the_title_of_the_page() -> None:
    name = "</title><script>alert(1)</script>.py"
    content = HtmlRenderer().render(subject_of(Capture(Program(name)), transformer(1), ViewOptions()))
    (title,) = re.findall(r"<title>(.*?)</title>", content, re.DOTALL)
    assert "<" not in title
    assert unescape(title) == f"{name} · gradviz"
    assert "<script>alert" not in content


def test_only_its_own_script_and_style_may_run() -> None:
    content = page(transformer(2))
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', content)
    (style,) = re.findall(r"<style>(.*?)</style>", content, re.DOTALL)
    (script,) = re.findall(r"<script>(.*?)</script>", content, re.DOTALL)
    assert policy is not None and policy[1].startswith("default-src 'none'")
    for part in (style, script):
        assert f"'sha256-{base64.b64encode(sha256(part.encode()).digest()).decode()}'" in policy[1]
    assert not re.search(r"""(?:src|href)=["']?(?:https?:)?//""", content.replace(script, ""))


@pytest.mark.parametrize("graph", [transformer(3), unrolled_rnn(5)], ids=["transformer", "rnn"])
def test_wherever_data_crosses_a_border_a_wire_comes_or_goes(graph: Graph) -> None:
    found = document(graph, ViewOptions(fold=FoldOptions(depth=0)))
    boxes = {box.item: box for box in found.boxes}
    for box in found.boxes:
        if box.item is None:
            continue
        around, run = boxes[found.items[box.item].parent], found.items[box.item].each_of
        item = box.item if run is None else run
        coming = {port for wire in around.wires if wire.target == item for port in wire.ports}
        going = {port for wire in around.wires if wire.source == item and not wire.enters for port in wire.ports}
        exits = {outside for port in box.exits for outside in box.stands_for.get(port, (port,))}
        assert set(box.entries) <= coming and exits <= going


def test_notes_of_a_page_name_no_options_of_the_command_line() -> None:
    graph, view = transformer(3), ViewOptions(SelectOptions(around="h.1"), fold=FoldOptions(depth=0))
    still = subject_of(Capture(Program("train.py")), graph, view).view.notes
    assert sum("--" in note for note in still) == 3
    notes = document(graph, view).notes
    assert any("around 'h.1'" in note for note in notes) and not any("--" in note for note in notes)


def test_everything_in_a_box_is_inside_its_borders() -> None:
    found = document(transformer(3))
    for box in found.boxes:
        for cluster in box.clusters:
            for position in cluster.positions:
                item, x, y = found.items[position.item], cluster.x + position.x, cluster.y + position.y
                assert 0 <= x <= x + item.width <= box.width and 0 <= y <= y + item.height <= box.height


def test_of_too_many_repetitions_only_the_first_is_in_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gradviz.rendering.page.repetitions.MAX_REPETITIONS", 3)
    many = document(transformer(40))
    assert len(many.items) == len(document(transformer(4)).items) < len(document(transformer(3)).items)
    assert "1 row of alike parts can be shown only by the first of them." in many.notes


def test_long_repetitions_are_in_the_file_without_their_contents(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not any("opened only" in note for note in document(transformer(5)).notes)
    monkeypatch.setattr("gradviz.rendering.page.repetitions.MAX_OPERATIONS", 3)
    found = document(transformer(5))
    assert [item.title for item in found.items if item.parent is not None and found.items[item.parent].each_of] == [
        f"h.{block}" for block in range(5)
    ]
    words = "1 row of alike parts can be shown one by one, but opened only in the first of them."
    assert words in found.notes


def test_colours_that_were_not_measured_are_refused() -> None:
    subject = subject_of(Capture(Program("train.py")), graph_of("w -> Sum -> loss"), ViewOptions())
    with pytest.raises(BadInput, match="nothing can be coloured by time"):
        HtmlRenderer(color_by="time").render(subject)
