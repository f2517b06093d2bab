"""Findings are marked on their nodes, in every picture and in every part of the graph."""

from __future__ import annotations

import re
import zlib
from base64 import b64decode

from msgspec.structs import replace

from gradviz.analysis.check.marked_findings import finding_notes, first_graph_with_alarm, with_findings
from gradviz.analysis.finding import CutRoot, CutSeen, DeadInput, Finding, Location, NodeAt
from gradviz.capture.capture import Capture, Program
from gradviz.graph.model import CallSite, Graph, RefusedRoot, TensorFacts
from gradviz.rendering.formats import FORMATS, format_named
from gradviz.rendering.subjects import subject_of
from gradviz.view.build import ViewOptions
from gradviz.view.folding import FoldOptions
from gradviz.view.select.selection import SelectOptions
from tests.builders import graph_of

SQRT = Finding(
    code="GV301", cause="nan_from_op", severity="error", message="sqrt has no slope at 0",
    location=Location("train.py", 4), op="SqrtBackward0",
)  # fmt: skip


def on_lines(graph: Graph) -> Graph:
    """Each node on another line: node 0 on line 1."""
    sites = tuple(CallSite("train.py", node.id + 1) for node in graph.nodes)
    nodes = tuple(replace(node, call_site=node.id) for node in graph.nodes)
    return replace(graph, nodes=nodes, call_sites=sites)


GRAPH = on_lines(graph_of("w -> Mul -> Exp -> Sqrt -> Sum -> loss"))


def marked(*findings: Finding) -> Capture:
    return with_findings(Capture(Program("train.py"), (GRAPH, GRAPH)), findings)


def guilty(graph: Graph) -> list[str]:
    return [graph.nodes[each.node].name for each in graph.findings]


def test_a_finding_that_names_nodes_is_attached_to_them_in_its_own_graph_only() -> None:
    capture = marked(replace(SQRT, nodes=(NodeAt(1, 2),)))
    assert [guilty(graph) for graph in capture.graphs] == [[], ["ExpBackward0"]]
    assert first_graph_with_alarm(capture) == 1


def test_a_finding_that_names_its_operation_and_line_is_attached_there() -> None:
    assert guilty(marked(SQRT).graphs[0]) == ["SqrtBackward0"]
    nowhere = marked(replace(SQRT, location=Location("train.py", 9))).graphs[1]
    assert guilty(nowhere) == [] and [each.code for each in nowhere.unplaced_findings] == ["GV301"]
    assert marked(SQRT).graphs[0].unplaced_findings == ()
    elsewhere = replace(SQRT, location=Location("train.py", 1), symptom_location=Location("train.py", 4))
    assert guilty(marked(elsewhere).graphs[0]) == ["SqrtBackward0"]


def test_a_part_of_the_graph_keeps_the_findings_on_what_it_shows() -> None:
    capture = marked(SQRT)
    options = ViewOptions(SelectOptions(path=("Exp", "loss")))
    assert guilty(subject_of(capture, capture.graphs[0], options).graph) == ["SqrtBackward0"]
    assert guilty(subject_of(capture, capture.graphs[0], ViewOptions(SelectOptions(hide=("Sqrt",)))).graph) == []


def _unpacked(text: str) -> str:
    """With the data of the page, which is compressed."""
    data = re.search(r'<script class="data"[^>]*>([^<]+)<', text)
    return text if data is None else text + zlib.decompress(b64decode(data[1]), -15).decode()


def test_every_format_shows_the_finding_on_its_node() -> None:
    capture = marked(SQRT)
    subject = subject_of(capture, capture.graphs[0], ViewOptions())
    for entry in FORMATS:
        content = format_named(entry.name).renderer().render(subject)
        if entry.name not in ("png", "pdf"):
            text = _unpacked(content if isinstance(content, str) else content.decode())
            assert "GV301" in text, entry.name
            assert "nan_from_op" in text.replace("#95;", "_"), entry.name


