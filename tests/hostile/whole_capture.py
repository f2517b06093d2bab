"""A capture of two linear layers in which every field of the schema has a value, written by hand."""

from __future__ import annotations

from msgspec.structs import replace

from gradviz.capture.capture import Capture
from gradviz.graph.call_log import DerivativeCheck, Holder, RandomDraw
from gradviz.graph.fingerprints import Fingerprint, packed_projections
from gradviz.graph.gradients import BranchShare, LeafGradient, NodeRun, TensorFigures
from gradviz.graph.model import BackwardCall, CustomFunction, Graph, ModuleScope, Node, RefusedRoot
from gradviz.graph.node_findings import CutEdge, NodeFinding, Verdict
from gradviz.graph.root_shares import LeafProducts, LossTerm, RootShares
from gradviz.graph.saved_tensors import OlderGraph
from tests.captures import small_capture, small_graph


def figures(*values: float, shape: tuple[int, ...] = ()) -> TensorFigures:
    """Statistics of a few numbers, each of which is kept."""
    return TensorFigures(
        shape or (len(values),), "float32", norm=sum(value * value for value in values) ** 0.5,
        mean=sum(values) / len(values), minimum=min(values), maximum=max(values), count=len(values),
        zeros=values.count(0.0), histogram=(1, len(values)), histogram_from=-3, values=values,
        fingerprint=fingerprint(*values),
    )  # fmt: skip


def fingerprint(*values: float) -> Fingerprint:
    """Of a few numbers, with a checksum that needs 64 bits."""
    return Fingerprint(2**64 - 1, 1.5, max(map(abs, values)), 1, packed_projections([0.25, *[-1.0] * 7]))


def whole_capture() -> Capture:
    """Two backward calls, one of them refused, and a call log."""
    capture = small_capture()
    calls = capture.calls
    assert calls is not None
    held = replace(calls.tensors[2], alive_after=2, holder=Holder("history[0]", True, (("/project/train.py", 7),)))
    definition = replace(
        calls.definitions[0], returns=(5,), in_place=(4,), once_differentiable_line=3, attributes=(("x", 4),)
    )
    first, second, *others = calls.calls
    first = replace(first, draw=RandomDraw("cpu", 1, 2**32 - 1))
    second = replace(second, outputs=(replace(second.outputs[0], fingerprint=fingerprint(3.0, 4.0)),))
    calls = replace(
        calls,
        calls=(first, second, *others),
        tensors=(*calls.tensors[:2], held),
        definitions=(definition,),
        derivatives=(
            DerivativeCheck("Swish", 0, (1.0, 2.0), (1.0, 2.5), 1, line=("/project/train.py", 5), cut_line=("a.py", 6)),
        ),
        moments=(2, 3),
    )  # fmt: skip
    graph = whole_graph()
    verdict = Verdict("GV101", "detached", "warning", "cut off", "because", "do not")
    refused = replace(
        graph,
        roots=(),
        backward=BackwardCall(2, call_site=0),
        refused=(RefusedRoot("aside", graph.roots[0].tensor),),
        cut_edges=(CutEdge(verdict, "item", refused=0, sources=(2,), path=("a.sum()", "b * a")),),
        root_shares=None,
    )
    return replace(capture, graphs=(graph, refused), calls=calls, missing={"hooks": "hooks of tensors are not seen"})


def whole_graph() -> Graph:
    """The graph of `small_capture` with gradients, values, findings and shares of losses."""
    graph = small_graph()
    scopes = (*graph.scopes, ModuleScope("model.inner", "Linear", parent=0, call_site=0))
    verdict = Verdict("GV101", "detached", "warning", "cut off", "because", "do not")
    return replace(
        graph,
        nodes=tuple(map(_with_gradients, graph.nodes)),
        roots=(replace(graph.roots[0], gradient=figures(1.0)),),
        scopes=scopes,
        constants=(replace(graph.constants[0], value=figures(1.0, 2.0, 0.0, 4.0, 5.0, 6.0, shape=(2, 3))),),
        backward=BackwardCall(1, call_site=0, failed_node=2, retain_graph=True),
        older_graphs=(OlderGraph("losses", 3),),
        root_shares=RootShares(
            (LossTerm("one", (3,), 0), LossTerm("other", (2,), 1)), (LeafProducts(0, (1.0, 0.5, 0.5, 2.0)),)
        ),
        custom_functions=(CustomFunction("MmBackward0", "Mm", "/project/train.py", 3, 7),),
        findings=(NodeFinding("GV102", "detached", "warning", "cut off", node=2),),
        cut_edges=(
            CutEdge(verdict, "detach", ("x",), "/project/train.py", 7, node=2, sources=(1,), constant=0, scope=1),
        ),
        unplaced_findings=(verdict,),
    )


def _with_gradients(node: Node) -> Node:
    figure = figures(0.5, -2.0, 0.0)
    return replace(
        node,
        gradients=tuple(figure for _ in node.edges),
        shares=tuple(BranchShare(0.5, -1.0) for _ in node.edges),
        arrived=(figure,) * max(len(node.outputs), 1),
        before_hooks=(figure,) if node.hooks else (),
        values=(figures(1.0, 2.0),) * len(node.outputs),
        run=NodeRun(3 - node.id, 0.25),
        leaf_gradient=LeafGradient("accumulated", figure, figure) if node.is_leaf else None,
        saved=tuple(replace(saved, value=figures(3.0, 4.0)) if saved.tensor else saved for saved in node.saved),
    )
