"""Lets the processes that a program starts be recorded: by their environment, without editing the program."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gradviz.recording.ranks.job_folder import JobPlan

JOB = "GRADVIZ_JOB"
PACKAGE = "GRADVIZ_PACKAGE"
_INJECTED = Path(__file__).parent / "injected"


@contextmanager
def recorded_children(plan: JobPlan) -> Iterator[None]:
    """While the block runs, Python processes that are started here are recorded, if they train."""
    path = os.pathsep.join(filter(None, (str(_INJECTED), os.environ.get("PYTHONPATH", ""))))
    new = {JOB: plan.text(), PACKAGE: str(Path(__file__).parents[3]), "PYTHONPATH": path}
    before = {name: os.environ.get(name) for name in new}
    os.environ.update(new)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            elif os.environ.get(name) == new[name]:
                os.environ[name] = value


def plan_of_environment() -> JobPlan | None:
    """What this process is to record, as the one that started it has said; None if it said nothing."""
    text = os.environ.get(JOB)
    return JobPlan.of_text(text) if text else None
