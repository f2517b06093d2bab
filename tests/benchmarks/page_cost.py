"""What the page of an irregular graph takes for each node: time, memory beyond the graph's own, bytes of the file."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.benchmarks.measuring import Row, cost_of_python

NODES = (30_000, 200_000, 1_000_000)


def measure() -> Iterator[Row]:
    program = ["-m", "tests.benchmarks.programs.irregular_page"]
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "page.html"
        for nodes in NODES:
            graph = cost_of_python([*program, str(nodes)])
            drawn = cost_of_python([*program, str(nodes), page])
            seconds, memory, size = drawn.seconds - graph.seconds, drawn.peak - graph.peak, page.stat().st_size
            yield Row(
                f"{nodes:,} nodes",
                seconds,
                f"{seconds / nodes * 1e6:.0f} µs, {memory / nodes / 1e3:.1f} kB of memory and {size / nodes:.0f} bytes "
                f"of the file a node; at most {drawn.peak / 1e9:.1f} GB, {size / 1e6:.0f} MB",
            )
