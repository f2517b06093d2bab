"""Tries this torch for ``gradviz doctor``: its release, its GPUs, and all that gradviz takes from its insides."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gradviz.errors import MissingDependency

if TYPE_CHECKING:
    from gradviz.recording.torch_access.capabilities import Capability


@dataclass(frozen=True)
class TriedTorch:
    """What was found out about the installed torch."""

    version: str
    tried_releases: str
    """In words, those that gradviz was tried with."""
    is_newer_than_tried: bool
    refusal: str
    """Why nothing can be recorded with it; empty if recording works."""
    built_for: str
    """``CPU``, ``CUDA 12.8`` or ``ROCm 6.3``."""
    gpus: tuple[str, ...]
    capabilities: tuple[tuple[Capability, bool], ...]
    """Everything that gradviz takes from torch's insides, and whether it works; empty for a torch that is too old."""


def try_torch() -> TriedTorch:
    """Import torch, and try it; raises `MissingDependency` if it cannot be imported."""
    try:
        import torch
    except Exception as error:  # a broken installation of another package fails in any way
        why = f"{type(error).__name__}: {error}".splitlines()[0]
        raise MissingDependency(f"torch cannot be imported: {why}") from error
    from gradviz.recording.torch_access import capabilities

    refusal = _refusal()
    is_too_old = capabilities.is_older_than_tried()
    tried = {} if is_too_old else capabilities.try_all()
    return TriedTorch(
        version=str(torch.__version__),
        tried_releases=capabilities.tried_releases(),
        is_newer_than_tried=capabilities.is_newer_than_tried(),
        refusal=refusal,
        built_for=_built_for(),
        gpus=_gpus(),
        capabilities=tuple((each, tried[each.name]) for each in capabilities.CAPABILITIES if tried),
    )


def _refusal() -> str:
    from gradviz.recording.torch_access import capabilities

    try:
        capabilities.check()
    except MissingDependency as error:
        return str(error)
    return ""


def _built_for() -> str:
    import torch

    if torch.version.cuda:
        return f"CUDA {torch.version.cuda}"
    return f"ROCm {torch.version.hip}" if torch.version.hip else "CPU"


def _gpus() -> tuple[str, ...]:
    import torch

    if torch.cuda.is_available():
        return tuple(torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count()))
    return ("Apple GPU (MPS)",) if torch.backends.mps.is_available() else ()
