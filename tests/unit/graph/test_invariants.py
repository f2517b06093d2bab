"""What is checked of graphs, call logs and views finds every fault of its sort: each is made in turn."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from gradviz.graph.call_log import CallLog, RandomDraw
from gradviz.graph.fingerprints import Fingerprint, packed_projections
from gradviz.graph.gradients import BranchShare, TensorFigures
from gradviz.graph.invariants import InvalidGraph, check_call_log, check_graph
from gradviz.graph.model import BackwardCall, Graph, ModuleScope, RefusedRoot
from gradviz.graph.node_findings import CutEdge, NodeFinding, Verdict
from gradviz.graph.root_shares import LeafProducts, LossTerm, RootShares
from gradviz.view.folding import FoldOptions, fold
from gradviz.view.invariants import InvalidView, check_view
from gradviz.view.model import Item, Link, View
from tests.builders import graph_of, unrolled_rnn
from tests.captures import small_call_log, small_graph

REFERENCES = frozenset(
    {
        "alive_after",
        "array_of",
        "call_site",
        "caller",
        "constant",
        "definition",
        "failed_node",
        "first_seen",
        "from_numpy_of",
        "grad_mode_site",
        "gradient_of",
        "inside",
        "leaf",
        "node",
        "optimizer",
        "parent",
        "producer",
        "refused",
        "scope",
        "source",
        "storage",
        "target",
    }
)
"""Names of the fields that hold the index of something; in a call log ``storage`` is but a number, of no table."""
NOWHERE = 10**6


def references_in(content: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Where in `content` the index of something stands."""
    entries = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    for key, value in entries:
        if key in REFERENCES and type(value) is int:
            yield (*path, key)
        if key in ("inputs", "outputs"):  # uses of tensors are written as lists; the index of the tensor comes first
            yield from ((*path, key, number, 0) for number, use in enumerate(value) if isinstance(use, list))
        yield from references_in(value, (*path, key))


def with_value(content: Any, path: tuple[str | int, ...], value: int) -> Any:
    """A copy of `content` with another value there."""
    changed = msgspec.json.decode(msgspec.json.encode(content))
    holder = changed
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = value
    return changed


def graph_with_every_reference() -> Graph:
    graph = small_graph()
    verdict = Verdict(code="GV101", severity="warning", cause="detached", message="cut off")
    about_node = NodeFinding(code="GV102", severity="warning", cause="detached", message="cut off", node=2)
    return replace(
        graph,
        scopes=(*graph.scopes, ModuleScope("model.inner", "Linear", parent=0, call_site=0)),
        backward=BackwardCall(1, call_site=0, failed_node=2),
        refused=(RefusedRoot("loss"),),
        findings=(about_node,),
        cut_edges=(
            CutEdge(verdict, "detach", node=2, sources=(1,), constant=0, scope=1),
            CutEdge(verdict, "detach", refused=0),
        ),
        root_shares=RootShares((LossTerm("loss", (3,), call_site=0),), (LeafProducts(0, (1.0,)),)),
    )


GRAPH = msgspec.json.decode(msgspec.json.encode(graph_with_every_reference()))
CALL_LOG = msgspec.json.decode(msgspec.json.encode(small_call_log()))


def in_words(path: tuple[str | int, ...]) -> str:
    return ".".join(map(str, path))


@pytest.mark.parametrize("path", list(references_in(GRAPH)), ids=in_words)
def test_a_graph_with_an_index_that_points_nowhere_is_refused(path: tuple[str | int, ...]) -> None:
    check_graph(msgspec.convert(GRAPH, Graph))
    with pytest.raises(InvalidGraph, match=str(NOWHERE)):
        check_graph(msgspec.convert(with_value(GRAPH, path, NOWHERE), Graph))
    with pytest.raises(msgspec.ValidationError, match="Expected `int` >= 0"):
        msgspec.convert(with_value(GRAPH, path, -1), Graph)


@pytest.mark.parametrize("path", [path for path in references_in(CALL_LOG) if path[-1] != "storage"], ids=in_words)
def test_a_call_log_with_an_index_that_points_nowhere_is_refused(path: tuple[str | int, ...]) -> None:
    check_call_log(msgspec.convert(CALL_LOG, CallLog))
    with pytest.raises(InvalidGraph, match=str(NOWHERE)):
        check_call_log(msgspec.convert(with_value(CALL_LOG, path, NOWHERE), CallLog))
    with pytest.raises(msgspec.ValidationError, match="Expected `int` >= 0"):
        msgspec.convert(with_value(CALL_LOG, path, -1), CallLog)


@pytest.mark.parametrize(
    "changes",
    [
        {"constants": (), "cut_edges": ()},
        {"cut_edges": (replace(graph_with_every_reference().cut_edges[0], sources=(NOWHERE,)),)},
        {"cut_edges": (replace(graph_with_every_reference().cut_edges[1], refused=None),)},
        {"cut_edges": (replace(graph_with_every_reference().cut_edges[0], refused=0),)},
        {"root_shares": RootShares((LossTerm("loss", (NOWHERE,)),))},
        {"root_shares": RootShares((LossTerm("loss", (3,)),), (LeafProducts(0, (1.0, 2.0)),))},
    ],
    ids=["constants", "sources", "from nowhere", "from two", "nodes of a loss", "products"],
)
def test_a_graph_that_contradicts_itself_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidGraph):
        check_graph(replace(graph_with_every_reference(), **changes))


