"""Reads the settings of torch that decide which kernel computes a result, and in which order it adds up.

Since torch 2.9, a program can set the precision of each kind of operation; then the older switches refuse to be read.
"""

from __future__ import annotations

from typing import Any

import torch

from gradviz.capture.capture import Settings


def settings_now() -> Settings:
    """The settings at this moment. Reading them changes nothing."""
    backends = torch.backends
    return Settings(
        threads=torch.get_num_threads(),
        is_deterministic=torch.are_deterministic_algorithms_enabled(),
        matmul_tf32=_allows_tf32(backends.cuda.matmul, backends),
        convolution_tf32=_allows_tf32(getattr(backends.cudnn, "conv", backends.cudnn), backends.cudnn, backends),
        cudnn_benchmark=bool(backends.cudnn.benchmark),
        processor=backends.cpu.get_cpu_capability(),
    )


def _allows_tf32(own: Any, *around: Any) -> bool:
    """Whether it is allowed by the innermost of these settings that says something."""
    if getattr(own, "fp32_precision", None) is None:
        return bool(own.allow_tf32)
    precisions = (each.fp32_precision for each in (own, *around))
    return next((precision == "tf32" for precision in precisions if precision != "none"), False)
