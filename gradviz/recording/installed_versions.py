"""With which versions a program was recorded."""

from __future__ import annotations

import platform

import torch

from gradviz._version import __version__
from gradviz.capture.capture import Program


def program_of(name: str, arguments: tuple[str, ...] = ()) -> Program:
    """What a recording tells of the program called `name`."""
    return Program(name, arguments, platform.python_version(), str(torch.__version__), __version__)
