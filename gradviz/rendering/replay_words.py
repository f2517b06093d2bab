"""What is to be said of a step of a backward pass, in the terminal and in pictures: a label and lines for each fact."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from gradviz.analysis.node_explanation import other_torch_words
from gradviz.analysis.replay import Flow, Replay, Step
from gradviz.capture.capture import Capture
from gradviz.formulas.known import known_formulas
from gradviz.graph.operation_words import autograd_name, stem_of
from gradviz.rendering.formula_numbers import with_minus
from gradviz.rendering.renderer import Subject
from gradviz.rendering.replay_formulas import NodeFormulas, node_formulas
from gradviz.rendering.replay_names import StepNames
from gradviz.rendering.replay_numbers import tensor_words
from gradviz.rendering.replay_progress import ReplayProgress
from gradviz.rendering.replay_sums import SumWords
from gradviz.rendering.words import counted, listed

LONGEST_EQUATION = 70
"""Characters of a formula with its numbers, and what it gives."""
MOST_LEAVING = 6
MOST_INSIDE = 8


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing to be said of a step."""

    label: str
    lines: tuple[str, ...]


def formula_fact(capture: Capture, formulas: NodeFormulas) -> Fact | None:
    """What a node computes; None where nobody knows."""
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
        """Everything that is said of a step, in the order in which it happens."""
        source = self.names.source_line(step)
        if source:
            yield Fact(f"line {self.names.place(step).rpartition(':')[2]}", (source,))
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

    def _inside(self, step: Step) -> str:
        """What runs in a box but for views, in the order of the engine: ``NativeLayerNorm, Addmm ×4, Gelu``."""
        nodes = [node for node in (self.graph.nodes[each] for each in step.nodes) if not node.is_leaf]
        counts = Counter(stem_of(node.name) for node in ([node for node in nodes if node.kind != "view"] or nodes))
        return listed([f"{stem} ×{count:,}" if count > 1 else stem for stem, count in counts.items()], MOST_INSIDE)

    def _error(self) -> str:
        error = self.subject.capture.error
        return f": {error.type_name}: {error.message}" if error is not None else ""

    def sums_in_short(self, step: Step) -> Iterator[str]:
        """What arrived, in the letters of the step's formulas, for below a picture."""
        return self.sums.in_short(step, self._formulas(step).arriving)

    def _formulas(self, step: Step) -> NodeFormulas:
        return (
            NodeFormulas()
            if self.names.item_of(step).kind == "box"
            else node_formulas(self.graph, self.names.main_node(step))
        )

    def _leaving(self, step: Step, formulas: NodeFormulas) -> Iterator[str]:
        main = self.names.main_node(step).id
        shown = step.leaving[:MOST_LEAVING]
        for flow in shown:
            computed = formulas.with_numbers.get(flow.edge, "") if flow.sender == main else ""
            yield f"{self._equation(computed, flow)} → {self.names.receiver(flow)}{self._way(flow, main)}"
        if len(step.leaving) > len(shown):
            yield f"and {len(step.leaving) - len(shown):,} more"

    def _equation(self, computed: str, flow: Flow) -> str:
        """``ā = 0.1 · 5 = 0.5``; the gradient alone where no numbers are known, or it would say the same twice."""
        amount = self.sums.amount(flow)
        if (
            not computed
            or computed.endswith(f"= {with_minus(amount)}")
            or len(computed) + len(amount) > LONGEST_EQUATION
        ):
            return amount
        return computed if flow.gradient is None else f"{computed} = {with_minus(amount)}"

    def _way(self, flow: Flow, main: int) -> str:
        """Through which view that is merged into the operation it went."""
        if flow.sender in (None, main) or self.names.item_of(self.replay.step(flow.step)).kind == "box":
            return ""
        return f", through {autograd_name(self.graph.nodes[flow.sender])}"

    def _leaf_outcome(self, step: Step) -> str:
        """What became of the leaf's ``.grad``; of a box, of how many."""
        leaves = [node for node in (self.graph.nodes[each] for each in step.nodes) if node.is_leaf]
        if self.names.item_of(step).kind == "box":
            return f"of {counted(len(leaves), 'leaf', 'leaves')} inside" if leaves else ""
        node = self.names.main_node(step)
        if not node.is_leaf:
            return "" if node.run is not None or not self._gives_back else "is given back by grad() here"
        found = node.leaf_gradient
        if found is None:
            return "unchanged: grad() gives it back" if self._gives_back else ""
        after = tensor_words(found.after)
        match found.outcome:
            case "fresh":
                return f"{after}  (there was none before)"
            case "accumulated":
                return f"{after}  ({tensor_words(found.before)} was there before)"
            case "taken":
                return "none: a hook took it away again"
        return "unchanged"

    @property
    def _gives_back(self) -> bool:
        return self.graph.backward is not None and self.graph.backward.function == "grad"
