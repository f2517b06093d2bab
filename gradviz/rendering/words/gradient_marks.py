"""The few words on an item whose gradient is zero, missing, NaN or infinite: loud where that begins, quiet after it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from gradviz.analysis.numbers.gradient_origins import BROKEN, WORST_FIRST, GradientOrigin, GradientState, state_of
from gradviz.rendering.words.item_gradients import arrived_by_repetition
from gradviz.rendering.words.subject_facts import SubjectWords
from gradviz.view.model import Item

MarkLevel = Literal["alarm", "warning", "quiet"]
"""``alarm``: NaN or Inf begins here; ``warning``: zero begins here; ``quiet``: it began elsewhere."""

STATE_WORDS: dict[GradientState, str] = {"zero": "0", "none": "none", "inf": "Inf", "nan": "NaN"}
MARK_SIGNS: dict[MarkLevel, str] = {"alarm": "✗", "warning": "✗", "quiet": ""}
_REASONS = {
    "node": "the gradient that arrived was fine, what goes on from here is {}",
    "zeros": "the gradient that arrived was zero, what goes on from here is {}",
    "sum": "what came along each branch was fine, their sum is {}",
    "hook": "what was sent here was fine, a hook made it {}",
}
_WORDS = {"sum": "branches sum to {}", "hook": "a hook makes it {}"}
_ASIDE = "a leaf beside it gets nothing but zeros, the rest of the gradient goes on"


@dataclass(frozen=True, slots=True)
class GradientMark:
    """What stands on an item."""

    words: str
    level: MarkLevel
    reason: str = ""
    """A sentence for the small print."""

    @property
    def text(self) -> str:
        """The words after their sign."""
        return f"{MARK_SIGNS[self.level]} {self.words}".strip()


def gradient_mark(subject: SubjectWords, item: Item) -> GradientMark | None:
    """The mark of a closed item; None where its gradient is fine, or nothing is known of it."""
    if item.is_open:
        return None
    gradient_origins = [subject.gradient_origins.by_node[node] for node in item.nodes if node in subject.gradient_origins.by_node]
    loud = [gradient_origin for gradient_origin in gradient_origins if not gradient_origin.is_aside]
    if gradient_origins and not loud and item.kind != "box":
        return GradientMark(f"gradient {STATE_WORDS[gradient_origins[0].state]} to a leaf", "quiet", _ASIDE)
    return _origin_mark(subject, item, loud) if loud else _quiet_mark(subject, item)


def _origin_mark(subject: SubjectWords, item: Item, gradient_origins: Sequence[GradientOrigin]) -> GradientMark:
    worst = min((gradient_origin.state for gradient_origin in gradient_origins), key=WORST_FIRST.index)
    alike = [gradient_origin for gradient_origin in gradient_origins if gradient_origin.state == worst]
    level: MarkLevel = "alarm" if worst in BROKEN else "warning"
    word = STATE_WORDS[worst]
    if item.kind == "box":
        return GradientMark(f"gradient becomes {word} inside", level)
    by = alike[0].by
    share = _share(len(alike), len(arrived_by_repetition(subject, item)))
    return GradientMark(_WORDS.get(by, "gradient becomes {}").format(word) + share, level, _REASONS[by].format(word))


def _quiet_mark(subject: SubjectWords, item: Item) -> GradientMark | None:
    states = [state_of(gradients) for gradients in arrived_by_repetition(subject, item)]
    worst = _worst(states)
    if worst is not None:
        share = _share(states.count(worst), len(states))
        return GradientMark(f"gradient {STATE_WORDS[worst]}{share}", "quiet")
    inside = _worst(subject.gradient_origins.arrived.get(node) for node in item.nodes) if item.kind == "box" else None
    return None if inside is None else GradientMark(f"gradient {STATE_WORDS[inside]} inside", "quiet")


def _share(count: int, total: int) -> str:
    return f" in {count:,} of {total:,}" if count < total else ""


def _worst(states: Iterable[GradientState | None]) -> GradientState | None:
    found = set(states)
    return next((state for state in WORST_FIRST if state in found), None)
