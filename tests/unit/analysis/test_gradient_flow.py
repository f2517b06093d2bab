"""The figures of every parameter, folds of them, the trend over depth, and where a gradient was lost."""

from __future__ import annotations

from math import hypot

import pytest
from msgspec.structs import replace

from gradviz.analysis.flow.gradient_flow import deepest_that_fits, folded, gradient_flow, has_gradients
from gradviz.analysis.flow.shared_weights import shared_weights
from gradviz.capture.capture import Capture, Parameter, Program, ScriptError
from gradviz.graph.gradients import BranchShare, LeafGradient, NodeRun, TensorFigures
from gradviz.graph.model import BackwardCall, Graph, TensorFacts
from tests.builders import GraphBuilder, graph_of

SHAPE = (2, 3)
NAMES = tuple(f"net.layers.{place}.weight" for place in range(9))


def figures(norm: float | None, *, zeros: int = 0, nans: int = 0) -> TensorFigures:
    return TensorFigures(shape=SHAPE, dtype="float32", norm=norm, count=6, zeros=zeros, nans=nans)


ZERO = figures(0.0, zeros=6)
UNDEFINED = TensorFigures(is_undefined=True)


def chain(sent: list[TensorFigures]) -> Graph:
    """Weights w0, w1, ... each multiplied onto the one before; `sent[i]` is what the i-th got, and all before it."""
    build = GraphBuilder()
    weights = [build.leaf(name, SHAPE) for name in NAMES[: len(sent)]]
    product = weights[0]
    for weight in weights[1:]:
        product = build.operation("Mul", product, weight)
    build.root(product)
    graph = build.build()
    nodes = list(graph.nodes)
    order = len(nodes)
    for place, got in enumerate(sent):
        run = None if got.is_undefined else NodeRun(order - place)
        nodes[weights[place]] = replace(
            nodes[weights[place]], arrived=(got,), run=run, values=(figures(2.0),), leaf_gradient=LeafGradient("fresh")
        )
    for node in nodes[len(weights) :]:
        second = node.edges[1]
        assert second is not None
        got = sent[weights.index(second.target)]
        before = sent[weights.index(second.target) - 1]
        nodes[node.id] = replace(
            node, gradients=(before, got), arrived=(figures(1.0),), run=NodeRun(len(nodes) - node.id)
        )
    return replace(graph, nodes=tuple(nodes), backward=BackwardCall(1))


def capture(graph: Graph, *more: Parameter, error: ScriptError | None = None) -> Capture:
    parameters = tuple(Parameter((name,), TensorFacts(SHAPE, "float32")) for name in NAMES)
    known = {name for node in graph.nodes for name in node.names}
    return Capture(
        Program("train.py"), (graph,), tuple(p for p in parameters if p.names[0] in known) + more, error=error
    )


def test_rows_are_in_the_order_of_the_model_with_the_norm_over_the_weights_norm() -> None:
    graph = chain([figures(1.0), figures(3.0, zeros=2)])
    first, second = gradient_flow(capture(graph), graph).rows
    assert (first.name, second.name) == NAMES[:2]
    assert (second.norm, second.ratio, second.zeros) == (3.0, 1.5, 2)


@pytest.mark.parametrize(
    ("step", "verdict"), [(1.0, "steady"), (0.1, "exploding"), (10.0, "vanishing")], ids=["level", "up", "down"]
)
def test_the_trend_goes_from_the_loss_to_the_input(step: float, verdict: str) -> None:
    graph = chain([figures(step**place) for place in range(9)])
    trend = gradient_flow(capture(graph), graph).trend
    assert trend is not None
    assert trend.verdict == verdict
    assert trend.factor == pytest.approx(step**-6)


def test_two_parameters_make_no_trend() -> None:
    graph = chain([figures(1e-9), figures(1.0)])
    assert gradient_flow(capture(graph), graph).trend is None


def test_a_module_has_the_figures_of_all_its_elements_together() -> None:
    graph = chain([figures(3.0, zeros=1), figures(4.0, nans=2), UNDEFINED])
    (module,) = folded(gradient_flow(capture(graph), graph).rows, 1)
    assert (module.name, module.parameters, module.count) == ("net.layers", 3, 12)
    assert (module.norm, module.weight_norm) == (5.0, hypot(2.0, 2.0))
    assert (module.zeros, module.nans, module.nothing) == (1, 2, "1 of 3")


