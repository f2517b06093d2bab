"""Lets the processes that a program starts be recorded: by their environment, without editing the program.

The program that runs in this process must not notice: its ``os.environ`` stays as it is. The variables are set below
it, where new processes inherit them from, and are added to an environment that the program makes for a new process.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any

from gradviz.recording.ranks.job_folder import JobPlan
from gradviz.recording.torch_access.patches import Replacement

_JOB = "GRADVIZ_JOB"
_PACKAGE = "GRADVIZ_PACKAGE"
_RECORDED_COLLECTIVES = "TORCH_FR_BUFFER_SIZE", "2000"
_INJECTED = Path(__file__).parent / "injected"
_COMPILES = "compile_worker"
"""In the command of processes that inductor starts to compile in: they train nothing, and there are many."""

_plan_of_children: JobPlan | None = None
_popen = Replacement("subprocess.Popen.__init__")


def environment_of_children(plan: JobPlan, base: Mapping[str, str]) -> dict[str, str]:
    """The variables that a process needs to be recorded, besides `base`, which it has."""
    path = os.pathsep.join(filter(None, (str(_INJECTED), base.get("PYTHONPATH", ""))))
    return {_JOB: plan.text(), _PACKAGE: str(Path(__file__).parents[3]), "PYTHONPATH": path}


def record_collectives() -> None:
    """Let torch's flight recorder run from the first process group on, unless the user has said something of it."""
    name, size = _RECORDED_COLLECTIVES
    if name not in os.environ:
        os.putenv(name, size)


@contextmanager
def recorded_children(plan: JobPlan) -> Iterator[None]:
    """While the block runs, Python processes that are started here are recorded, if they train."""
    global _plan_of_children
    variables = environment_of_children(plan, os.environ)
    for name, value in variables.items():
        os.putenv(name, value)
    _popen.put(_adding(plan))
    _plan_of_children = plan
    try:
        yield
    finally:
        _plan_of_children = None
        _popen.take_back()
        for name in variables:
            if name in os.environ:
                os.putenv(name, os.environ[name])
            else:
                os.unsetenv(name)


def _adding(plan: JobPlan) -> Callable[[Any], Any]:
    def make(original: Any) -> Any:
        @wraps(original)
        def start(process: Any, *args: Any, **kwargs: Any) -> None:
            given = kwargs.get("env")
            command = args[0] if args else kwargs.get("args")
            if isinstance(given, Mapping) and _JOB not in given and not _is_compiler(command):
                kwargs["env"] = {**given, **environment_of_children(plan, given)}
            original(process, *args, **kwargs)

        return start

    return make


def _is_compiler(command: Any) -> bool:
    """Whether inductor starts this process, with an environment made of ``os.environ``, where nothing of ours is."""
    return isinstance(command, (list, tuple)) and any(Path(str(word)).parent.name == _COMPILES for word in command)


def plan_of_environment() -> JobPlan | None:
    """What this process is to record, as the one that started it has said; None if it said nothing."""
    if _plan_of_children is not None:
        return _plan_of_children
    text = os.environ.get(_JOB)
    return JobPlan.of_text(text) if text else None
