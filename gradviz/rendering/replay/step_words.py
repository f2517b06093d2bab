"""The facts about a step of a backward pass, in the terminal and in pictures: a label and lines for each fact."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from gradviz.analysis.explain.node_explanation import other_torch_words
from gradviz.analysis.replay.steps import Flow, Replay, Step
from gradviz.capture.capture import Capture
from gradviz.formulas.available_formulas import known_formulas
from gradviz.graph.gradients import TensorFigures
from gradviz.graph.query.operation_names import autograd_name, stem_of
from gradviz.rendering.formats import Subject
from gradviz.rendering.replay.gradient_numbers import short_words, tensor_words
from gradviz.rendering.replay.gradient_sums import SumWords
from gradviz.rendering.replay.step_names import StepNames
from gradviz.rendering.words.common_words import counted, listed
from gradviz.rendering.words.exchange_words import duration_words, exchange_words
from gradviz.rendering.words.formula_words import NodeFormulas, node_formulas, with_minus
from gradviz.view.model import Item

LONGEST_EQUATION = 70
"""Characters of a formula with its numbers and its result."""
MAX_LEAVING = 6
MAX_INSIDE = 8


@dataclass(frozen=True, slots=True)
class Fact:
    """One fact about a step."""

    label: str
    lines: tuple[str, ...]


def formula_fact(capture: Capture, formulas: NodeFormulas) -> Fact | None:
    """What a node computes; None if it is not known."""
    if not formulas.lines:
        return None
    lines = (*formulas.lines, *([listed(formulas.meanings)] if formulas.meanings else []))
    if formulas.is_torchs_own:
        return Fact("in torch", lines + other_torch_words(capture, known_formulas()))
    return Fact("formula", lines)


class ReplayWords:
    """Finds the words for the steps of one replay."""

    def __init__(self, subject: Subject, replay: Replay) -> None:
        self.subject, self.replay, self.graph = subject, replay, replay.graph
        self.names = StepNames(subject, replay)
        self.sums = SumWords(self.names)
        self.progress = ReplayProgress(self.names)

    def facts(self, step: Step) -> Iterator[Fact]:
        """All facts about a step, in the order in which they happen."""
        source = self.names.source_line(step)
        if source:
            yield Fact(f"line {self.names.location(step).rpartition(':')[2]}", (source,))
        formulas = self._formulas(step)
        yield Fact("gradient in", tuple(self.sums.entering(step, formulas.arriving)))
        if self.names.item_of(step).kind == "box":
            yield Fact("inside", (self._inside(step),))
        if self.replay.has_failed(step):
            yield Fact("✗ failed", (f"backward raised here{self._error()}",))
        if fact := formula_fact(self.subject.capture, formulas):
            yield fact
        if step.leaving:
            yield Fact("gradient out", tuple(self._leaving(step, formulas)))
        outcome = self._leaf_outcome(step)
        if outcome:
            yield Fact(".grad", (outcome,))
        exchanges = tuple(self._exchanges(step))
        if exchanges:
            yield Fact("exchange", exchanges)

    def _exchanges(self, step: Step) -> Iterator[str]:
        """What begins to be exchanged with other ranks when a node of this step has run."""
        orders = {run.order for node in step.nodes if (run := self.graph.nodes[node].run) is not None}
        for each in self.graph.exchanges:
            if each.after in orders and not each.is_in_forward:
                duration = duration_words(each)
                yield f"{each.by} begins the {exchange_words(each)}{duration and f': {duration}'}"

    def _inside(self, step: Step) -> str:
        """The operations in a box without views, in the order of the engine: ``NativeLayerNorm, Addmm ×4, Gelu``."""
        nodes = [node for node in (self.graph.nodes[each] for each in step.nodes) if not node.is_leaf]
        counts = Counter(stem_of(node.name) for node in ([node for node in nodes if node.kind != "view"] or nodes))
        return listed([f"{stem} ×{count:,}" if count > 1 else stem for stem, count in counts.items()], MAX_INSIDE)

    def _error(self) -> str:
        error = self.subject.capture.error
        return f": {error.type_name}: {error.message}" if error is not None else ""

    def sums_in_short(self, step: Step) -> Iterator[str]:
        """The gradients that arrived, in the letters of the step's formulas, for below a picture."""
        return self.sums.in_short(step, self._formulas(step).arriving)

    def _formulas(self, step: Step) -> NodeFormulas:
        return (
            NodeFormulas()
            if self.names.item_of(step).kind == "box"
            else node_formulas(self.graph, self.names.main_node(step))
        )

    def _leaving(self, step: Step, formulas: NodeFormulas) -> Iterator[str]:
        main = self.names.main_node(step).id
        shown = step.leaving[:MAX_LEAVING]
        for flow in shown:
            computed = formulas.with_numbers.get(flow.edge, "") if flow.sender == main else ""
            yield f"{self._equation(computed, flow)} → {self.names.receiver(flow)}{self._path(flow, main)}"
        if len(step.leaving) > len(shown):
            yield f"and {len(step.leaving) - len(shown):,} more"

    def _equation(self, computed: str, flow: Flow) -> str:
        """``ā = 0.1 · 5 = 0.5``; the gradient alone if no numbers are known or if it would be repeated."""
        amount = self.sums.amount(flow)
        if (
            not computed
            or computed.endswith(f"= {with_minus(amount)}")
            or len(computed) + len(amount) > LONGEST_EQUATION
        ):
            return amount
        return computed if flow.gradient is None else f"{computed} = {with_minus(amount)}"

    def _path(self, flow: Flow, main: int) -> str:
        """The view, merged into the operation, through which the gradient flowed."""
        if flow.sender in (None, main) or self.names.item_of(self.replay.step(flow.step)).kind == "box":
            return ""
        return f", through {autograd_name(self.graph.nodes[flow.sender])}"

    def _leaf_outcome(self, step: Step) -> str:
        """What happened to the leaf's ``.grad``; for a box, the number of its leaves."""
        leaves = [node for node in (self.graph.nodes[each] for each in step.nodes) if node.is_leaf]
        if self.names.item_of(step).kind == "box":
            return f"of {counted(len(leaves), 'leaf', 'leaves')} inside" if leaves else ""
        node = self.names.main_node(step)
        if not node.is_leaf:
            return "" if node.run is not None or not self._is_returned else "is returned by grad() here"
        found = node.leaf_gradient
        if found is None:
            return "unchanged: grad() returns it" if self._is_returned else ""
        after = tensor_words(found.after)
        if found.reduced_by:
            return f"{after}  (what {found.reduced_by} made of the gradients of all ranks)"
        match found.outcome:
            case "fresh":
                return f"{after}  (there was none before)"
            case "accumulated":
                return f"{after}  ({tensor_words(found.before)} was there before)"
            case "taken":
                return "none: a hook removed it"
        return "unchanged"

    @property
    def _is_returned(self) -> bool:
        return self.graph.backward is not None and self.graph.backward.function == "grad"


