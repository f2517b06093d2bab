"""The backward pass as steps: what the engine ran, in its order, and the gradients into and out of each step.

A step is a run of the nodes of one item of a view: a single operation with the views that are merged into it, a leaf
that gets its gradient, or a folded box with all its contents. So a picture and a replay of the same view show the same
things. An item for several repetitions has one step for each of them.

Between two nodes of one item only leaves may run. Their own steps come after it then, and `Step.nodes` keeps the order
of the engine.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Literal, NamedTuple

from gradviz.analysis.replay.engine_order import expected_order, order_of_run
from gradviz.analysis.replay.owners import Owners
from gradviz.errors import BadInput
from gradviz.graph.gradients import TensorFigures, at_index
from gradviz.graph.model import Graph
from gradviz.graph.query.root_names import why_it_did_not_begin
from gradviz.view.model import Item, View

START = 0
"""The step before the first: backward was called, and the roots have their gradients."""

State = Literal["ran", "runs", "ready", "waits", "ahead", "never", "given"]
"""The state of an item at a step: ``ready``: all of its gradients have arrived; ``waits``: some have; ``ahead``: none;
``never``: backward does not run it; ``given``: data without a gradient."""


Slot = tuple[int, int]
"""A node and the number of one of its forward outputs: the gradients for one slot are summed."""


class Flow(NamedTuple):
    """One gradient between two steps."""

    sender: int | None
    """The node that sent it along one of its edges; None for the gradient of a root."""
    edge: int
    """The index of that edge; without a sender the index of the root."""
    receiver: int
    input_nr: int
    """The number of the receiver's forward output."""
    step: int
    """The step of the sender, or `START`."""
    gradient: TensorFigures | None
    """None if it was not measured."""


@dataclass(slots=True)
class Step:
    """What runs as one step."""

    number: int
    """Counted from 1."""
    items: tuple[int, ...]
    """Ids of the items that show it: one, or for a leaf one beside each of its users."""
    nodes: list[int]
    """Ids of the nodes that ran, in the order of the engine."""
    entering: list[Flow] = field(default_factory=list)
    """From earlier steps, in the order of arrival."""
    slots: dict[Slot, list[Flow]] = field(default_factory=dict)
    """The same by the slot in which they are summed."""
    leaving: list[Flow] = field(default_factory=list)
    """To other steps, and to nodes that never run."""

    def arrived_by(self, at: int) -> int:
        """The number of gradients that have entered at the end of step `at`."""
        return bisect_right(self.entering, at, key=_step_of)


def _step_of(flow: Flow) -> int:
    return flow.step


