"""Tells, from inside the hooks of a model's parameters, which backward call of the program it is.

A hook only knows the engine's task. Tasks are numbered as they begin, but not each is a call of the program: reentrant
checkpointing runs one of its own, inside the outer one, for every segment.
"""

from __future__ import annotations

import sys
from threading import Lock

from gradviz.recording import torch_compat


class CallCounter:
    """Counts backward calls that reach any of `parameters` many parameters."""

    def __init__(self, parameters: int) -> None:
        self.calls = 0
        self._task = -1
        self._newest_task = -1
        self._last_seen = [0] * parameters
        """The call in which each parameter last got a gradient."""
        self._began_inside = False
        self._lock = Lock()

    def is_new_call(self, place: int) -> bool:
        """Note that the parameter at `place` got a gradient; True where it is the first of a new call."""
        task = torch_compat.current_graph_task_id()
        is_new = task != self._task and self._begins(task, place)
        self._last_seen[place] = self.calls
        return is_new

    def _begins(self, task: int, place: int) -> bool:
        with self._lock:
            self._task = task
            if task <= self._newest_task:
                return False  # an outer or a concurrent call goes on
            self._newest_task = task
            is_inside = torch_compat.is_inside_custom_backward(sys._getframe(1))
            # Where all parameters are inside checkpoints, nothing tells the outer call but that they come once more.
            if is_inside and not (self._comes_again(place) and (self._began_inside or not self.calls)):
                return False
            self.calls += 1
            self._began_inside = is_inside
            return True

    def _comes_again(self, place: int) -> bool:
        return self._last_seen[place] == self.calls
