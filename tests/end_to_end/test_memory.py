"""``gradviz memory``: which lines hold the memory, in words, as data and as a picture."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from msgspec.structs import replace

from gradviz.capture.capture_file import load_capture, write_capture
from gradviz.recording.torch_access.nodes import SHOWS_SLOTS
from tests.end_to_end.command import gradviz, refusal, refused, written_script

SCRIPT = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Linear(64, 64) for _ in range(3))

    def forward(self, x):
        for block in self.blocks:
            x = torch.relu(block(x))
        return x

model = Net()
x = torch.randn(256, 64)
print("the script prints")
for step in range(2):
    loss = model(x).square().mean()
    loss.backward()
"""

CRASH = """
import torch
x = torch.ones(1000, requires_grad=True)
y = x.exp()
z = y * y
y.add_(1)
z.sum().backward()
"""

LAYER = 256 * 64 * 4


@pytest.fixture
def script(tmp_path: Path) -> Path:
    return written_script(tmp_path, SCRIPT)


def test_the_line_that_holds_most_comes_first_with_its_text(script: Path, tmp_path: Path) -> None:
    run = gradviz("memory", script, "--width", "90", cwd=tmp_path)
    lines = run.stdout.splitlines()

    assert run.exit_code == 0, run.stderr
    assert lines[0] == "256 KiB kept until backward 1 at train.py:20, in 4 storages"
    first = next(line for line in lines if "train.py:12" in line)
    assert first.split()[:3] == ["256", "KiB", "100.0%"]
    assert "x = torch.relu(block(x))" in first
    assert all(len(line) <= 90 for line in lines)
    assert "the script prints" in run.stderr


def test_the_document_has_these_keys_and_counts_each_storage_once(script: Path, tmp_path: Path) -> None:
    document: dict[str, Any] = json.loads(gradviz("memory", script, "--json", cwd=tmp_path).stdout)

    assert list(document) == [
        *("saved_bytes", "parameter_bytes", "input_bytes", "unknown", "by_module", "by_line", "storages", "compiled"),
        *("rank", "job"),
    ]
    assert (document["saved_bytes"], document["input_bytes"]) == (4 * LAYER, LAYER)
    assert document["parameter_bytes"] == 2 * 64 * 64 * 4  # nobody wants the gradient of x
    assert sum(line["bytes"] for line in document["by_line"]) == 4 * LAYER
    assert document["by_module"][0]["bytes"] == 4 * LAYER
    counted = [use for use in document["storages"] if use["kind"] not in ("parameter", "buffer")]
    assert sum(use["bytes"] for use in counted) == 4 * LAYER


def test_the_treemap_is_an_svg(script: Path, tmp_path: Path) -> None:
    run = gradviz("memory", script, "-o", "memory.svg", cwd=tmp_path)

    assert run.exit_code == 0, run.stderr
    assert ElementTree.parse(tmp_path / "memory.svg").getroot().tag.endswith("svg")


def test_a_later_backward_is_recorded_before_it_frees_anything(script: Path, tmp_path: Path) -> None:
    document = json.loads(gradviz("memory", script, "--backward", "2", "--json", cwd=tmp_path).stdout)

    assert document["saved_bytes"] == 4 * LAYER


@pytest.mark.parametrize("by", ["line", "module", "operation", "dtype", "storage"])
def test_each_table_can_be_had_alone(by: str, folder: Path) -> None:
    run = gradviz("memory", "run.gradviz", "--by", by, cwd=folder)

    assert run.exit_code == 0, run.stderr
    assert "24 B  100.0%" in run.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--by", "modules"], "did you mean 'module'?"),
        (["-o", "memory.pdf"], "a treemap is an .svg"),
        (["-o", "train.py"], "does not end in .svg"),
        (["--json", "--by", "line"], "--by chooses a table"),
        (["--json", "--rows", "3"], "--rows chooses a table"),
        (["--json", "--backward", "all"], "pick one with --backward N"),
    ],
)
def test_wrong_options_are_refused_before_the_script_runs(arguments: list[str], words: str, folder: Path) -> None:
    assert words in refused("memory", "train.py", *arguments, cwd=folder)


def test_a_capture_from_before_saved_tensors_is_refused_and_not_called_empty(folder: Path) -> None:
    capture = load_capture(folder / "run.gradviz")
    old = replace(capture.graphs[0], knows_saved_tensors=False)
    (folder / "old.gradviz").write_bytes(write_capture(replace(capture, graphs=(old,))))

    assert "record the script again" in refusal(gradviz("memory", "old.gradviz", cwd=folder))


def test_a_crash_in_backward_still_says_what_was_kept(tmp_path: Path) -> None:
    script = written_script(tmp_path, CRASH)

    run = gradviz("memory", script, cwd=tmp_path)

    assert run.exit_code == 1
    if SHOWS_SLOTS:
        assert "3.91 KiB kept until backward 1" in run.stdout
    else:
        assert "a tensor whose memory torch does not show" in run.stdout
    assert "modified by an inplace operation" in run.stderr
