"""The settings of torch that a capture keeps."""

from __future__ import annotations

from pathlib import Path

import torch

import gradviz
from gradviz.capture.capture_file import load_capture
from gradviz.recording.walk.torch_settings import settings_now


def test_a_capture_keeps_the_settings_that_were_made(tmp_path: Path) -> None:
    before = torch.get_num_threads(), torch.backends.cuda.matmul.allow_tf32
    try:
        torch.set_num_threads(3)
        torch.backends.cuda.matmul.allow_tf32 = True
        torch.use_deterministic_algorithms(True)
        with gradviz.record() as recording:
            torch.ones(2, requires_grad=True).sum().backward()  # type: ignore[no-untyped-call]
    finally:
        torch.set_num_threads(before[0])
        torch.backends.cuda.matmul.allow_tf32 = before[1]
        torch.use_deterministic_algorithms(False)
    recording.save(tmp_path / "run.gradviz")
    kept = load_capture(tmp_path / "run.gradviz").settings
    assert kept is not None and (kept.threads, kept.matmul_tf32, kept.is_deterministic) == (3, True, True)
    assert kept.processor == torch.backends.cpu.get_cpu_capability()
    assert settings_now().is_deterministic is False