# The state after a step: which nodes have run, are ready or wait, and which gradients have arrived.

MAX_WAITING = 3
_LOOK_AHEAD = 200
"""Only this many following steps are examined for waiting; later ones are counted."""


class ReplayProgress:
    """Finds the words for the state after a step."""

    def __init__(self, names: StepNames) -> None:
        self._names, self._replay = names, names.replay

    def gradient_at(self, item: Item, at: int) -> str:
        """The gradient that has arrived at an item after the step `at`, in a word; ``9 + …`` if some of it is still to
        come."""
        if item.root is not None:
            return short_words([self._replay.graph.roots[item.root].gradient])
        number = self._turn_of(item, at)
        if number is None:
            return ""
        step, state = self._replay.step(number), self._replay.state_of_step(number, at)
        if state == "ahead":
            return ""
        if state != "waits":
            return short_words(self._arrived(step))
        come = step.arrived_by(at)
        words = short_words([step.entering[0].gradient]) if come == len(step.slots) == 1 else ""
        return f"{words} + …" if words else f"{come:,} of {len(step.entering):,}"

    def _turn_of(self, item: Item, at: int) -> int | None:
        """The step that decides the state of an item: the last repetition that ran, or the first one."""
        numbers = self._replay.steps_of_item(item.id)
        return numbers[max(bisect_right(numbers, at) - 1, 0)] if numbers else None

    def _arrived(self, step: Step) -> list[TensorFigures | None]:
        """The gradients that arrived at a step, summed, one for each of its slots."""
        if not step.slots:
            return list(self._names.main_node(step).arrived)
        return [self._replay.arrived_at(slot) for slot in step.slots]

    def sentence(self, at: int) -> str:
        """``2 of 4 nodes have run; ready: x, y``."""
        replay = self._replay
        done, total = replay.nodes_done(at), replay.nodes_done(len(replay))
        verb = "have run" if replay.was_watched else "would have run"
        return "; ".join([f"{done:,} of {counted(total, 'node')} {verb}", *self._waiting(at)])

    def _waiting(self, at: int) -> Iterator[str]:
        ready: list[str] = []
        waits: list[str] = []
        near = range(at + 1, min(at + 1 + _LOOK_AHEAD, len(self._replay) + 1))
        for number in near:
            state = self._replay.state_of_step(number, at)
            if state == "ready":
                ready.append(self._names.short_name(self._replay.step(number)))
            elif state == "waits":
                step = self._replay.step(number)
                waits.append(f"{self._names.short_name(step)} ({step.arrived_by(at):,} of {len(step.entering):,})")
        if ready:
            yield f"ready: {listed(ready, MAX_WAITING)}"
        if waits:
            yield f"waiting for more: {listed(waits, MAX_WAITING)}"
        later = self._replay.waiting(at) - len(ready) - len(waits)
        if later:
            yield f"{later:,} {'wait' if later > 1 else 'waits'} further on"
