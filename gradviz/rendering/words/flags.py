"""The flag on an item: a few words about a finding, or about a gradient that is zero, missing, NaN or infinite."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Literal

from gradviz.analysis.numbers.gradient_origins import BROKEN, WORST_FIRST, GradientOrigin, GradientState, state_of
from gradviz.graph.model import Node
from gradviz.graph.node_findings import Verdict
from gradviz.graph.traversal import behind_views
from gradviz.rendering.words.difference_words import mark_words, marks_in
from gradviz.rendering.words.gradient_words import STATE_WORDS, arrived_by_repetition
from gradviz.rendering.words.subject_facts import SubjectFacts
from gradviz.view.model import Item

FlagLevel = Literal["alarm", "warning", "quiet"]
"""``alarm``: NaN or Inf begins here; ``warning``: zero begins here; ``quiet``: it began elsewhere."""

FLAG_SIGNS: dict[FlagLevel, str] = {"alarm": "✗", "warning": "✗", "quiet": ""}
_REASONS = {
    "node": "the gradient that arrived was fine, what goes on from here is {}",
    "zeros": "the gradient that arrived was zero, what goes on from here is {}",
    "sum": "what came along each branch was fine, their sum is {}",
    "hook": "what was sent here was fine, a hook made it {}",
}
_WORDS = {"sum": "branches sum to {}", "hook": "a hook makes it {}"}
_ASIDE = "a leaf beside it gets nothing but zeros, the rest of the gradient goes on"
_FIRST_STATE = "it multiplies with data that needs no gradient and is zero; later runs of this line get a gradient"
_UNUSED_PARTS = "only parts of its result are used, as the last step of a sequence: the others get zero, as they should"
_JOINS = frozenset({"StackBackward0", "CatBackward0"})
"""They send each of their inputs its own part of the gradient and compute nothing."""
_LEVELS: dict[Literal["error", "warning", "note"], FlagLevel] = {
    "error": "alarm", "warning": "warning", "note": "quiet",
}  # fmt: skip


MAX_REASONS = 5


@dataclass(frozen=True, slots=True)
class Flag:
    """The words, the level and the reason of a flag."""

    words: str
    level: FlagLevel
    reason: str = ""
    """A sentence for the tooltip."""

    @property
    def text(self) -> str:
        """The words, with their sign before them."""
        return f"{FLAG_SIGNS[self.level]} {self.words}".strip()


def item_flag(facts: SubjectFacts, item: Item) -> Flag | None:
    """The flag of an item. A finding explains what the gradient only shows, so it comes first."""
    if facts.marks is not None:
        return _difference_flag(facts, item)
    findings = findings_about(facts, item)
    worst = worst_finding(facts, item)
    if worst is None:
        return gradient_flag(facts, item)
    others = len({finding.code for finding in findings}) - 1
    inside = " inside" if item.kind == "box" else ""
    more = f" +{others}" if others else ""
    return Flag(f"{worst.code} {worst.cause}{inside}{more}", _LEVELS[worst.severity], worst.message)


def _difference_flag(facts: SubjectFacts, item: Item) -> Flag | None:
    """For a graph of two runs: which of them has the item, or that it changed."""
    marks = marks_in(facts, item)
    if not marks:
        return None
    first_ones_first = sorted(marks, key=lambda mark: not mark.is_first)
    reasons = dict.fromkeys(mark.sentence for mark in first_ones_first if mark.sentence)
    level: FlagLevel = "alarm" if first_ones_first[0].is_first else "quiet"
    return Flag(mark_words(facts, item), level, " · ".join(list(reasons)[:MAX_REASONS]))


def worst_finding(facts: SubjectFacts, item: Item) -> Verdict | None:
    """The most severe finding about an item."""
    return min(findings_about(facts, item), key=lambda finding: list(_LEVELS).index(finding.severity), default=None)


def findings_on(facts: SubjectFacts, item: Item) -> Iterator[str]:
    """The findings, in sentences for the tooltip."""
    for finding in findings_about(facts, item):
        yield f"{finding.severity} {finding.code} {finding.cause}: {finding.message}"


def findings_about(facts: SubjectFacts, item: Item) -> list[Verdict]:
    """The findings about the nodes of an item and about cuts that it hides."""
    if item.kind == "cut":
        return [facts.graph.cut_edges[item.cut_edge or 0].finding]
    if item.is_open:
        return []
    on_nodes = (facts.findings.get(node, ()) for node in item.nodes) if facts.findings else ()
    return [*chain.from_iterable(on_nodes), *facts.hidden_cuts.get(item.id, ())]


def gradient_flag(facts: SubjectFacts, item: Item) -> Flag | None:
    """The flag for the gradient of a closed item; None if the gradient is fine or unknown."""
    if item.is_open:
        return None
    # It is asked for in the picture, in the tooltip and in the words for screen readers.
    known: dict[int, Flag | None] = facts.gradient_flags
    if item.id not in known:
        known[item.id] = _gradient_flag(facts, item)
    return known[item.id]


def _gradient_flag(facts: SubjectFacts, item: Item) -> Flag | None:
    by_node = facts.gradient_origins.by_node
    origins = {node: by_node[node] for node in item.nodes if node in by_node}
    first_states = {node for node in origins if _is_of_first_state(facts, node)}
    joins = {node for node, origin in origins.items() if _has_unused_parts(facts.graph.nodes[node], origin)}
    loud = [
        origin for node, origin in origins.items() if not (origin.is_aside or node in first_states or node in joins)
    ]
    if origins and not loud and item.kind != "box":
        if first_states:
            return Flag("gradient 0: first state", "quiet", _FIRST_STATE)
        if joins:
            return Flag(f"gradient 0 to {_zero_parts(facts, joins)}", "quiet", _UNUSED_PARTS)
        return Flag(f"gradient {STATE_WORDS[next(iter(origins.values())).state]} to a leaf", "quiet", _ASIDE)
    return _origin_flag(facts, item, loud) if loud else _quiet_flag(facts, item)


def _has_unused_parts(node: Node, origin: GradientOrigin) -> bool:
    """Whether a gradient becomes zero at a node only because parts of what it joins were not used afterwards."""
    return node.name in _JOINS and origin.by == "node" and origin.state not in BROKEN


def _zero_parts(facts: SubjectFacts, joins: Iterable[int]) -> str:
    sent = [state_of([gradient]) for node in joins for gradient in facts.graph.nodes[node].gradients]
    return f"{sum(state in ('zero', 'none') for state in sent):,} of {len(sent):,} parts"


def _is_of_first_state(facts: SubjectFacts, node: int) -> bool:
    """Whether a gradient becomes zero at a node only because the state that it begins with is zero."""
    origin = facts.gradient_origins.by_node.get(node)
    is_zero = origin is not None and origin.state not in BROKEN
    return is_zero and facts.takes_first_state(facts.graph.nodes[node])


def _origin_flag(facts: SubjectFacts, item: Item, origins: Sequence[GradientOrigin]) -> Flag:
    worst = min((origin.state for origin in origins), key=WORST_FIRST.index)
    alike = [origin for origin in origins if origin.state == worst]
    level: FlagLevel = "alarm" if worst in BROKEN else "warning"
    word = STATE_WORDS[worst]
    if item.kind == "box":
        return Flag(f"gradient becomes {word} inside", level)
    by = alike[0].by
    share = _share(len(alike), len(arrived_by_repetition(facts, item)))
    return Flag(_WORDS.get(by, "gradient becomes {}").format(word) + share, level, _REASONS[by].format(word))


def _quiet_flag(facts: SubjectFacts, item: Item) -> Flag | None:
    states = [state_of(gradients) for gradients in arrived_by_repetition(facts, item)]
    worst = _worst(states)
    if worst is not None:
        share = _share(states.count(worst), len(states))
        return Flag(f"gradient {STATE_WORDS[worst]}{share}", "quiet")
    arrived = facts.gradient_origins.arrived
    nodes = [node for node in item.nodes if not _is_one_share(facts, node)] if item.kind == "box" else []
    inside = _worst(arrived.get(node) for node in nodes)
    return None if inside is None else Flag(f"gradient {STATE_WORDS[inside]} inside", "quiet")


def _is_one_share(facts: SubjectFacts, node: int) -> bool:
    """Whether a zero goes on to a leaf that gets more than zero from elsewhere: of a recurrent layer that begins with a
    state of zeros, the first step brings nothing to the weights, and the others do."""
    arrived = facts.gradient_origins.arrived
    leaf, _ = behind_views(facts.graph, node)
    is_zero = arrived.get(node) not in (None, *BROKEN)
    return is_zero and leaf != node and facts.graph.nodes[leaf].is_leaf and leaf not in arrived


def _share(count: int, total: int) -> str:
    return f" in {count:,} of {total:,}" if count < total else ""


def _worst(states: Iterable[GradientState | None]) -> GradientState | None:
    found = set(states)
    return next((state for state in WORST_FIRST if state in found), None)
