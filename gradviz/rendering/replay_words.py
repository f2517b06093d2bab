"""What is to be said of a step of a backward pass, for the terminal and for pictures: a label and lines for each fact.

Where numbers are known and short they are given in full, else the shape and the norm.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from gradviz.analysis.replay import START, Flow, Replay, Slot, Step
from gradviz.graph.gradients import TensorFigures
from gradviz.graph.model import ModuleScope, Node
from gradviz.graph.operation_words import autograd_name
from gradviz.graph.source_lines import line_words
from gradviz.graph.view import Item
from gradviz.rendering.gradient_words import figures_words
from gradviz.rendering.labels import ItemTexts
from gradviz.rendering.renderer import Subject
from gradviz.rendering.replay_formulas import NodeFormulas, node_formulas
from gradviz.rendering.value_words import number_words, short_nested_words
from gradviz.rendering.words import counted, listed, shape_words, shape_words_of

LONGEST_EQUATION = 70
"""Characters of a formula with its numbers, and what it gives."""
LONGEST_NUMBERS = 56
SHORT_NUMBERS = 18
"""Characters, in a sentence and in a word or two: longer tensors are told by shape and norm."""
MOST_BRANCHES = 5
MOST_SLOTS = 4
MOST_LEAVING = 6
MOST_WAITING = 3
_LOOK_AHEAD = 200
"""So many of the steps that follow are asked whether they wait: one that comes later than these is only counted."""


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing to be said of a step."""

    label: str
    lines: tuple[str, ...]


def tensor_words(figures: TensorFigures | None, longest: int = LONGEST_NUMBERS) -> str:
    """``0.5``, ``[[1, 2], [3, 4]]``, ``[8, 64] of norm 0.03``; empty where nothing was measured."""
    if figures is None:
        return ""
    if figures.is_undefined:
        return "none, which counts as zero"
    if figures.unmeasured is not None:
        return f"not measured: {figures.unmeasured}"
    numbers = _numbers(figures, longest)
    if numbers:
        return numbers
    shape = shape_words_of(figures.shape)
    if figures.is_zero:
        return f"{shape}, all zero"
    broken = [f"{count:,} {word}" for count, word in ((figures.nans, "NaN"), (figures.infs, "Inf")) if count]
    norm = [] if figures.norm is None else [f"norm {figures.norm:.3g}"]
    return f"{shape} of {', '.join([*broken, *norm])}" if broken or norm else shape


def _numbers(figures: TensorFigures, longest: int) -> str:
    """Every number, where these are known and short; of a single element also where it was not kept apart."""
    if figures.count == 1 and figures.values is None and figures.minimum is not None:
        return number_words(figures.minimum)
    return short_nested_words(figures, longest)


