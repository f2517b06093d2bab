"""Cuts in a view: drawn in the box where the cut ran, instead of its constant."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from gradviz.graph.invariants import InvalidGraph, check_graph
from gradviz.graph.model import Graph, RefusedRoot
from gradviz.graph.node_findings import CutEdge, Verdict
from gradviz.graph.query.find_by_expression import nodes_to_show, search
from gradviz.public_graph import public_graph
from gradviz.view.build import ViewOptions, view_of
from gradviz.view.folding import FoldOptions, fold
from gradviz.view.invariants import check_view
from gradviz.view.model import CUT_KINDS, View
from gradviz.view.select.selection import SelectOptions
from tests.builders import graph_of

NET = "w -> net.head/Addmm -> Sum -> loss; {h} -> net.head/Addmm"


def cut_edge(node: int, *, scope: int | None = None, constant: int | None = None, line: int = 7) -> CutEdge:
    verdict = Verdict("GV101", "detached", "error", "no gradient for w0")
    return CutEdge(verdict, "detach", ("w0", "b0"), "train.py", line, node=node, constant=constant, scope=scope)


def with_cut_edges(graph: Graph, *edges: CutEdge) -> Graph:
    graph_with_cuts = replace(graph, cut_edges=edges)
    check_graph(graph_with_cuts)
    return graph_with_cuts


def node_named(graph: Graph, name: str) -> int:
    return next(node.id for node in graph.nodes if node.name.startswith(name) or name in node.names)


def scope_named(graph: Graph, path: str) -> int:
    return next(index for index, scope in enumerate(graph.scopes) if scope.path == path)


def cut_links(view: View, graph: Graph) -> list[tuple[str, str]]:
    """Kinds of the items from which cut edges come, each with its target."""
    found: list[tuple[str, str]] = []
    for link in view.links:
        source, target = view.items[link.source], view.items[link.target]
        if source.kind in CUT_KINDS:
            name = target.kind if target.node is None else graph.nodes[target.node].name
            found.append((source.kind, name))
    return found


def test_a_cut_is_between_the_tensors_it_cuts_off_and_the_node_that_took_its_result() -> None:
    graph = graph_of(NET)
    graph_with_cuts = with_cut_edges(graph, cut_edge(node_named(graph, "Addmm"), constant=0))
    view = fold(graph_with_cuts)
    check_view(view, graph_with_cuts)
    assert cut_links(view, graph_with_cuts) == [("cut_off", "cut"), ("cut", "AddmmBackward0")]
    assert "constant" not in {item.kind for item in view.items}, "the cut replaces it"
    assert "constant" in {item.kind for item in fold(graph).items}


@pytest.mark.parametrize(("cut_in", "box"), [("net.head", "net.head"), ("net", "net"), (None, None)])
def test_it_is_drawn_in_the_box_where_it_ran(cut_in: str | None, box: str | None) -> None:
    graph = graph_of(NET)
    scope = None if cut_in is None else scope_named(graph, cut_in)
    graph_with_cuts = with_cut_edges(graph, cut_edge(node_named(graph, "Addmm"), constant=0, scope=scope))
    view = fold(graph_with_cuts)
    for item in view.items:
        if item.kind in CUT_KINDS:
            around = None if item.parent is None else view.items[item.parent].scope
            assert (None if around is None else graph_with_cuts.scopes[around].path) == box


def test_one_cut_that_several_operations_took_from_is_drawn_once() -> None:
    graph = graph_of("w -> Mul -> Add -> loss; v -> Exp -> Add")
    mul, exp = (node_named(graph, name) for name in ("Mul", "Exp"))
    view = fold(with_cut_edges(graph, cut_edge(mul), cut_edge(exp)))
    assert cut_links(view, graph) == [("cut_off", "cut"), ("cut", "MulBackward0"), ("cut", "ExpBackward0")]
    other_line = fold(with_cut_edges(graph, cut_edge(mul), cut_edge(exp, line=9)))
    assert [item.kind for item in other_line.items].count("cut") == 2


def test_blocks_that_are_cut_alike_are_drawn_once_with_one_cut() -> None:
    blocks = "".join(f" -> net.{number}/Mul.{number} -> net.{number}/Exp.{number}" for number in range(40))
    graph = graph_of(f"w{blocks} -> Sum -> loss")
    cut = [node for node in graph.nodes if node.name == "MulBackward0"]
    graph_with_cuts = with_cut_edges(graph, *(cut_edge(node.id, scope=node.scope) for node in cut))
    view = fold(graph_with_cuts)
    check_view(view, graph_with_cuts)
    kinds = [item.kind for item in view.items]
    assert max(item.repeat for item in view.items) >= 38
    assert 1 <= kinds.count("cut") == kinds.count("cut_off") <= 3


def test_a_leaf_that_was_made_by_a_cut_has_it_behind_it() -> None:
    graph = graph_of("x -> loss")
    graph_with_cuts = with_cut_edges(graph, cut_edge(0))
    view = fold(graph_with_cuts)
    check_view(view, graph_with_cuts)
    assert cut_links(view, graph_with_cuts) == [("cut_off", "cut"), ("cut", "torch::autograd::AccumulateGrad")]


def test_boxes_around_a_cut_are_open_unless_it_is_only_a_note() -> None:
    graph = graph_of("x -> net/Addmm -> net/Exp -> Sum -> loss")
    edge = cut_edge(node_named(graph, "Addmm"), scope=0)
    noted = replace(edge, finding=replace(edge.finding, severity="note"))
    elsewhere = replace(noted, scope=None)
    for shown, links in (
        (edge, [("cut_off", "cut"), ("cut", "AddmmBackward0")]),
        (noted, []),  # It ran in the box that is folded.
        (elsewhere, [("cut_off", "cut"), ("cut", "box")]),
    ):
        graph_with_cuts = with_cut_edges(graph, shown)
        view = fold(graph_with_cuts, FoldOptions(fold=("net",)))
        check_view(view, graph_with_cuts)
        assert cut_links(view, graph_with_cuts) == links


def test_a_part_of_a_graph_keeps_the_cuts_of_its_nodes() -> None:
    graph = graph_of("w -> Mul -> Exp -> Sum -> loss")
    graph_with_cuts = with_cut_edges(graph, cut_edge(node_named(graph, "Mul")))
    near = view_of(graph_with_cuts, ViewOptions(SelectOptions(path=("Mul", "loss"))))
    assert [near.graph.nodes[edge.node or 0].name for edge in near.graph.cut_edges] == ["MulBackward0"]
    assert view_of(graph_with_cuts, ViewOptions(SelectOptions(path=("Exp", "loss")))).graph.cut_edges == ()


def test_boxes_of_functions_hold_the_cuts_in_those_functions() -> None:
    graph = graph_of(NET)
    graph_with_cuts = with_cut_edges(graph, cut_edge(node_named(graph, "Addmm"), scope=1))
    check_view(view_of(graph_with_cuts, ViewOptions(group_by="function")).view, graph_with_cuts)


def test_a_cut_edge_that_refers_to_nothing_is_refused() -> None:
    graph = graph_of("w -> Mul -> loss")
    with pytest.raises(InvalidGraph, match="a cut edge to detach refers to module scope 3"):
        with_cut_edges(graph, cut_edge(1, scope=3))
    with pytest.raises(InvalidGraph, match="must begin at a node or at a refused root, but not at both"):
        with_cut_edges(replace(graph, refused=(RefusedRoot(),)), replace(cut_edge(1), refused=0))


def refused_graph(*sources: str, tensors: tuple[str, ...] = (), scope: int | None = None) -> Graph:
    """``NET`` up to ``Sum``; its loss was cut off from these nodes."""
    graph = graph_of(NET)
    edge = replace(cut_edge(0, scope=scope), node=None, refused=0, tensors=tensors)
    edge = replace(edge, sources=tuple(node_named(graph, name) for name in sources))
    return with_cut_edges(replace(graph, roots=(), refused=(RefusedRoot("loss"),)), edge)


@pytest.mark.parametrize("options", [FoldOptions(), FoldOptions(fold=("net",)), FoldOptions(depth=0)])
def test_where_backward_was_refused_links_lead_from_the_remaining_nodes_through_the_cut_to_the_root(
    options: FoldOptions,
) -> None:
    graph_with_cuts = refused_graph("Sum")
    view = fold(graph_with_cuts, options)
    check_view(view, graph_with_cuts)
    ends = [(view.items[link.source].kind, view.items[link.target].kind) for link in view.links]
    assert ends[-2:] == [("node", "cut"), ("cut", "refused")]
    assert "cut_off" not in {item.kind for item in view.items}


def test_without_remaining_nodes_the_tensors_are_named_behind_the_cut() -> None:
    graph_with_cuts = with_cut_edges(
        Graph(refused=(RefusedRoot("loss"),)),
        replace(cut_edge(0), node=None, refused=0),
    )
    view = fold(graph_with_cuts)
    check_view(view, graph_with_cuts)
    assert cut_links(view, graph_with_cuts) == [("cut_off", "cut"), ("cut", "refused")]


def test_a_cut_before_a_refused_root_is_drawn_in_the_box_where_it_ran() -> None:
    graph = graph_of(NET)
    graph_with_cuts = refused_graph("Addmm", scope=scope_named(graph, "net"))
    view = fold(graph_with_cuts)
    (cut,) = (item for item in view.items if item.kind == "cut")
    assert cut.parent is not None and graph_with_cuts.scopes[view.items[cut.parent].scope or 0].path == "net"


def test_a_refused_root_is_found_by_its_name_and_leads_to_what_was_cut_off_from_it() -> None:
    graph_with_cuts = refused_graph("Sum")
    assert search(graph_with_cuts, "loss").refused == {0}
    assert [node.name for node in public_graph(graph_with_cuts).find("loss")] == ["SumBackward0"]


def test_a_part_keeps_a_refused_root_only_with_what_was_cut_off_from_it() -> None:
    graph_with_cuts = refused_graph("Sum")
    whole = view_of(graph_with_cuts, ViewOptions(SelectOptions(start="loss"))).graph
    assert (len(whole.nodes), len(whole.refused), len(whole.cut_edges)) == (len(graph_with_cuts.nodes), 1, 1)
    part = view_of(graph_with_cuts, ViewOptions(SelectOptions(start="Addmm"))).graph
    assert (part.refused, part.cut_edges) == ((), ())


@pytest.mark.parametrize("name", ["detach", "train.py:7", "b0"])
def test_the_name_of_a_cut_means_the_node_that_took_its_result(name: str) -> None:
    graph = graph_of(NET)
    graph_with_cuts = with_cut_edges(graph, cut_edge(node_named(graph, "Addmm")))
    viewed = view_of(graph_with_cuts, ViewOptions(SelectOptions(start=name)))
    assert viewed.graph.nodes[-1].name == "AddmmBackward0"
    assert [item.kind for item in viewed.view.items].count("cut") == 1
    assert any("is a cut, which makes no node" in note for note in viewed.selection_notes)


def test_cuts_of_one_line_in_one_box_name_their_tensors_together_and_of_repetitions_only_the_first() -> None:
    graph = graph_of("w -> Mul -> Add -> loss; v -> Exp -> Add")
    edges = [replace(cut_edge(node_named(graph, name)), tensors=(name,)) for name in ("Mul", "Exp")]
    assert [item.cut_edges for item in fold(with_cut_edges(graph, *edges)).items if item.cut_edges] == [(0, 1), (0, 1)]
    blocks = "".join(f" -> net.{number}/Mul.{number} -> net.{number}/Exp.{number}" for number in range(40))
    graph = graph_of(f"w{blocks} -> Sum -> loss")
    cut = [node for node in graph.nodes if node.name == "MulBackward0"]
    view = fold(with_cut_edges(graph, *(cut_edge(node.id, scope=node.scope) for node in cut)))
    assert {len(item.cut_edges) for item in view.items if item.kind == "cut"} == {1}


@pytest.mark.parametrize("words", ["detach", "b0", r"train\.py:7$"])
def test_a_cut_is_found_by_its_call_its_line_and_the_tensors_without_gradient(words: str) -> None:
    graph = graph_of(NET)
    head = node_named(graph, "Addmm")
    graph = with_cut_edges(graph, cut_edge(head))
    found = search(graph, words)
    assert found.cut_edges == {0}
    assert head in nodes_to_show(graph, found)