class Replay:
    """A backward pass, step by step. Construction takes time linear in nodes and edges.

    Raises `BadInput` if there is no backward pass because torch refused the call.
    """

    def __init__(self, graph: Graph, view: View) -> None:
        refusal = why_it_did_not_begin(graph)
        if refusal is not None:
            raise BadInput(f"nothing to play: {refusal}", hint="gradviz check says why")
        self.graph, self.view = graph, view
        order = order_of_run(graph)
        self.was_watched = bool(order)
        """False if the order is only the expected one: nothing ran, or it was not recorded."""
        self.steps = _steps(Owners(view, graph), order or expected_order(graph))
        self._step_of = {node: step.number for step in self.steps for node in step.nodes}
        self._join()
        self._steps_of_item: dict[int, list[int]] = {}
        for step in self.steps:
            for item in step.items:
                self._steps_of_item.setdefault(item, []).append(step.number)
        self._arrivals = [_first_and_last_arrival(step) for step in self.steps]
        self._waiting = self._count_waiting()
        self._done_nodes = list(accumulate((len(step.nodes) for step in self.steps), initial=0))

    def __len__(self) -> int:
        return len(self.steps)

    def steps_between(self, first: int, last: int | None) -> range:
        """The steps from one number to another, `START` included; to the last one if that is None.

        Raises `BadInput` for numbers that are no steps, or that are in the wrong order.
        """
        count = len(self.steps)
        for number in (first, count if last is None else last):
            if type(number) is not int or not START <= number <= count:
                raise BadInput(f"there is no step {number!r}", hint=f"they are numbered {START} to {count:,}")
        if last is not None and first > last:
            raise BadInput(f"step {first} comes after step {last}", hint="they are counted as the engine runs them")
        return range(first, (count if last is None else last) + 1)

    def step(self, number: int) -> Step:
        """The step with that number, from 1."""
        return self.steps[number - 1]

    def step_of_node(self, node: int) -> int | None:
        """The step in which a node runs; None if it never does."""
        return self._step_of.get(node)

    def steps_of_item(self, item: int) -> Sequence[int]:
        """The steps in which an item runs: several for an item with repetitions."""
        return self._steps_of_item.get(item, ())

    def nodes_done(self, at: int) -> int:
        """The number of nodes that have run at the end of a step."""
        return self._done_nodes[at]

    def waiting(self, at: int) -> int:
        """The number of later steps for which some gradient has arrived at the end of step `at`."""
        return self._waiting[at]

    def state_of_step(self, number: int, at: int) -> State:
        """The state of a step at the end of step `at`."""
        if number <= at:
            return "runs" if number == at else "ran"
        first, last = self._arrivals[number - 1]
        if first > at:
            return "ahead"
        return "ready" if last <= at else "waits"

    def state_of(self, item: Item, at: int) -> State:
        """The state of an item at the end of step `at`; for repetitions, that of the current one."""
        if item.root is not None:
            return "ran" if at > START else "runs"
        if item.kind not in ("node", "box"):
            return "given"
        numbers = self.steps_of_item(item.id)
        if not numbers:
            return "never"
        index = bisect_right(numbers, at)
        if index and numbers[index - 1] == at:
            return "runs"
        return self.state_of_step(numbers[index], at) if index < len(numbers) else "ran"

    def roots_entering(self) -> Iterator[Flow]:
        """The gradients that backward started from."""
        for index, root in enumerate(self.graph.roots):
            yield Flow(None, index, root.node, root.output_nr, START, root.gradient)

    def _join(self) -> None:
        """Adds to each step the gradients that enter and leave it."""
        flows = list(self.roots_entering())
        for step in self.steps:
            for sender in step.nodes:
                flows += self._sent_to_other_steps(sender, step)
        for flow in flows:
            receiver = self._step_of.get(flow.receiver)
            if receiver is not None:
                step = self.steps[receiver - 1]
                step.entering.append(flow)
                step.slots.setdefault((flow.receiver, flow.input_nr), []).append(flow)

    def _sent_to_other_steps(self, sender: int, step: Step) -> Iterator[Flow]:
        node = self.graph.nodes[sender]
        if sender == self.graph.failed_node:
            return
        for index, edge in enumerate(node.edges):
            if edge is not None and self._step_of.get(edge.target) != step.number:
                gradient = at_index(node.gradients, index)
                flow = Flow(sender, index, edge.target, edge.input_nr, step.number, gradient)
                step.leaving.append(flow)
                yield flow

    def arrived_at(self, slot: Slot) -> TensorFigures | None:
        """The gradient that arrived at a slot, after its hooks; None if it was not measured."""
        return at_index(self.graph.nodes[slot[0]].arrived, slot[1])

    def sum_at(self, slot: Slot) -> TensorFigures | None:
        """The same before the hooks: the sum of all gradients sent there."""
        return at_index(self.graph.nodes[slot[0]].before_hooks, slot[1]) or self.arrived_at(slot)

    def has_failed(self, step: Step) -> bool:
        """Whether backward raised in it."""
        return self.graph.failed_node in step.nodes

    def _count_waiting(self) -> list[int]:
        change = [0] * (len(self.steps) + 2)
        for number, (first, _) in enumerate(self._arrivals, 1):
            change[first] += 1
            change[number] -= 1
        return list(accumulate(change[:-1]))


def _first_and_last_arrival(step: Step) -> tuple[int, int]:
    if not step.entering:
        # In a part of a graph, gradients from outside are there from the beginning.
        return START, START
    return step.entering[0].step, step.entering[-1].step


def _steps(owners: Owners, order: Sequence[int]) -> list[Step]:
    steps: list[Step] = []
    current: Step | None = None
    """The last step that is not a leaf."""
    for node in order:
        leaves = owners.of_leaf(node)
        if leaves:
            steps.append(Step(len(steps) + 1, tuple(leaves), [node]))
            continue
        item = owners.of(node, None if current is None else current.items[0])
        if item is None:
            continue  # Hidden: no item shows it.
        is_same = current is not None and current.items == (item,)
        if current is not None and is_same and not owners.is_next_repetition(node, current.nodes[-1]):
            current.nodes.append(node)
            continue
        current = Step(len(steps) + 1, (item,), [node])
        steps.append(current)
    return steps
