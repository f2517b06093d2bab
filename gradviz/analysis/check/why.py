"""The gradient of one parameter or variable, and the reason: the answer to ``gradviz check --why NAME``."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Literal

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import location_of_call
from gradviz.analysis.finding import Finding, Location, location_of_line
from gradviz.analysis.flow.gradient_flow import FlowRow
from gradviz.analysis.parameters.parameter_histories import ParameterHistories
from gradviz.analysis.parameters.parameter_outcomes import outcome_of
from gradviz.errors import BadInput, near_matches
from gradviz.graph.gradients import at_index
from gradviz.graph.model import Graph, Node

AnswerKind = Literal[
    "gradient",
    "zero",
    "not finite",
    "frozen",
    "unused",
    "cut off",
    "of no influence",
    "not reached",
    "passed on",
    "no grad",
]
"""``passed on``: it was computed, so the gradient goes through it; ``no grad``: it needs none, and should not train;
the others are what a leaf gets, or why it gets nothing."""


class Answer(Struct, frozen=True):
    """The answer for one tensor."""

    name: str
    kind: AnswerKind
    verdict: str
    """In one sentence."""
    location: Location | None = None
    """The line that causes it."""
    facts: tuple[tuple[str, str | Location], ...] = ()
    """Titles, each with its text or line."""


def why(case: Case, findings: Iterable[Finding], name: str) -> Answer:
    """The answer for the tensor whose name is or ends in this name.

    Raises:
        BadInput: no tensor, or more than one, has this name; or the capture contains no calls.
    """
    if case.capture.calls is None:
        raise BadInput(
            "this recording does not contain the calls of the run, which --why needs",
            hint="check the script, or keep the recording of a check: gradviz check train.py -o run.gradviz",
        )
    histories = case.histories
    number = _find(histories, name)
    said = [each for each in findings if set(histories.tensor(number).names).intersection(each.tensors)]
    return _AnswerBuilder(case, histories, number, said).answer()


def _find(histories: ParameterHistories, name: str) -> int:
    """The newest tensor with that name: a loop assigns its variable many times. The trained one, if a model was loaded
    after training."""
    numbers: dict[str, int] = {}
    for number, tensor in enumerate(histories.log.tensors):
        if histories.is_only_a_successor(number):
            continue
        numbers.update(dict.fromkeys((_plain(each) for each in tensor.names), number))
    wanted = _plain(name)
    if wanted in numbers:
        return numbers[wanted]
    ending = {number: each for each, number in numbers.items() if each.endswith(f".{wanted}")}
    if len(ending) > 1:
        several = sorted(ending.values())
        raise BadInput(f"{name!r} could be several", hint=f"write one of {', '.join(several[:4])}")
    below = [each for each in numbers if f".{wanted}." in f".{each}"]
    if not ending and below:
        raise BadInput(f"{name!r} means several", hint=f"write one of {', '.join(below[:4])}")
    if not ending:
        # What several variables lead to, as model.weight and trainer.model.weight, is offered once.
        tensors = [*map(histories.tensor, histories.log.parameters), *histories.log.tensors]
        first = [each for tensor in tensors for each in tensor.names[:1]]
        also = [each for tensor in tensors for each in tensor.names[1:]]
        raise BadInput(f"no parameter or variable {name!r} was seen", hint=near_matches(name, first, also=also))
    return next(iter(ending))


def _plain(name: str) -> str:
    """The name with dots for brackets: users write ``blocks[0].weight`` and ``blocks.0.weight``."""
    return name.replace("['", ".").replace("']", "").replace("[", ".").replace("]", "")


class _AnswerBuilder:
    """Collects what is known about one tensor."""

    def __init__(self, case: Case, histories: ParameterHistories, number: int, findings: list[Finding]) -> None:
        self._case = case
        self._histories = histories
        self._number = number
        self._findings = findings
        self._names = histories.tensor(number).names

    def answer(self) -> Answer:
        tensor = self._histories.tensor(self._number)
        is_leaf = tensor.role == "parameter" or (tensor.is_leaf and tensor.requires_grad) or self._row is not None
        kind, verdict, location = self._of_leaf() if is_leaf else self._of_computed()
        if kind in _TRAINABLE and self._number in self._histories.untrained:
            verdict += "; but it is in no optimizer, and nothing else changes it"
        return Answer(self._histories.name(self._number), kind, verdict, location, tuple(self._facts(location)))

    # -- verdicts ------------------------------------------------------------------------------------------------

    def _of_leaf(self) -> _Verdict:
        outcome = outcome_of(self._case, self._histories, self._number)
        if outcome.kind == "reached":
            return self._of_gradient()
        why_not = {
            "frozen": "it does not require grad",
            "unused": "nothing is ever computed from it",
            "cut off": "the path from the loss is cut",
            "of no influence": "the loss depends on a derivative, and that does not depend on it",
            "not reached": "it is used, but no loss that backward ran on depends on the result",
        }[outcome.kind]
        if outcome.kind == "not reached" and not self._histories.backward_calls:
            why_not = "no backward() ran"
        elif outcome.kind == "not reached" and (tensor := self._histories.tensor(self._number)).is_used_elsewhere:
            where = "inside of TorchScript" if tensor.is_in_script else "on another thread"
            why_not = f"it is used {where}, whose calls are not recorded, and no backward reached it"
        return outcome.kind, f"gets no gradient: {why_not}", outcome.location

    def _of_gradient(self) -> _Verdict:
        row = self._row
        if row is None or row.nothing is not None or (row.norm is None and not row.nans and not row.infs):
            return "gradient", "gets a gradient", None
        if row.nans or row.infs:
            figures = f"{row.nans:,} NaN and {row.infs:,} Inf in {row.count:,} numbers"
            return "not finite", f"gets a gradient with {figures}", None
        if row.is_zero:
            lost = self._lost_at(row)
            by = f": {lost[0]} made it zero" if lost else ""
            return "zero", f"gets a gradient that is exactly zero{by}", lost[1] if lost else None
        zeros = f", {row.zeros:,} of {row.count:,} numbers zero" if row.zeros else ""
        return "gradient", f"gets a gradient, of norm {row.norm:.3g}{zeros}", None

    def _lost_at(self, row: FlowRow) -> tuple[str, Location | None] | None:
        if row.lost_at is None or self._graph_number is None:
            return None
        node = self._case.graphs[self._graph_number].nodes[row.lost_at]
        return node.name, self._case.location_of(self._graph_number, row.lost_at)

    def _of_computed(self) -> _Verdict:
        flow, number = self._histories.flow, self._number
        uses = [use for row in flow.producers(number) for use in flow.log.calls[row].outputs if use.tensor == number]
        made = location_of_line(self._histories.line_where_made(number))
        if uses and uses[-1].has_grad_fn:
            return "passed on", "is computed, and its .grad stays None (retain_grad() keeps it)", made
        cuts = flow.cuts_reaching(number)
        if cuts:
            location = location_of_line(flow.line(cuts[0].call_site))
            return "cut off", "does not require grad: the path of the gradient is cut above it", location
        is_given = all(not flow.log.calls[row].inputs for row in flow.producers(number))
        return (
            "no grad",
            "does not require grad" + ("" if is_given else ", and nothing it was computed from does"),
            made,
        )

    # -- facts ---------------------------------------------------------------------------------------------------

    def _facts(self, verdict_location: Location | None) -> Iterator[tuple[str, str | Location]]:
        tensor = self._histories.tensor(self._number)
        shape = " x ".join(map(str, tensor.facts.shape)) or "one number"
        yield "is", f"a {tensor.role}, {shape}, {tensor.facts.dtype}"
        others = [name for name in self._names if name != self._histories.name(self._number)]
        if others:
            yield "also called", ", ".join(others[:4])
        made = location_of_line(self._histories.line_where_made(self._number))
        if made is not None and made != verdict_location:
            yield "made", made
        yield from self._facts_of_training()
        passing = self._passing()
        if passing is not None:
            yield "gradient", passing
        path = self._path()
        if path:
            yield "path", " > ".join(path)
        for finding in self._findings:
            yield finding.severity, f"{finding.code} {finding.cause}: {finding.message}"

    def _facts_of_training(self) -> Iterator[tuple[str, str | Location]]:
        tensor = self._histories.tensor(self._number)
        if tensor.role != "parameter" and self._number not in self._histories.log.parameters:
            return
        optimizers = [self._histories.log.optimizers[each] for each in self._histories.optimizers_of(self._number)]
        words = [" ".join((each.class_name, *each.names[:1])) for each in optimizers]
        yield "optimizer", ", ".join(words) if words else "none has it"
        uses = self._histories.forward_uses(self._number)
        if uses:
            line = location_of_call(self._histories.flow, uses[-1])
            if line is not None:
                yield "used", line

    def _passing(self) -> str | None:
        """The gradient of a computed tensor in the last measured backward call."""
        if self._row is not None:
            return None
        names = set(self._names)
        for number in self._case.measured_graphs[-1:]:
            for node in self._case.graphs[number].nodes:
                for held in node.held if not node.is_leaf else ():
                    figures = at_index(node.arrived, held.output_nr)
                    if figures is not None and figures.norm is not None and not names.isdisjoint(held.names):
                        return f"norm {figures.norm:.3g} arrived at it"
        return None

    def _path(self) -> Sequence[str]:
        """The path from the loss to the tensor; if it is cut off, the path on which the gradient is missing."""
        if self._row is None or self._graph_number is None or not self._row.leaves:
            cut = next((finding for finding in self._findings if finding.cut is not None), None)
            # The finding's path starts at the first of all tensors that the line cuts off.
            return () if cut is None else (self._histories.name(self._number), *cut.path[1:])
        path = path_to_leaf(self._case.graphs[self._graph_number], self._row.leaves[0])
        return [*path[:-1], self._histories.name(self._number)]

    @property
    def _row(self) -> FlowRow | None:
        """The tensor's figures in the last measured backward call that reached it, or else in the last one."""
        found = self._located
        return found[1] if found is not None else None

    @property
    def _graph_number(self) -> int | None:
        found = self._located
        return found[0] if found is not None else None

    @cached_property
    def _located(self) -> tuple[int, FlowRow] | None:
        names = set(self._names)
        reached = (
            number
            for number in reversed(self._case.measured_graphs)
            if any(leaf.arrived and not names.isdisjoint(leaf.names) for leaf in self._case.graphs[number].leaves)
        )
        last = next(reached, next(iter(self._case.measured_graphs[-1:]), None))
        if last is None:
            return None
        return next(((last, row) for row in self._case.flow_of(last).rows if row.name in names), None)


