"""The recorded graph is torch's: the same nodes, the same edges, slot by slot."""

# Much of torch has no types: backward, register_hook, Function.apply.
# mypy: allow-untyped-calls, no-warn-return-any
from __future__ import annotations

import threading
from typing import Any

import pytest
import torch

from gradviz.graph.model import Edge, Graph
from gradviz.recording.walk.graph_walker import Walk, walk
from tests.integration.recording.helpers import names_of_nodes, node_named, nodes_named, record
from tests.integration.recording.small_graphs import PROGRAMS, Program, independent_walk, weight


def backward_over(program: Program) -> Program:
    """The program, followed by a backward call on all its roots."""

    def run() -> tuple[torch.Tensor, ...]:
        roots = program()
        torch.autograd.backward(roots, [torch.ones_like(root) for root in roots])
        return roots

    return run


def assert_same_graph(graph: Graph, roots: tuple[torch.Tensor, ...]) -> None:
    """Follow both at once from the roots: every node, name, slot, ``None`` and ``input_nr`` must agree."""
    found = dict(independent_walk(roots))
    assert len(graph.roots) == len(roots)
    waiting: list[tuple[int, Any]] = []
    for recorded, root in zip(graph.roots, roots, strict=True):
        assert recorded.output_nr == root.output_nr
        waiting.append((recorded.node, root.grad_fn or torch.autograd.graph.get_gradient_edge(root).node))
    place_of: dict[Any, int] = {}
    while waiting:
        place, node = waiting.pop()
        if node in place_of:
            assert place_of[node] == place
            continue
        place_of[node] = place
        assert graph.nodes[place].name == node.name()
        expected = [None if follower is None else input_nr for follower, input_nr in found[node]]
        edges = graph.nodes[place].edges
        assert [None if edge is None else edge.input_nr for edge in edges] == expected
        waiting += [
            (edge.target, follower) for edge, (follower, _) in zip(edges, found[node], strict=True) if edge is not None
        ]
    assert sorted(place_of.values()) == list(range(len(graph.nodes)))
    assert len(place_of) == len(found)


@pytest.mark.parametrize("words", PROGRAMS)
def test_a_recorded_graph_has_the_nodes_and_edges_of_an_independent_walk(words: str) -> None:
    recording = record(backward_over(PROGRAMS[words]))
    # Programs that ask for gradients on their way have made graphs before.
    assert_same_graph(recording.capture.graphs[-1], recording.value)


@pytest.mark.parametrize("words", PROGRAMS)
def test_a_graph_that_backward_has_freed_can_still_be_walked(words: str) -> None:
    roots = backward_over(PROGRAMS[words])()
    starts = [root.grad_fn or torch.autograd.graph.get_gradient_edge(root).node for root in roots]
    found = dict(independent_walk(roots))
    walked = walk(starts)
    assert set(walked.wrappers) == set(found)
    for wrapper, edges in zip(walked.wrappers, walked.edges, strict=True):
        followers = [(edge and walked.wrappers[edge.target], edge.input_nr if edge else 0) for edge in edges]
        assert followers == list(found[wrapper])


def test_the_same_program_gives_the_same_graph_twice() -> None:
    def graph() -> Graph:
        return record(backward_over(PROGRAMS["an encoder layer"])).graph

    first, second = graph(), graph()
    assert names_of_nodes(first) == names_of_nodes(second)
    assert [node.edges for node in first.nodes] == [node.edges for node in second.nodes]
    assert [node.outputs for node in first.nodes] == [node.outputs for node in second.nodes]
    assert [node.call_site for node in first.nodes] == [node.call_site for node in second.nodes]


def test_a_leaf_comes_just_before_its_first_use() -> None:
    def run() -> None:
        early, late = weight(2), weight(2)
        ((early * 2).sin() * late).sum().backward()

    leaf = "torch::autograd::AccumulateGrad"
    names = names_of_nodes(record(run).graph)
    assert names == [leaf, "MulBackward0", "SinBackward0", leaf, "MulBackward0", "SumBackward0"]


def test_the_first_operation_of_a_thread_has_its_leaf_before_it() -> None:
    """torch counts from 0 in every thread."""
    graphs: list[Walk] = []
    thread = threading.Thread(target=lambda: graphs.append(walk([(weight(2) * weight(2)).sum().grad_fn])))
    thread.start()
    thread.join()
    leaf = "torch::autograd::AccumulateGrad"
    assert [wrapper.name() for wrapper in graphs[0].wrappers] == [leaf, leaf, "MulBackward0", "SumBackward0"]
    assert graphs[0].sequence_nrs[2:] == [0, 1]


def test_several_outputs_arrive_at_their_own_input_numbers() -> None:
    def run() -> None:
        first, _, third = (weight(3, 2) * 2).unbind()
        (first * third).sum().backward()

    graph = record(run).graph
    unbind = node_named(graph, "UnbindBackward0")
    product = nodes_named(graph, "MulBackward0")[-1]
    assert product.edges == (Edge(unbind.id, 0), Edge(unbind.id, 2))


def test_a_walk_from_nothing_finds_nothing() -> None:
    assert walk([]).wrappers == []
    assert walk([None]).wrappers == []


def test_a_chain_longer_than_the_recursion_limit_is_walked() -> None:
    x = weight(1)
    for _ in range(5_000):
        x = x + 1
    assert len(walk([x.grad_fn]).wrappers) == 5_001
