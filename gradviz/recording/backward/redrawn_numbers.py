"""Notices custom functions whose backward computes their forward again with other random numbers.

No function mode sees what runs inside of the engine. Seen are the states of the generators: before and after each call
in a custom function's forward, and where its backward calls backward on what it computed again. A backward that puts
the state back draws the numbers of forward, so a state of forward is found there again; one that draws nothing leaves
the state as it was. Any other state is that of new numbers.
"""

from __future__ import annotations

from types import FrameType

from gradviz.recording.calls.rows import Row
from gradviz.recording.fingerprints.random_draws import states_before
from gradviz.recording.forward.grad_mode_watch import Location
from gradviz.recording.run.file_kinds import is_library_file
from gradviz.recording.run.line_attribution import function_name
from gradviz.recording.torch_access.engine import current_autograd_node
from gradviz.recording.torch_access.nodes import sequence_nr_of

MAX_CALLS = 16
"""So many calls of each function are looked at; one shows what its code does."""
_MAX_AWAITED = 256

_States = tuple[tuple[str, int], ...]


class _Draws:
    """What one call of a custom function drew in its forward."""

    def __init__(self, state: _States) -> None:
        self.states = {state}
        self.newest = state
        self.rows: list[Row] = []
        self.is_complete = True
        """False if the state changed between two calls that were seen: not all of its states are known."""


class RedrawnNumbers:
    """The calls of custom functions that draw random numbers, until their backward has run."""

    def __init__(self) -> None:
        self._looked_at: dict[object, int] = {}
        """The number of calls, by the code of the backward."""
        self._forwards: dict[int, _Draws] = {}
        """By sequence number of the node, in the order of the calls."""
        self._known: set[_States] = set()
        """States in the backward that runs now, at lines where nothing was drawn for what is computed again."""

    def begin_forward(self, row: Row) -> None:
        """The forward of a custom function is about to run."""
        callback = row.definition
        if callback is None or row.sequence_nr is None or is_library_file(callback.code.co_filename):
            return
        looks = self._looked_at.get(callback.code, 0)
        if looks < MAX_CALLS:
            self._looked_at[callback.code] = looks + 1
            if len(self._forwards) >= _MAX_AWAITED:
                del self._forwards[next(iter(self._forwards))]
            self._forwards[row.sequence_nr] = _Draws(_state())

    def begin_call(self, row: Row) -> None:
        """A call of torch is about to run."""
        around = self._around(row)
        if around:
            state = _state()
            for draws in around:
                draws.is_complete = draws.is_complete and state == draws.newest

    def end_call(self, row: Row) -> None:
        """It has returned."""
        around = self._around(row)
        if around:
            state = _state()
            for draws in around:
                if state != draws.newest:
                    draws.newest = state
                    draws.states.add(state)
                    draws.rows.append(row)

    def _around(self, row: Row) -> list[_Draws]:
        """The custom functions in whose forward it runs."""
        found = []
        outer = row.inside if self._forwards else None
        while outer is not None:
            if outer.kind == "custom" and outer.sequence_nr in self._forwards:
                found.append(self._forwards[outer.sequence_nr])
            outer = outer.inside
        return found

    def begin_backward(self) -> None:
        """A backward call of the program is about to run."""
        self._known = {_state()} if self._forwards else set()

    def note_inner(self, frame: FrameType | None) -> None:
        """A node calls backward, from `frame`, while the engine runs it."""
        if not self._forwards:
            return
        draws = self._forwards.get(sequence_nr_of(current_autograd_node()))
        state = _state()
        if draws is not None and draws.is_complete and draws.rows and state not in draws.states | self._known:
            location = _own_location(frame)
            for row in draws.rows if location is not None else ():
                row.redrawn_location = row.redrawn_location or location
        self._known.add(state)


def _state() -> _States:
    return tuple(states_before({}).items())


def _own_location(frame: FrameType | None) -> Location | None:
    while frame is not None and is_library_file(frame.f_code.co_filename):
        frame = frame.f_back
    return None if frame is None else Location(frame.f_code.co_filename, frame.f_lineno, function_name(frame.f_code))
