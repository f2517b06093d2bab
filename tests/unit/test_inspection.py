"""An inspection shows and saves a recording, with the options of the command line."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from gradviz.capture.capture_file import load_capture
from gradviz.errors import BadInput, GradvizError, NothingRecorded
from gradviz.graph.model import BackwardCall, Edge, Node
from gradviz.inspection import Inspection
from gradviz.rendering.formats import FORMATS, format_named
from gradviz.rendering.page.notebook import NotebookPage
from tests.builders import graph_of
from tests.captures import small_capture


@pytest.fixture
def inspection() -> Inspection:
    return Inspection(small_capture())


@pytest.fixture
def three_calls() -> Inspection:
    graphs = (graph_of(f"w -> {name} -> loss") for name in ("Mul", "Exp", "Log"))
    calls = tuple(replace(graph, backward=BackwardCall(number)) for number, graph in enumerate(graphs, 1))
    return Inspection(replace(small_capture(), graphs=calls))


def test_it_prints_itself_as_a_tree(inspection: Inspection) -> None:
    assert repr(inspection) == str(inspection) == inspection.tree().rstrip("\n")
    assert "MmBackward0" in repr(inspection)


def test_keywords_of_view_and_format_go_where_they_belong(inspection: Inspection) -> None:
    narrow = inspection.tree(width=60, plumbing=True)
    assert "TBackward0" in narrow
    assert "TBackward0" not in inspection.tree()
    assert max(map(len, narrow.splitlines())) <= 60


def test_an_unknown_keyword_names_similar_ones(inspection: Inspection) -> None:
    with pytest.raises(BadInput, match="svg has no option 'directon'; did you mean 'direction'"):
        inspection.svg(directon="LR")
    with pytest.raises(BadInput, match="tree has no option 'plumbin'; did you mean 'plumbing'"):
        inspection.tree(plumbin=True)


def test_the_suffix_says_the_format(inspection: Inspection, tmp_path: Path) -> None:
    assert inspection.save(tmp_path / "new" / "net.svg").read_text(encoding="utf-8") == inspection.svg()
    assert inspection.save(str(tmp_path / "net.dot")).read_text(encoding="utf-8") == inspection.dot()
    assert inspection.save(tmp_path / "net.png", scale=1.0).read_bytes().startswith(b"\x89PNG")


def test_a_saved_recording_is_what_was_recorded(inspection: Inspection, tmp_path: Path) -> None:
    assert load_capture(inspection.save(tmp_path / "run.gradviz")) == inspection.capture
    with pytest.raises(BadInput, match="keeps everything; leave out depth"):
        inspection.save(tmp_path / "run.gradviz", depth=3)


def test_a_file_of_the_user_is_never_overwritten(inspection: Inspection, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("import torch", encoding="utf-8")
    with pytest.raises(BadInput, match="does not look like a file of gradviz"):
        inspection.save(script)
    assert script.read_text(encoding="utf-8") == "import torch"


def test_a_mistake_leaves_no_file(inspection: Inspection, tmp_path: Path) -> None:
    with pytest.raises(BadInput):
        inspection.save(tmp_path / "net.svg", unfold="nowhere")
    assert list(tmp_path.iterdir()) == []


def test_of_several_graphs_the_first_is_shown_and_the_others_are_mentioned(three_calls: Inspection) -> None:
    assert three_calls.graph is three_calls.graphs[0]
    tree = three_calls.tree(width=120)
    assert "MulBackward0" in tree
    assert "the first of 3 recorded graphs; backward=N shows another (N = 2, 3)" in tree
    assert "ExpBackward0" in three_calls.tree(backward=2)
    assert "recorded graphs" not in three_calls.tree(backward=2)
    with pytest.raises(BadInput, match=r"backward=4 was not recorded; recorded are 1, 2, 3"):
        three_calls.dot(backward=4)


def test_a_page_holds_all_graphs_that_have_what_is_asked_for_or_the_one_that_is(three_calls: Inspection) -> None:
    def graphs_in(page: str) -> int:
        return page.count('<script class="data"')

    assert graphs_in(three_calls.html()) == 3
    assert graphs_in(three_calls.html(backward=2)) == graphs_in(three_calls.html(around="Exp")) == 1
    assert "2 recorded graphs left out: they do not have what was asked for" in three_calls.html(around="Exp")
    with pytest.raises(BadInput, match="nothing in this graph is named 'Zebra'"):
        three_calls.html(around="Zebra")


def test_a_page_of_very_many_graphs_has_the_first_and_says_so(
    three_calls: Inspection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gradviz.drawn_graphs.MAX_TOGETHER", 2)
    assert "the first 2 of 3 recorded graphs; backward=N shows another (N = 3)" in three_calls.html()
    monkeypatch.setattr(NotebookPage, "fits_in_a_notebook", property(lambda page: page.count('class="data"') == 1))
    assert "<iframe" in three_calls._repr_mimebundle_()["text/html"]


def test_several_graphs_are_all_printed(three_calls: Inspection) -> None:
    text = repr(three_calls)
    positions = [text.index(word) for word in ("backward 1", "Mul", "backward 2", "Exp", "backward 3", "Log")]
    assert positions == sorted(positions)


def test_without_a_graph_it_says_why(tmp_path: Path) -> None:
    empty = Inspection(replace(small_capture(), graphs=(), disclosures=("nothing was computed",), error=None))
    assert repr(empty) == "<gradviz.Inspection without a graph: nothing was computed>"
    assert empty._repr_mimebundle_() == {"text/plain": repr(empty)}
    for look in (
        lambda: empty.graph,
        empty.tree,
        empty.svg,
        empty.html,
        empty.show,
        lambda: empty.save(tmp_path / "net.svg"),
    ):
        with pytest.raises(NothingRecorded, match="there is no graph: nothing was computed"):
            look()
    assert list(tmp_path.iterdir()) == []


def test_what_is_searched_for_is_opened_and_marked(inspection: Inspection) -> None:
    found = inspection.tree(find="weight", show_all=False)
    assert "1 match" in found
    with pytest.raises(GradvizError, match="unterminated"):
        inspection.tree(find="(")


def test_the_memory_report_is_that_of_the_command_and_prints_itself(inspection: Inspection) -> None:
    report = inspection.memory(width=60)
    assert repr(report) == report.rstrip("\n")
    assert report.startswith("24 B kept until backward 1 at train.py:7, in 1 storage\n")
    assert max(map(len, report.splitlines())) <= 60
    assert "train.py:7" not in inspection.memory(by="dtype").split("\n", 1)[1]


def test_a_memory_report_that_cannot_be_is_refused(inspection: Inspection) -> None:
    with pytest.raises(BadInput, match="did you mean 'module'"):
        inspection.memory(by="modules")  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="width=20 is not a whole number from 40 on"):
        inspection.memory(width=20)
    old = replace(inspection.graph, knows_saved_tensors=False)
    with pytest.raises(BadInput, match="older gradviz, without saved tensors"):
        Inspection(replace(inspection.capture, graphs=(old,))).memory()


def test_a_name_that_only_another_graph_has_is_reported_with_the_way_to_that_graph(three_calls: Inspection) -> None:
    with pytest.raises(
        BadInput, match=r"nothing in this graph is named 'Exp'; .*backward=N shows another \(N = 2, 3\)"
    ):
        three_calls.tree(around="Exp")
    assert "ExpBackward0" in three_calls.tree(around="Exp", backward=2)


@pytest.mark.parametrize(
    ("format", "option", "value", "words"),
    [
        ("tree", "width", "80", "width='80' is of type str, not int"),
        ("tree", "columns", ["shape"], "columns=['shape'] is of type list, not str"),
        ("svg", "direction", 3, "direction=3 is of type int, not str"),
        ("png", "scale", "big", "scale='big' is of type str, not float"),
        ("dot", "editor", 5, "editor=5 is of type int, not str"),
    ],
)
def test_a_keyword_of_the_wrong_type_is_refused(
    inspection: Inspection, format: str, option: str, value: object, words: str
) -> None:
    with pytest.raises(BadInput) as refusal:
        inspection.render(format, **{option: value})
    assert words in str(refusal.value)


@pytest.mark.parametrize("format", [each.name for each in FORMATS])
def test_none_is_the_same_as_leaving_a_keyword_out(inspection: Inspection, format: str) -> None:
    options = dict.fromkeys(format_named(format).option_names())
    assert inspection.render(format, **options) == inspection.render(format)


def test_a_format_and_a_path_of_the_wrong_type_are_refused(inspection: Inspection) -> None:
    with pytest.raises(BadInput, match="unknown format 5; choose from svg, png, "):
        inspection.render(5)  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="path of a file, not an object of type int"):
        inspection.save(5)  # type: ignore[arg-type]


def test_calls_that_were_not_the_one_asked_for_are_counted() -> None:
    empty = Inspection(replace(small_capture(), graphs=(), disclosures=(), backward_calls=3))
    assert "was called 3 times, but not the call that was asked for" in repr(empty)


def test_a_graph_at_a_prompt_says_its_size_and_a_node_only_what_is_known(inspection: Inspection) -> None:
    graph = inspection.graph
    assert repr(graph) == f"<gradviz.Graph of {len(graph.nodes)} autograd nodes, {len(graph.leaves)} of them leaves>"
    assert "None" not in repr(Node(1, "MulBackward0", edges=(Edge(0),)))
