"""The steps of a backward pass, from graphs alone: what ran, in which order, and which gradients went where."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from gradviz.analysis.replay.engine_order import expected_order
from gradviz.analysis.replay.steps import START, Replay
from gradviz.graph.gradients import NodeRun, TensorFigures
from gradviz.graph.model import BackwardCall, Edge, Graph, HeldTensor, Node, Root
from gradviz.view.build import view_of
from gradviz.view.keywords import view_options
from tests.builders import chain_graph, graph_of, transformer, unrolled_rnn

DIAMOND = "w -> Exp -> Mul -> loss; Exp -> Sin -> Mul"


def replay_of(graph: Graph, **options: object) -> Replay:
    viewed = view_of(graph, view_options(options))
    return Replay(viewed.graph, viewed.view)


def names(replay: Replay) -> list[list[str]]:
    return [[replay.graph.nodes[node].name for node in step.nodes] for step in replay.steps]


def with_runs(graph: Graph, order: list[int]) -> Graph:
    ran = {node: place for place, node in enumerate(order)}
    nodes = [replace(node, run=NodeRun(ran[node.id])) if node.id in ran else node for node in graph.nodes]
    return replace(graph, nodes=tuple(nodes))


def test_without_a_recorded_run_the_last_made_runs_first_and_a_leaf_as_soon_as_it_is_ready() -> None:
    replay = replay_of(graph_of("w -> Mul -> Sum -> loss; b -> Sum"))
    assert not replay.was_watched
    assert [names[0].rpartition("::")[2] for names in names(replay)] == [
        "SumBackward0",
        "AccumulateGrad",
        "MulBackward0",
        "AccumulateGrad",
    ]


def test_a_recorded_run_is_played_in_its_own_order() -> None:
    graph = graph_of("w -> Exp -> Add -> loss; v -> Sin -> Add")
    order = [*reversed(range(len(graph.nodes)))]
    other = [order[0], order[2], order[1], *order[3:]]
    assert [step.nodes[0] for step in replay_of(with_runs(graph, other)).steps] == other


def test_a_node_with_two_users_waits_for_both_of_them() -> None:
    replay = replay_of(graph_of(DIAMOND))
    (exp,) = (step for step in replay.steps if names(replay)[step.number - 1] == ["ExpBackward0"])
    assert [flow.step for flow in exp.entering] == [1, 2]
    states = [replay.state_of_step(exp.number, at) for at in range(len(replay) + 1)]
    assert states == ["ahead", "waits", "ready", "runs", "ran"]
    assert [replay.waiting(at) for at in range(len(replay) + 1)] == [1, 2, 1, 1, 0]


def test_every_gradient_enters_one_step_after_it_left_another() -> None:
    for graph in (transformer(3), unrolled_rnn(5), graph_of(DIAMOND)):
        replay = replay_of(graph, depth=9)
        sent = [flow for step in replay.steps for flow in step.leaving]
        come = [flow for step in replay.steps for flow in step.entering if flow.step != START]
        assert sorted(map(repr, sent)) == sorted(map(repr, come))
        assert all(flow.step < step.number for step in replay.steps for flow in step.entering)


def test_a_folded_box_runs_as_one_step_and_its_inside_sends_nothing_to_itself() -> None:
    graph = graph_of("w -> model.fc/Mul -> model.fc/Sin -> Sum -> loss; x -> model.fc/Mul")
    replay = replay_of(graph, depth=0)
    box = next(step for step in replay.steps if len(step.nodes) > 1)
    assert {graph.nodes[node].name for node in box.nodes} >= {"MulBackward0", "SinBackward0"}
    assert {flow.receiver for flow in box.leaving}.isdisjoint(box.nodes)


def test_each_repetition_of_an_open_loop_is_a_step_the_last_one_first() -> None:
    replay = replay_of(unrolled_rnn(6, data=False), depth=9)
    repeated = [numbers for item in replay.view.items if len(numbers := replay.steps_of_item(item.id)) > 1]
    assert repeated
    for numbers in repeated:
        first_nodes = [replay.step(number).nodes[0] for number in numbers]
        assert first_nodes == sorted(first_nodes, reverse=True)


def test_views_of_one_name_run_in_the_step_of_the_operation_that_takes_them() -> None:
    graph = graph_of("w -> View.a -> View.b -> Mm -> Sum -> loss; x -> Mm")
    nodes = [replace(node, kind="view") if node.name == "ViewBackward0" else node for node in graph.nodes]
    replay = replay_of(replace(graph, nodes=tuple(nodes)))
    assert ["MmBackward0", "ViewBackward0", "ViewBackward0"] in names(replay)


def test_every_node_runs_in_exactly_one_step() -> None:
    for graph in (transformer(4), unrolled_rnn(30), chain_graph(50)):
        for depth in (0, 1, 9):
            replay = replay_of(graph, depth=depth)
            ran = [node for step in replay.steps for node in step.nodes]
            assert sorted(ran) == sorted(expected_order(graph))
            assert replay.nodes_done(len(replay)) == len(ran)


def test_the_node_that_raised_is_the_last_step_and_sends_nothing() -> None:
    graph = with_runs(graph_of("w -> Exp -> Sin -> loss", failed="Exp"), [2])
    replay = replay_of(graph)
    assert names(replay) == [["SinBackward0"], ["ExpBackward0"]]
    assert replay.has_failed(replay.step(2))
    assert replay.step(2).leaving == []
    leaf = next(item for item in replay.view.items if item.node == 0)
    assert replay.state_of(leaf, len(replay)) == "never"


def test_a_leaf_whose_gradient_grad_gives_back_is_a_step_although_it_does_not_run() -> None:
    arrived = (TensorFigures(norm=2.0, count=1),)
    graph = Graph(
        (
            Node(0, "torch::autograd::AccumulateGrad", "input", held=(HeldTensor(("x",), True),), arrived=arrived),
            Node(1, "ExpBackward0", sequence_nr=0, edges=(Edge(0),), run=NodeRun(0)),
        ),
        (Root(1, name="y"),),
        backward=BackwardCall(1, "grad"),
    )
    assert [step.nodes for step in replay_of(graph).steps] == [[1], [0]]


def test_a_part_of_a_graph_is_played_with_what_comes_from_outside_there_from_the_start() -> None:
    replay = replay_of(graph_of("w -> Exp -> Sin -> Cos -> Tan -> loss"), around="SinBackward0", radius=1)
    assert replay.steps[0].entering == []
    assert replay.state_of_step(1, START) == "ready"


@pytest.mark.parametrize("options", [{}, {"show_all": True, "plumbing": True}])
def test_a_long_chain_is_played(options: dict[str, object]) -> None:
    replay = replay_of(chain_graph(3_000), **options)
    assert replay.nodes_done(len(replay)) == 3_003
