"""``gradviz memory`` against CUDA's allocator, and programs for whom its memory does not suffice."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cuda.device import DEVICE
from tests.end_to_end.command import installed_gradviz, written_script

MIB = 1 << 20

STEP = f"""
import torch
torch.manual_seed(0)
device = "{DEVICE}"
w = torch.randn(1024, 1024, device=device, requires_grad=True)
x = torch.randn(4096, 1024, device=device)

def forward():
    h = x
    for _ in range(4):
        h = torch.tanh(h @ w)
    return h.square().mean()

def allocated():
    return torch.cuda.memory_allocated() if device == "cuda" else 0

forward().backward()  # libraries take their own memory
w.grad = None
before = allocated()
loss = forward()
print("held", allocated() - before if device == "cuda" else 4 * 16 * 2**20)
loss.backward()
"""


def test_what_backward_keeps_is_what_the_allocator_gave_out(tmp_path: Path) -> None:
    script = written_script(tmp_path, STEP)

    run = installed_gradviz("memory", script, "--backward", "2", "--json", cwd=tmp_path)

    assert run.exit_code == 0, run.stderr
    held = int(next(line for line in run.stderr.splitlines() if line.startswith("held ")).split()[1])
    assert held > 60 * MIB
    were_there_before = (16 + 4) * MIB  # x and w
    assert json.loads(run.stdout)["saved_bytes"] - were_there_before == pytest.approx(held, rel=0.01)


GREEDY = f"""
import torch

class Greedy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return gradient + torch.zeros(1 << 50, device=gradient.device)[0]

if "{DEVICE}" == "cuda":
    torch.cuda.set_per_process_memory_fraction(0.5)
x = torch.ones(4 << 20, device="{DEVICE}", requires_grad=True)
a = torch.tanh(x)
b = Greedy.apply(a)
c = torch.sigmoid(b)
d = torch.tanh(c)
d.sum().backward()
"""
FORWARD = f"""
import torch

limit = 1 << 50
if "{DEVICE}" == "cuda":
    limit = 256 << 20
    torch.cuda.set_per_process_memory_fraction(limit / torch.cuda.get_device_properties(0).total_memory)
x = torch.ones(4 << 20, device="{DEVICE}", requires_grad=True)
h = x
while True:
    h = torch.tanh(h)
    if limit == 1 << 50 and h.sum() < 4e6:
        torch.zeros(limit)
"""


def _is_out_of_memory(stderr: str) -> bool:
    return "OutOfMemoryError" in stderr if DEVICE == "cuda" else "can't allocate memory" in stderr


def test_out_of_memory_in_backward_leaves_a_picture_and_the_traceback(tmp_path: Path) -> None:
    script = written_script(tmp_path, GREEDY)

    run = installed_gradviz("render", script, "-o", "out.svg", cwd=tmp_path)

    assert run.exit_code == 1
    assert _is_out_of_memory(run.stderr)
    assert "d.sum().backward()" in run.stderr
    picture = (tmp_path / "out.svg").read_text(encoding="utf-8")
    assert "Greedy" in picture
    assert "tanh" in picture


def test_memory_says_what_was_held_when_backward_ran_out_of_it(tmp_path: Path) -> None:
    script = written_script(tmp_path, GREEDY)

    run = installed_gradviz("memory", script, "--json", cwd=tmp_path)

    assert run.exit_code == 1
    assert _is_out_of_memory(run.stderr)
    found = json.loads(run.stdout)
    assert found["saved_bytes"] == 3 * 16 * MIB
    assert sorted(line["bytes"] for line in found["by_line"]) == [16 * MIB] * 3


def test_out_of_memory_in_forward_ends_as_it_would_without_gradviz(tmp_path: Path) -> None:
    """No backward was called, so there is no graph to draw; the error is the program's own."""
    script = written_script(tmp_path, FORWARD)

    run = installed_gradviz("memory", script, cwd=tmp_path)

    assert run.exit_code == 1
    assert _is_out_of_memory(run.stderr)
    assert "defect of gradviz" not in run.stderr
