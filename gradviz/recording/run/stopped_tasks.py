"""Keeps asyncio from reporting that a task ended with gradviz's own request to stop the script."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from gradviz.recording.run.recording_plan import StopScript


def unfinished_tasks() -> list[Any]:
    """All tasks of the event loop that runs on this thread; none if there is no such loop. asyncio is not imported."""
    asyncio = sys.modules.get("asyncio")
    if asyncio is None:
        return []
    try:
        return list(asyncio.all_tasks())
    except RuntimeError:
        return []  # no loop runs here


def retrieve_stops(tasks: Iterable[Any]) -> None:
    """Take `StopScript` out of those of `tasks` that it ended: asyncio prints what nobody has taken out of a task.

    It also prints which tasks are pending when they are freed; these are pending because gradviz stopped their loop.
    """
    for task in tasks:
        if not task.done():
            task._log_destroy_pending = False
        elif isinstance(getattr(task, "_exception", None), StopScript):
            task.exception()
