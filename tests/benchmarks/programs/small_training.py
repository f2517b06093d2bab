"""Ten thousand steps of a small model, which tell how much memory the process holds on the way.

Arguments: the file for the curve, and how the steps are watched: ``record``, ``last``, ``calls``, ``watch``, or not at
all.
"""

import json
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import nn

STEPS = 10_000
TOLD_AT = (100, 1_000, 2_500, 5_000, 7_500, 10_000)


def resident_mebibytes() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 2**20


def watching(way: str, model: nn.Module, folder: Path) -> Any:
    if way == "plain":
        return nullcontext()
    import gradviz

    if way == "watch":
        return gradviz.watch(model, every=100, to=folder / "run.gradviz")
    return gradviz.record(backward="last" if way == "last" else None, calls=way == "calls")


def main(curve_file: str, way: str = "plain") -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    inputs, curve = torch.randn(4, 8), []
    with watching(way, model, Path(curve_file).parent):
        for step in range(1, STEPS + 1):
            optimizer.zero_grad()
            loss = model(inputs).pow(2).mean()
            loss.backward()
            optimizer.step()
            if step in TOLD_AT:
                curve.append(resident_mebibytes())
                Path(curve_file).write_text(json.dumps(curve))


main(*sys.argv[1:])