class ReplayWords:
    """Finds the words for the steps of one replay."""

    def __init__(self, subject: Subject, replay: Replay) -> None:
        self.subject, self.replay = subject, replay
        self.graph = replay.graph
        self.words = subject.words
        self.texts = ItemTexts(self.words)

    # -- single things -------------------------------------------------------------------------------------------

    def item_of(self, step: Step) -> Item:
        """The item of a step, the first of those of a leaf."""
        return self.subject.view.items[step.items[0]]

    def main_node(self, step: Step) -> Node:
        """The operation or the leaf that a step is about; of a box, the one that ran first."""
        node = self.item_of(step).node
        if node is not None and node in step.nodes:
            return self.graph.nodes[node]
        named = None if node is None else self.graph.nodes[node].name
        nodes = [self.graph.nodes[each] for each in step.nodes]
        return next((each for each in nodes if each.name == named), nodes[0])

    def title(self, step: Step) -> str:
        """``mul``, ``softmax dim=-1``, ``model.h.11``; the leaf's name."""
        item, text = self.item_of(step), self.texts[step.items[0]]
        if item.kind == "box":
            return f"{self.short_name(step)}{f' ×{item.repeat:,}' if item.repeat > 1 else ''}"
        if self.main_node(step).is_leaf:
            return self.short_name(step)
        return " ".join(filter(None, (text.title, text.settings)))

    def short_name(self, step: Step) -> str:
        """The same for a line that is about another step: ``mul (area)``, ``x``, ``relu (step 7)``."""
        item, text = self.item_of(step), self.texts[step.items[0]]
        if item.kind == "box":
            return self._own_path(step) or text.path or text.title
        node = self.main_node(step)
        if node.is_leaf:
            is_repeated = len(self.replay.steps_of_item(item.id)) > 1
            return node.names[0] if is_repeated and node.names else text.title
        return f"{text.title} ({next(iter(node.names), f'step {step.number:,}')})"

    def _own_path(self, step: Step) -> str:
        """Of a box that stands for several repetitions, the module of the one that runs: ``model.h.11.mlp``."""
        item, scopes = self.item_of(step), self.graph.scopes
        if item.scope is None or item.repeat > 1 or len(self.replay.steps_of_item(item.id)) == 1:
            return ""
        own = _scopes_around(scopes, self.graph.nodes[step.nodes[0]].scope)
        first = _scopes_around(scopes, item.scope)
        return scopes[own[len(first) - 1]].path if len(own) >= len(first) else ""

    def subtitle(self, step: Step) -> str:
        """``MulBackward0``; of a box its class and size; and which repetition it is, where there are several."""
        item, text = self.item_of(step), self.texts[step.items[0]]
        parts = [text.subtitle if item.kind == "box" else autograd_name(self.main_node(step))]
        if item.kind == "box":
            parts.append(counted(len(step.nodes), "node"))
        elif len(step.nodes) > 1:
            main = self.main_node(step).id
            merged = dict.fromkeys(autograd_name(self.graph.nodes[node]) for node in step.nodes if node != main)
            parts[0] += f" with {listed(list(merged), 2)}"
        numbers = self.replay.steps_of_item(step.items[0])
        if len(numbers) > 1:
            # The engine comes to the last repetition first.
            parts.append(f"repetition {len(numbers) - bisect_left(numbers, step.number):,} of {len(numbers):,}")
        return " · ".join(filter(None, parts))

    def place(self, step: Step) -> str:
        """``train.py:41``; empty where nobody knows, and for leaves."""
        return self.texts[step.items[0]].line

    def source_line(self, step: Step) -> str:
        """The text of that line."""
        site = self.words.readers_site(self.main_node(step).call_site)
        is_it = site is not None and line_words(site) == self.place(step)
        return self.words.source_text(site) if site is not None and is_it else ""

    # -- the gradient at a step ----------------------------------------------------------------------------------

    def gradient_at(self, item: Item, at: int) -> str:
        """The gradient that has arrived at an item when the step `at` is over, in a word; ``9 + …`` where some of it
        is still to come."""
        if item.root is not None:
            return short_words([self.graph.roots[item.root].gradient])
        number = self._turn_of(item, at)
        if number is None:
            return ""
        step, state = self.replay.step(number), self.replay.state_of_step(number, at)
        if state == "ahead":
            return ""
        if state != "waits":
            return short_words(self.arrived(step))
        come = step.arrived_by(at)
        words = short_words([step.entering[0].gradient]) if come == len(step.slots) == 1 else ""
        return f"{words} + …" if words else f"{come:,} of {len(step.entering):,}"

    def _turn_of(self, item: Item, at: int) -> int | None:
        """The step that tells how it stands with an item: of repetitions the last that ran, or the first."""
        numbers = self.replay.steps_of_item(item.id)
        return numbers[max(bisect_right(numbers, at) - 1, 0)] if numbers else None

    def arrived(self, step: Step) -> list[TensorFigures | None]:
        """What arrived at a step, summed, one for each of its slots."""
        if not step.slots:
            return list(self.main_node(step).arrived)
        return [self._arrived_at(slot) for slot in step.slots]

    def _arrived_at(self, slot: Slot) -> TensorFigures | None:
        arrived = self.graph.nodes[slot[0]].arrived
        return arrived[slot[1]] if slot[1] < len(arrived) else None

    def sums(self, step: Step) -> Iterator[str]:
        """What arrived, in short: ``ȳ = 0.1``, ``12 + 0.6 = 12.6 for width``; nothing where a wire says it all."""
        letter = self._formulas(step).arriving
        for slot, flows in islice(step.slots.items(), MOST_SLOTS):
            total = tensor_words(self._arrived_at(slot))
            name = f" {self._slot_name(step, slot)}" if len(step.slots) > 1 else ""
            if len(flows) > 1 and total:
                more = [f"{len(flows) - MOST_BRANCHES:,} more"] if len(flows) > MOST_BRANCHES else []
                parts = [self._amount(flow) for flow in flows[:MOST_BRANCHES]]
                yield f"{f'{letter} = ' if letter else ''}{' + '.join([*parts, *more])} = {total}{name}"
            elif letter and total:
                yield f"{letter} = {total}"

    def beginning(self) -> Iterator[str]:
        """What backward starts from."""
        for flow in self.replay.roots_entering():
            yield f"{self._amount(flow)}  {self._sender(flow)}"
        if not self.graph.roots:
            yield "from outside of what is shown"

    # -- the facts of a step -------------------------------------------------------------------------------------

    def facts(self, step: Step) -> Iterator[Fact]:
        """Everything that is said of a step, in the order in which it happens."""
        source = self.source_line(step)
        if source:
            yield Fact(f"line {self.place(step).rpartition(':')[2]}", (source,))
        formulas = self._formulas(step)
        yield Fact("gradient in", tuple(self._entering(step, formulas.arriving)))
        if self.replay.has_failed(step):
            yield Fact("✗ failed", (f"backward raised here{self._error()}",))
        if formulas.lines:
            lines = (*formulas.lines, *self._meanings(step, formulas))
            yield Fact("in torch" if formulas.is_torchs_own else "formula", lines)
        if step.leaving:
            yield Fact("gradient out", tuple(self._leaving(step, formulas)))
        outcome = self._leaf_outcome(step)
        if outcome:
            yield Fact(".grad", (outcome,))

    def _error(self) -> str:
        error = self.subject.capture.error
        return f": {error.type_name}: {error.message}" if error is not None else ""

    def _entering(self, step: Step, letter: str) -> Iterator[str]:
        if not step.entering:
            words = listed([tensor_words(each) for each in self.main_node(step).arrived if each is not None])
            yield f"{words}{'  ' if words else ''}from outside of what is shown"
            return
        for slot, flows in islice(step.slots.items(), MOST_SLOTS):
            is_alone = len(step.slots) == 1
            if not is_alone:
                yield self._slot_name(step, slot)
            yield from (line if is_alone else f"  {line}" for line in self._at_slot(slot, flows, letter))
        if len(step.slots) > MOST_SLOTS:
            yield f"and {len(step.slots) - MOST_SLOTS:,} more"

    def _amount(self, flow: Flow) -> str:
        """A gradient; of one that nobody measured the shape, which is that of the tensor that it is for."""
        tensor = self.graph.nodes[flow.receiver].output(flow.input_nr)
        return tensor_words(flow.gradient) or shape_words(tensor) or "?"

    def _slot_name(self, step: Step, slot: Slot) -> str:
        """Which of several a gradient is for: the variable that held it, or its number."""
        node, output_nr = self.graph.nodes[slot[0]], slot[1]
        names = _names_of(node, output_nr)
        if names or self.item_of(step).kind != "box":
            return f"for {names[0] if names else f'output {output_nr}'}"
        return f"at {autograd_name(node)}"

    def _at_slot(self, slot: Slot, flows: Sequence[Flow], letter: str) -> Iterator[str]:
        """What came along each branch, their sum, and what hooks made of it."""
        node = self.graph.nodes[slot[0]]
        before = node.before_hooks[slot[1]] if slot[1] < len(node.before_hooks) else None
        arrived = self._arrived_at(slot)
        is_called = f"{letter} = " if letter and (before is None or before == arrived) else ""
        if len(flows) == 1:
            yield f"{is_called}{self._amount(flows[0])}  {self._sender(flows[0])}"
        else:
            yield from self._branches(flows)
            total = before or arrived
            if total is not None:
                yield f"{is_called or '= '}{tensor_words(total)}"
        if before is not None and before != arrived:
            yield f"{f'{letter} = ' if letter else ''}{tensor_words(arrived)}  after {counted(len(node.hooks), 'hook')}"

    def _branches(self, flows: Sequence[Flow]) -> Iterator[str]:
        """What is summed, a line for each."""
        amounts = [self._amount(flow) for flow in flows[:MOST_BRANCHES]]
        widest = max(map(len, amounts))
        for place, (amount, flow) in enumerate(zip(amounts, flows, strict=False)):
            yield f"{'+' if place else ' '} {amount:<{widest}}  {self._sender(flow)}"
        if len(flows) > MOST_BRANCHES:
            yield f"+ {len(flows) - MOST_BRANCHES:,} more"

    def _sender(self, flow: Flow) -> str:
        if flow.step == START:
            root = self.graph.roots[flow.edge]
            call = self.graph.backward
            return f"given to {call.function if call else 'backward'}() for {root.name or 'the output'}"
        return f"from {self.short_name(self.replay.step(flow.step))}"

    def _formulas(self, step: Step) -> NodeFormulas:
        return NodeFormulas() if self.item_of(step).kind == "box" else node_formulas(self.graph, self.main_node(step))

    def _meanings(self, step: Step, formulas: NodeFormulas) -> Iterator[str]:
        """``a is x, b is y``: what the program calls the inputs that a formula speaks of."""
        named = []
        for place, edge in enumerate(self.main_node(step).edges):
            names = [] if edge is None else _names_of(self.graph.nodes[edge.target], edge.input_nr)
            letter = formulas.letters.get(place)
            if names and letter not in (None, names[0]):
                named.append(f"{letter} is {names[0]}")
        if named:
            yield listed(named)

    def _leaving(self, step: Step, formulas: NodeFormulas) -> Iterator[str]:
        main = self.main_node(step).id
        shown = step.leaving[:MOST_LEAVING]
        for flow in shown:
            amount = self._amount(flow)
            computed = formulas.with_numbers.get(flow.edge) if flow.sender == main else None
            if computed and not computed.endswith(f"= {amount}") and len(computed) + len(amount) < LONGEST_EQUATION:
                amount = f"{computed} = {amount}"
            yield f"{amount} → {self.receiver(flow)}{self._way(flow, main)}"
        if len(step.leaving) > len(shown):
            yield f"and {len(step.leaving) - len(shown):,} more"

    def _way(self, flow: Flow, main: int) -> str:
        """Through which view that is merged into the operation it went."""
        if flow.sender in (None, main) or self.item_of(self.replay.step(flow.step)).kind == "box":
            return ""
        return f", through {autograd_name(self.graph.nodes[flow.sender])}"

    def receiver(self, flow: Flow) -> str:
        """Where a gradient goes: ``x``, ``mul (area)``, ``unbind, for width``."""
        number = self.replay.step_of_node(flow.receiver)
        node = self.graph.nodes[flow.receiver]
        if number is None:
            return f"{next(iter(node.names), autograd_name(node))}, which does not run"
        step = self.replay.step(number)
        name = self.short_name(step)
        if len(node.outputs) < 2 or self.item_of(step).kind == "box":
            return name
        held = _names_of(node, flow.input_nr)
        title = self.texts[step.items[0]].title
        return f"{title}, for {held[0] if held else f'output {flow.input_nr}'}"

    def _leaf_outcome(self, step: Step) -> str:
        """What became of the leaf's ``.grad``; of a box, of how many."""
        leaves = [node for node in (self.graph.nodes[each] for each in step.nodes) if node.is_leaf]
        if self.item_of(step).kind == "box":
            return f"of {counted(len(leaves), 'leaf', 'leaves')} inside" if leaves else ""
        node = self.main_node(step)
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

    # -- what has run, and what waits ----------------------------------------------------------------------------

    def progress(self, at: int) -> str:
        """``2 of 4 nodes have run; ready: x, y``."""
        replay = self.replay
        done, total = replay.nodes_done(at), replay.nodes_done(len(replay))
        verb = "have run" if replay.was_watched else "would have run"
        return "; ".join([f"{done:,} of {counted(total, 'node')} {verb}", *self._waiting(at)])

    def _waiting(self, at: int) -> Iterator[str]:
        ready: list[str] = []
        waits: list[str] = []
        near = range(at + 1, min(at + 1 + _LOOK_AHEAD, len(self.replay) + 1))
        for number in near:
            state = self.replay.state_of_step(number, at)
            if state == "ready":
                ready.append(self.short_name(self.replay.step(number)))
            elif state == "waits":
                step = self.replay.step(number)
                waits.append(f"{self.short_name(step)} ({step.arrived_by(at):,} of {len(step.entering):,})")
        if ready:
            yield f"ready: {listed(ready, MOST_WAITING)}"
        if waits:
            yield f"waiting for more: {listed(waits, MOST_WAITING)}"
        later = self.replay.waiting(at) - len(ready) - len(waits)
        if later:
            yield f"{later:,} {'wait' if later > 1 else 'waits'} further on"


def _scopes_around(scopes: Sequence[ModuleScope], scope: int | None) -> list[int]:
    """The calls around one, and itself, the outermost first."""
    around: list[int] = []
    while scope is not None:
        around.append(scope)
        scope = scopes[scope].parent
    return around[::-1]


def _names_of(node: Node, output_nr: int) -> list[str]:
    """What the program calls one of the things that a node gave."""
    return [name for tensor in node.held if tensor.output_nr == output_nr for name in tensor.names]


def short_words(gradients: Iterable[TensorFigures | None]) -> str:
    """Several gradients in a word or two: their numbers where these are few, or else the norm of all."""
    known = [each for each in gradients if each is not None]
    numbers = [_numbers(each, SHORT_NUMBERS) for each in known]
    if numbers and all(numbers):
        return ", ".join(numbers)
    words = figures_words(known)
    return f"norm {words}" if words[:1].isdigit() and words != "0" else words