def test_many_rows_fold_at_the_deepest_level_that_fits() -> None:
    graph = chain([figures(1.0)] * 9)
    rows = gradient_flow(capture(graph), graph).rows
    assert deepest_that_fits(rows, 9) is None
    assert deepest_that_fits(rows, 8) == 1
    assert [row.name for row in folded(rows, 1)] == ["net.layers"]
    assert [row.name for row in folded(rows, 0)] == ["net"]


def test_where_a_gradient_became_zero_is_the_last_node_that_got_something_else() -> None:
    graph = chain([ZERO, ZERO, figures(1.0)])
    rows = gradient_flow(capture(graph), graph).rows
    makers = [node.id for node in graph.nodes if node.name == "MulBackward0"]
    assert [row.lost_at for row in rows] == [makers[0], makers[0], None]
    assert rows[0].is_zero


def test_the_first_node_that_makes_nan_out_of_finite_gradients_is_found() -> None:
    graph = chain([figures(1.0, nans=1), figures(1.0, nans=1), figures(1.0)])
    first = gradient_flow(capture(graph), graph).first_nan
    assert first is not None
    assert graph.nodes[first].name == "MulBackward0"
    assert gradient_flow(capture(graph), graph).first_nan_by == "node"
    assert first == max(node.id for node in graph.nodes if any(sent and sent.nans for sent in node.gradients))


def test_nan_that_a_hook_makes_is_blamed_on_the_hook() -> None:
    graph = graph_of("w -> Mul -> Sum -> loss")
    mul, total = (node.id for node in graph.nodes if not node.is_leaf)
    nodes = list(graph.nodes)
    nodes[total] = replace(nodes[total], gradients=(figures(1.0),), arrived=(figures(1.0),), run=NodeRun(0))
    bad = (figures(1.0, nans=1),)
    nodes[mul] = replace(nodes[mul], gradients=bad, arrived=bad, run=NodeRun(1), hooks=("divide",))
    hooked = replace(graph, nodes=tuple(nodes), backward=BackwardCall(1))

    flow = gradient_flow(capture(hooked), hooked)

    assert (flow.first_nan, flow.first_nan_by) == (mul, "hook")


def test_each_parameter_without_a_gradient_has_a_reason() -> None:
    graph = chain([figures(1.0), UNDEFINED])
    graph = replace(
        graph, nodes=tuple(replace(n, run=NodeRun(1)) if n.names == (NAMES[1],) else n for n in graph.nodes)
    )
    unused = Parameter(("net.unused",), TensorFacts(SHAPE, "float32"))
    frozen = Parameter(("net.frozen",), TensorFacts(SHAPE, "float32"), requires_grad=False)
    reasons = [row.nothing for row in gradient_flow(capture(graph, unused, frozen), graph).rows]
    assert reasons[0] is None
    assert "sent None" in str(reasons[1])
    assert "not in the graph" in str(reasons[2])
    assert "frozen" in str(reasons[3])


def test_a_failed_backward_is_the_reason_for_what_it_did_not_reach() -> None:
    graph = chain([UNDEFINED, figures(1.0)])
    error = ScriptError("ValueError", "half-way", "", in_backward=True)
    first, _ = gradient_flow(capture(graph, error=error), graph).rows
    assert first.nothing == "backward failed before it came here"


def test_a_graph_without_runs_has_no_gradients() -> None:
    build = GraphBuilder()
    build.root(build.operation("Sum", build.leaf("w")))
    assert not has_gradients(build.build())


def test_a_weight_used_in_two_places_has_the_share_of_each() -> None:
    graph = graph_of("w -> model.embed/Embedding -> Sum -> loss; w -> model.head/Mm -> Sum; v -> Sum")
    by_name = {"EmbeddingBackward0": BranchShare(0.25), "MmBackward0": BranchShare(0.75)}
    nodes = tuple(replace(n, shares=(by_name[n.name],)) if n.name in by_name else n for n in graph.nodes)
    (shared,) = shared_weights(replace(graph, nodes=nodes))
    assert shared.leaf.names == ("w",)
    assert [(node.name, share) for node, share in shared.uses] == [("MmBackward0", 0.75), ("EmbeddingBackward0", 0.25)]
