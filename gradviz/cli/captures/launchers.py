"""Commands in place of a script: ``gradviz record -- torchrun --nproc-per-node 2 train.py``."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from gradviz.capture.capture_file import CAPTURE_SUFFIX

LAUNCHERS = ("torch.distributed.run", "torch.distributed.launch", "accelerate.commands.launch", "deepspeed.launcher")
"""Modules that start the processes of a job, and train nothing themselves."""

_SCRIPT_SUFFIXES = (".py", CAPTURE_SUFFIX)


def is_command(words: Sequence[str]) -> bool:
    """Whether the first word is a command that the shell would find, and no script."""
    first = words[0]
    if first.endswith(_SCRIPT_SUFFIXES) or "@" in first or _is_script(first):
        return False
    return shutil.which(first) is not None


def command_of_module(module: str, arguments: Sequence[str]) -> tuple[str, ...]:
    """The command that runs a module in a process of its own."""
    return sys.executable, "-m", module, *arguments


def script_of(words: Sequence[str]) -> str:
    """The script that a command runs: the first word that names one; the command itself if there is none."""
    return next((word for word in words[1:] if word.endswith(".py")), words[0])


def _is_script(word: str) -> bool:
    """Whether the word is a file here, or a folder that Python runs: the shell would run neither without ``./``."""
    return "/" not in word and (Path(word).is_file() or (Path(word) / "__main__.py").exists())
