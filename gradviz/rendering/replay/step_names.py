"""The names of steps, in their own headings and in lines about other steps."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

from gradviz.analysis.replay.steps import START, Flow, Replay, Step
from gradviz.graph.model import Node
from gradviz.graph.query.operation_names import autograd_name
from gradviz.graph.query.own_line import line_words
from gradviz.graph.traversal import scopes_around
from gradviz.rendering.formats import Subject
from gradviz.rendering.words.common_words import counted, listed
from gradviz.rendering.words.item_words import ItemTexts
from gradviz.view.model import Item

LONGEST_PATH = 32
"""Characters of a module's path, in a line about another step."""


class StepNames:
    """Finds names for the steps of one replay."""

    def __init__(self, subject: Subject, replay: Replay) -> None:
        self.subject, self.replay = subject, replay
        self.graph = replay.graph
        self.texts = ItemTexts(subject.facts)

    def item_of(self, step: Step) -> Item:
        """The item of a step; for a leaf that several items show, the first."""
        return self.subject.view.items[step.items[0]]

    def main_node(self, step: Step) -> Node:
        """The operation or the leaf of a step; for a box, the operation that ran first."""
        node = self.item_of(step).node
        if node is not None and node in step.nodes:
            return self.graph.nodes[node]
        named = None if node is None else self.graph.nodes[node].name
        nodes = [self.graph.nodes[each] for each in step.nodes]
        return next((each for each in nodes if each.name == named), nodes[0])

    def title(self, step: Step) -> str:
        """``mul``, ``softmax dim=-1``, ``model.h.11``; the name of a leaf."""
        item, text = self.item_of(step), self.texts[step.items[0]]
        if item.kind == "box":
            return f"{self._path(step)}{f' ×{item.repeat:,}' if item.repeat > 1 else ''}"
        if self.main_node(step).is_leaf:
            return self.short_name(step)
        return " ".join(filter(None, (text.title, text.settings)))

    def short_name(self, step: Step) -> str:
        """For a line about another step: ``mul (area)``, ``x``, ``relu (step 7)``, ``…h.11.mlp``."""
        item, text = self.item_of(step), self.texts[step.items[0]]
        if item.kind == "box":
            return _end_of(self._path(step))
        node = self.main_node(step)
        if node.is_leaf:
            is_repeated = len(self.replay.steps_of_item(item.id)) > 1
            return node.names[0] if is_repeated and node.names else text.title
        return f"{text.title} ({next(iter(node.names), f'step {step.number:,}')})"

    def _path(self, step: Step) -> str:
        text = self.texts[step.items[0]]
        return self._own_path(step) or text.path or text.title

    def _own_path(self, step: Step) -> str:
        """For a repeated box, the module of the repetition that runs: ``model.h.11.mlp``."""
        item, scopes = self.item_of(step), self.graph.scopes
        if item.scope is None or item.repeat > 1 or len(self.replay.steps_of_item(item.id)) == 1:
            return ""
        own = list(scopes_around(scopes, self.graph.nodes[step.nodes[0]].scope))
        depth = len(list(scopes_around(scopes, item.scope)))
        return scopes[own[-depth]].path if len(own) >= depth else ""

    def subtitle(self, step: Step) -> str:
        """``MulBackward0``, or the class and the size of a box; and what is special about its run."""
        is_box = self.item_of(step).kind == "box"
        return " · ".join(filter(None, self._box_words(step) if is_box else self._operation_words(step)))

    def _box_words(self, step: Step) -> Iterator[str]:
        yield self.texts[step.items[0]].subtitle
        yield counted(len(step.nodes), "node")
        if not self._own_path(step):
            yield self._repetition(step)

    def _operation_words(self, step: Step) -> Iterator[str]:
        """Its autograd name with those of the merged views; its thread if that is not the first one; how often it ran,
        if a backward inside this one ran it again."""
        main = self.main_node(step)
        merged = dict.fromkeys(autograd_name(self.graph.nodes[node]) for node in step.nodes if node != main.id)
        yield autograd_name(main) + (f" with {listed(list(merged), 2)}" if merged else "")
        if main.run is not None and main.run.thread:
            yield f"on thread {main.run.thread}"
        if main.run is not None and main.run.times > 1:
            yield f"run {main.run.times:,} times"
        yield self._repetition(step)

    def _repetition(self, step: Step) -> str:
        """Which repetition it is, counted forward: the engine runs the last one first."""
        numbers = self.replay.steps_of_item(step.items[0])
        position = len(numbers) - bisect_left(numbers, step.number)
        return f"repetition {position:,} of {len(numbers):,}" if len(numbers) > 1 else ""

    def location(self, step: Step) -> str:
        """``train.py:41``; empty if it is unknown, and for leaves."""
        return self.texts[step.items[0]].line

    def source_line(self, step: Step) -> str:
        """The text of that line."""
        site = self.subject.facts.own_site(self.main_node(step).call_site)
        is_it = site is not None and line_words(site) == self.location(step)
        return self.subject.facts.source_text(site) if site is not None and is_it else ""

    def sender(self, flow: Flow) -> str:
        """The source of a gradient: ``from mul (area)``, ``given to backward() for loss``."""
        if flow.step == START:
            root, call = self.graph.roots[flow.edge], self.graph.backward
            given = f"given to {call.function}()" if call is not None else "that backward() would be given"
            return f"{given} for {root.name or 'the output'}"
        return f"from {self.short_name(self.replay.step(flow.step))}"

    def receiver(self, flow: Flow) -> str:
        """The target of a gradient: ``x``, ``mul (area)``, ``unbind, for width``."""
        number = self.replay.step_of_node(flow.receiver)
        node = self.graph.nodes[flow.receiver]
        if number is None:
            return f"{next(iter(node.names), autograd_name(node))}, which does not run"
        step = self.replay.step(number)
        name = self.short_name(step)
        if len(node.outputs) < 2 or self.item_of(step).kind == "box":
            return name
        held = node.names_at(flow.input_nr)
        title = self.texts[step.items[0]].title
        return f"{title}, for {held[0] if held else f'output {flow.input_nr}'}"


def _end_of(path: str) -> str:
    """The last parts of a dotted path that are short enough together."""
    parts, kept = path.split("."), ""
    while parts and len(kept) + len(parts[-1]) < LONGEST_PATH:
        kept = f".{parts.pop()}{kept}"
    return f"…{kept.removeprefix('.')}" if parts and kept else path
