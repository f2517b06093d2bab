"""Boxes with several repetitions, open to show each of them."""

from __future__ import annotations

import pytest

from gradviz.graph.model import Graph
from gradviz.view.folding import plan_folding
from gradviz.view.invariants import check_view
from gradviz.view.model import View
from tests.builders import transformer, unrolled_rnn


def views_of_each(graph: Graph) -> list[View]:
    """Of the only repeated box."""
    plan = plan_folding(graph)
    (box,) = plan.repeated_boxes()
    return list(plan.levels(box))


@pytest.mark.parametrize("graph", [transformer(40), unrolled_rnn(40)], ids=["blocks", "steps of a loop"])
def test_every_repetition_is_a_member_of_its_own_and_opens(graph: Graph) -> None:
    views = views_of_each(graph)
    for view in views:
        check_view(view, graph)
    (row,) = [item for item in views[0].items if item.each]
    members = [item for item in views[0].children()[row.id] if item.kind == "box"]
    assert len(members) == 40 and len({member.nodes for member in members}) == 40
    assert all(member.repeat == 1 and not member.is_open for member in members)
    assert {node for member in members for node in member.nodes} <= set(row.nodes)
    assert not any(item.kind == "box" and not item.is_open for item in views[-1].items)


def test_repetitions_take_data_from_one_another() -> None:
    view = views_of_each(unrolled_rnn(40))[0]
    (row,) = [item.id for item in view.items if item.each]
    steps = {item.id for item in view.children()[row] if item.kind == "box"}
    assert sum(link.source in steps and link.target in steps for link in view.links) == 39
    assert not any(item.kind == "carried" for item in view.items)