def test_scopes_and_call_sites_that_stand_inside_of_themselves_are_refused() -> None:
    log = small_call_log()
    with pytest.raises(InvalidGraph, match="scope 0 refers to scope 0, which does not precede it"):
        check_call_log(replace(log, scopes=(replace(log.scopes[0], parent=0),)))
    with pytest.raises(InvalidGraph, match="call site 0 refers to call site 0, which does not precede it"):
        check_call_log(replace(log, call_sites=(replace(log.call_sites[0], caller=0), *log.call_sites[1:])))


@pytest.mark.parametrize("figures", [{"gradients": (TensorFigures(),) * 3}, {"shares": (BranchShare(),)}])
def test_a_node_with_more_or_fewer_figures_than_edges_is_refused(figures: Any) -> None:
    graph = graph_of("w -> Mul -> loss; x -> Mul")
    nodes = (*graph.nodes[:2], replace(graph.nodes[2], **figures))
    with pytest.raises(InvalidGraph, match="node 2 has 2 edges, but figures for"):
        check_graph(replace(graph, nodes=nodes))


def looped() -> tuple[View, Graph]:
    """A loop whose state is carried from one repetition to the next."""
    graph = unrolled_rnn(6)
    view = fold(graph, FoldOptions(depth=9))
    assert any(item.source is not None for item in view.items)
    return view, graph


def with_item(view: View, number: int, **changes: Any) -> View:
    items = list(view.items)
    items[number] = replace(items[number], **changes)
    return replace(view, items=tuple(items))


def wrong_views() -> dict[str, View]:
    view, graph = looped()
    carried = next(item for item in view.items if item.source is not None)
    box = next(item for item in view.items if item.repeat > 1)
    inside = next(item for item in view.items if item.parent == box.id)
    root = next(item for item in view.items if item.kind == "root")
    leaf = next(item for item in view.items if item.node is not None and graph.nodes[item.node].is_leaf)
    last = next(item for item in view.items if item.kind == "node" and item.parent is None)
    first = view.links[0]
    back = Link(first.target, first.source)
    return {
        "is at index 1": with_item(view, leaf.id, id=99),
        "precedes its box": with_item(view, inside.id, parent=len(view.items) - 1),
        "is in the folded box": with_item(view, box.id, is_open=False),
        "is empty": with_item(view, leaf.id, is_open=True),
        "are linked 2 times": replace(view, links=(*view.links, first)),
        "is linked to itself": replace(view, links=(*view.links, Link(leaf.id, leaf.id))),
        "a link ends at the open box": replace(view, links=(*view.links, Link(leaf.id, box.id))),
        "the links make a cycle": replace(view, links=(*view.links, back)),
        "is not drawn": with_item(view, leaf.id, nodes=()),
        "is in 0 items": with_item(view, last.id, nodes=()),
        "not every root is drawn once": with_item(view, root.id, root=1),
        "not every refused root": replace(view, items=(*view.items, Item(len(view.items), "refused", refused=0))),
        "is carried without a source, or has a source": with_item(view, carried.id, source=None),
        "has 0 users": replace(view, links=tuple(link for link in view.links if link.source != carried.id)),
        "a link ends at the carried item": replace(view, links=(*view.links, Link(leaf.id, carried.id))),
        "is carried outside a loop": with_item(view, box.id, repeat=1),
    }


@pytest.mark.parametrize("fault", wrong_views())
def test_a_view_with_a_fault_is_refused(fault: str) -> None:
    view, graph = looped()
    check_view(view, graph)
    with pytest.raises(InvalidView, match=fault):
        check_view(wrong_views()[fault], graph)


def test_what_two_repetitions_carry_is_carried_in_a_loop() -> None:
    view, graph = looped()
    boxes = [item for item in view.items if item.repeat > 1]
    for box in boxes:
        view = with_item(view, box.id, repeat=2)
    check_view(view, graph)


def test_a_fingerprint_that_no_tensor_has_is_refused() -> None:
    log = small_call_log()
    call, use = log.calls[1], log.calls[1].outputs[0]
    for projection, is_refused in ((1.0, False), (float("nan"), True), (float("-inf"), True)):
        given = Fingerprint(2**64 - 1, 1.0, 1.0, 0, packed_projections([projection] * 8))
        changed = replace(call, outputs=(replace(use, fingerprint=given),))
        bad = replace(log, calls=(log.calls[0], changed, *log.calls[2:]))
        if is_refused:
            with pytest.raises(InvalidGraph, match="call 1 has a fingerprint with a projection that is NaN or Inf"):
                check_call_log(bad)
        else:
            check_call_log(bad)


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        (Fingerprint, [-1, 1.0, 1.0, 0, bytes(64)]),
        (Fingerprint, [1, float("inf"), 1.0, 0, bytes(64)]),
        (Fingerprint, [1, 1.0, 1.0, -1, bytes(64)]),
        (Fingerprint, [1, 1.0, 1.0, 0, bytes(63)]),
        (RandomDraw, ["cpu", -1, 1]),
        (RandomDraw, ["cpu", 1, 2**32]),
    ],
)
def test_checksums_and_sizes_out_of_their_bounds_are_refused_when_read(kind: Any, content: list[Any]) -> None:
    with pytest.raises(msgspec.ValidationError, match="Expected"):
        msgspec.msgpack.decode(msgspec.msgpack.encode(content), type=kind)
