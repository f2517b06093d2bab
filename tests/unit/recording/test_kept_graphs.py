"""Which graphs of a long run are kept."""

from __future__ import annotations

from msgspec.structs import replace

from gradviz.graph.gradients import NodeRun, TensorFigures
from gradviz.graph.model import BackwardCall, CallSite, Graph, HeldTensor, Node, Root
from gradviz.recording.backward.kept_graphs import KeptGraphs

_FINE = TensorFigures(norm=1.0, count=4)


def step(line: int = 7, gradient: TensorFigures | None = _FINE) -> Graph:
    """A weight and a loss, as one backward call on this line left them."""
    arrived = (gradient,) if gradient is not None else ()
    run = NodeRun(1) if gradient is not None else None
    weight = Node(0, "AccumulateGrad", "parameter", held=(HeldTensor(("w",), is_leaf=True),), arrived=arrived, run=run)
    loss = Node(1, "SumBackward0", run=NodeRun(0), gradients=arrived)
    site = CallSite("train.py", line)
    return Graph((weight, loss), (Root(1, name="loss"),), call_sites=(site,), backward=BackwardCall(1, call_site=0))


def kept(graphs: list[Graph], recent_nodes: int = 4) -> list[int]:
    """The indices of those that are kept in the end."""
    chooser, places = KeptGraphs(recent_nodes), set[int]()
    for place, graph in enumerate(graphs):
        places.add(place)
        places -= set(chooser.add(place, graph))
    return sorted(places)


def test_of_a_hundred_equal_steps_the_first_and_the_last_ones_are_kept() -> None:
    assert kept([step()] * 100) == [0, 98, 99]


def test_the_step_in_which_nan_appears_is_kept_but_not_those_after_it() -> None:
    broken = step(gradient=replace(_FINE, norm=None, nans=4))
    assert kept([step()] * 10 + [broken] * 90) == [0, 10, 98, 99]


def test_a_step_in_which_a_gradient_is_missing_or_zero_for_the_first_time_is_kept() -> None:
    missing, zero = step(gradient=None), step(gradient=replace(_FINE, norm=0.0, zeros=4))
    assert kept([*[step()] * 10, missing, *[step()] * 10, zero, *[step()] * 10]) == [0, 10, 21, 30, 31]


def test_the_steps_in_which_the_gradient_grows_to_another_power_of_ten_are_kept_while_they_are_few() -> None:
    growing = [step(gradient=replace(_FINE, norm=float(f"1e{decade}"))) for decade in range(30)]
    assert kept(growing) == [0, 1, 2, 3, 28, 29]


def test_a_backward_on_another_line_keeps_its_first_and_newest_call_however_long_ago() -> None:
    calls = [step(), step(9), step(9), *[step()] * 50]
    assert kept(calls) == [0, 1, 2, 52]


def test_a_thousand_lines_that_call_backward_hold_bounded_memory() -> None:
    assert len(kept([step(line) for line in range(1000)], recent_nodes=20)) == 16 + 10
