"""Notices which torch calls draw random numbers, by the state of the generators before and after each call.

Reading the state draws nothing. The state of a GPU's generator is kept in the processor's memory, so nothing waits.
"""

from __future__ import annotations

import ctypes
import zlib
from typing import Any

import torch

from gradviz.graph.call_log import RandomDraw

GeneratorStates = dict[str, int]
"""A checksum of each generator's state, by the generator's name."""


def states_before(kwargs: dict[str, Any]) -> GeneratorStates:
    """The states of the generators that a call with these arguments could draw from."""
    checksums: GeneratorStates = {"cpu": _checksum(torch.default_generator)}
    if torch.cuda.is_initialized() and not torch.cuda.is_current_stream_capturing():  # type: ignore[no-untyped-call]
        for index, generator in enumerate(torch.cuda.default_generators):
            checksums[f"cuda:{index}"] = _checksum_elsewhere(generator)
    own = kwargs.get("generator")
    if isinstance(own, torch.Generator):
        checksums["generator="] = _checksum(own) if own.device.type == "cpu" else _checksum_elsewhere(own)
    return checksums


def draw_between(before: GeneratorStates, kwargs: dict[str, Any]) -> RandomDraw | None:
    """The draw of a call that has ended; None if it drew nothing."""
    after = states_before(kwargs)
    for name, checksum in before.items():
        later = after.get(name)
        if later is not None and later != checksum:
            return RandomDraw(name, checksum, later)
    return None


def _checksum(generator: torch.Generator) -> int:
    state = generator.get_state()
    return zlib.crc32(ctypes.string_at(state.data_ptr(), state.numel()))


def _checksum_elsewhere(generator: torch.Generator) -> int:
    return zlib.crc32(f"{generator.initial_seed()} {generator.get_offset()}".encode())
