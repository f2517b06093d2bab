"""Notes where the learning rate of an optimizer turns: from falling to rising, or the other way."""

from __future__ import annotations

from gradviz.graph.call_log import RateTurn

_MAX_TURNS = 64


class RateTurns:
    """The turns of one learning rate, which is told at each step."""

    def __init__(self) -> None:
        self.steps = 0
        self.changes = 0
        """The steps at which it was another one than before."""
        self.first: float | None = None
        self.turns: list[RateTurn] = []
        """The first of them."""
        self._last: float | None = None
        self._is_rising: bool | None = None

    def note(self, rate: float | None) -> None:
        """The learning rate of the next step."""
        last, self._last = self._last, rate
        if not self.steps:
            self.first = rate
        if last is not None and rate is not None and rate != last:
            is_rising = rate > last
            self.changes += 1
            if self._is_rising not in (None, is_rising) and len(self.turns) < _MAX_TURNS:
                self.turns.append(RateTurn(self.steps - 1, last, rate))
            self._is_rising = is_rising
        self.steps += 1