CUT = Finding(
    code="GV101", cause="detached", severity="error", message="no gradient for body.weight and body.bias",
    location=Location("train.py", 3), nodes=(NodeAt(1, 2),), tensors=("body.weight", "body.bias"),
    cut=CutSeen("detach", (DeadInput(NodeAt(1, 2)),)),
)  # fmt: skip


def test_a_cut_gives_cut_edges_and_marks_no_node() -> None:
    capture = marked(CUT)
    assert [len(graph.cut_edges) for graph in capture.graphs] == [0, 1]
    assert guilty(capture.graphs[1]) == []
    assert first_graph_with_alarm(capture) == 1


REFUSED = replace(GRAPH, roots=(), refused=(RefusedRoot("total", TensorFacts((), "float32")),))
"""The same graph, but only the values of its end reached the root of backward."""
AT_ROOT = replace(CUT, nodes=(), cut=CutSeen("detach", root=CutRoot(1, 0, (4,), ("square", "mean"))))


def test_every_format_shows_the_cut_its_line_and_the_tensors_without_a_gradient() -> None:
    _expect_cut_in_every_format(marked(CUT))


def test_every_format_shows_the_refused_root_and_what_cut_it_off() -> None:
    capture = with_findings(Capture(Program("train.py"), (GRAPH, REFUSED)), [AT_ROOT])
    _expect_cut_in_every_format(capture, "total", "requires no grad")
    tree = str(format_named("tree").renderer(width=70).render(subject_of(capture, capture.graphs[1], ViewOptions())))
    assert tree.splitlines()[1:6] == [
        "◈ total requires no grad  scalar  no grad_fn",
        "┄ detach                          cuts the gradient  train.py:3",
        "│ ✗ GV101 detached",
        "├┄⊘ body.weight and 1 more: get no gradient",
        "● sum                     [2, 3]  SumBackward0       train.py:5",
    ]


def _expect_cut_in_every_format(capture: Capture, *more: str) -> None:
    subject = subject_of(capture, capture.graphs[1], ViewOptions())
    for entry in FORMATS:
        content = format_named(entry.name).renderer().render(subject)
        if entry.name not in ("png", "pdf"):
            text = _unpacked(content if isinstance(content, str) else content.decode())
            wanted = ["GV101", "detached", "body.weight"]
            is_data = entry.name in ("json", "graphml", "model-explorer")
            wanted += ["detach", *more[:1]] if is_data else ["detach", "and 1 more", *more]
            assert [word for word in wanted if word not in text] == [], entry.name


def test_a_tree_draws_the_path_of_the_missing_gradient_with_dots() -> None:
    capture = marked(CUT)
    tree = str(format_named("tree").renderer(width=70).render(subject_of(capture, capture.graphs[1], ViewOptions())))
    assert tree.splitlines()[4:10] == [
        "● exp      [2, 3]  ExpBackward0       train.py:3",
        "├─● mul    [2, 3]  MulBackward0       train.py:2",
        "│ └─○ w    [2, 3]  AccumulateGrad",
        "┄ detach           cuts the gradient  train.py:3",
        "│ ✗ GV101 detached",
        "└┄⊘ body.weight and 1 more: get no gradient",
    ]


def test_a_folded_box_reports_a_cut_inside_of_it() -> None:
    graph = graph_of("x -> net/Addmm -> net/Exp -> Sum -> loss")
    inside = DeadInput(NodeAt(0, 1), scope=0)
    finding = replace(CUT, severity="note", cut=CutSeen("detach", (inside,)))
    capture = with_findings(Capture(Program("train.py"), (graph,)), [finding])
    subject = subject_of(capture, capture.graphs[0], ViewOptions(fold=FoldOptions(fold=("net",))))
    assert "GV101 detached inside" in str(format_named("svg").renderer().render(subject))


def test_alarms_are_in_the_notes_because_some_belong_to_no_node() -> None:
    note = replace(SQRT, severity="note")
    assert finding_notes([SQRT, note]) == ("✗ GV301 nan_from_op (train.py:4): sqrt has no slope at 0",)