_Verdict = tuple[AnswerKind, str, Location | None]
_TRAINABLE: frozenset[AnswerKind] = frozenset({"gradient", "zero", "not finite"})


# The path of a gradient from a root of its graph to a leaf, in words.

MAX_NODES = 7


def path_to_leaf(graph: Graph, leaf: int) -> list[str]:
    """The names of the nodes on the shortest path, the leaf last; the middle of a long path is left out."""
    words = [_word(node) for node in _shortest_path(graph, leaf)]
    if len(words) <= MAX_NODES:
        return words
    left_out = len(words) - MAX_NODES + 1
    return [*words[: MAX_NODES - 4], f"({left_out} more)", *words[-3:]]


def _shortest_path(graph: Graph, leaf: int) -> list[Node]:
    """The shortest path of a gradient from a root to a leaf."""
    came_from: dict[int, int | None] = {root.node: None for root in graph.roots}
    waiting = deque(came_from)
    while waiting and leaf not in came_from:
        number = waiting.popleft()
        for edge in graph.nodes[number].edges:
            if edge is not None and edge.target not in came_from:
                came_from[edge.target] = number
                waiting.append(edge.target)
    path: list[Node] = []
    step: int | None = leaf if leaf in came_from else None
    while step is not None:
        path.append(graph.nodes[step])
        step = came_from[step]
    return path[::-1] or [graph.nodes[leaf]]


def _word(node: Node) -> str:
    return node.name.removesuffix("Backward0").removesuffix("Backward1")
