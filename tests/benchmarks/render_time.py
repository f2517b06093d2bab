"""What ``gradviz render`` adds to a script's own processor time and peak memory, up to the picture on the disk."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from tests.benchmarks.measuring import REPOSITORY, Row, cost_of_python, costs_in_turns

PROGRAMS: dict[str, list[str | Path]] = {
    "mlp": [REPOSITORY / "samples/mlp.py"],
    "GPT-2, 12 layers": [REPOSITORY / "samples/gpt2.py"],
    "ResNet-50": [REPOSITORY / "samples/resnet50.py"],
    "transformer, 96 layers": [REPOSITORY / "tests/benchmarks/programs/deep_transformer.py"],
    "RNN, 10,000 steps": [REPOSITORY / "samples/unrolled_rnn.py", "10000"],
    "chain of 200,000": [REPOSITORY / "tests/end_to_end/scripts/long_chain.py", "200000"],
}
"""Scripts that end with their first backward, so that both ways do the same work."""


def measure() -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder:
        for name, words in PROGRAMS.items():
            script, *arguments = words
            render: list[str | Path] = ["-m", "gradviz", "render", script, "-o", Path(folder) / "graph.svg", "--"]
            run = partial(cost_of_python, byte_code=Path(folder) / "byte code")
            found = costs_in_turns(
                {"python": partial(run, words), "render": partial(run, [*render, *arguments])}, turns=3
            )
            plain, drawn = found["python"], found["render"]
            yield Row(
                name,
                drawn.seconds,
                f"{plain.seconds:.2f} s under python: {drawn.seconds - plain.seconds:.2f} s added, "
                f"{drawn.seconds / plain.seconds:.2f} x; peak of {drawn.peak / 2**20:.0f} MiB, "
                f"{(drawn.peak - plain.peak) / 2**20:.0f} MiB more, {drawn.peak / plain.peak:.2f} x",
            )
