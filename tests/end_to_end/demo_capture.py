"""Makes the recording that ``gradviz demo`` shows: ``make demo-capture``.

What depends on the machine is taken out of it, so that recording it again gives the same: paths, build numbers, what
the allocator had given out, times, and the last digits of gradients.
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec.structs import replace

from gradviz.capture.capture import Capture
from gradviz.capture.capture_file import load_capture, write_capture
from gradviz.cli.demo import DEMO
from gradviz.graph.gradients import BranchShare, TensorFigures
from gradviz.graph.model import Node
from tests.end_to_end.command import SAMPLES, gradviz

SAMPLE = SAMPLES / "mlp.py"


def recorded_sample() -> Capture:
    """The recording of the sample, without what depends on the machine."""
    with TemporaryDirectory() as folder:
        run = gradviz("record", SAMPLE, "-o", "demo.gradviz", cwd=Path(folder))
        assert run.exit_code == 0, run.stderr
        return _without_machine(load_capture(Path(folder) / "demo.gradviz"))


def _without_machine(capture: Capture) -> Capture:
    names = {str(SAMPLE.absolute()): SAMPLE.name}
    program = replace(
        capture.program,
        name=SAMPLE.name,
        python_version="",
        torch_version=capture.program.torch_version.partition("+")[0],
    )
    graphs = tuple(
        replace(
            graph,
            call_sites=tuple(replace(site, file=names.get(site.file, site.file)) for site in graph.call_sites),
            allocators=(),
            nodes=tuple(map(_node_without_machine, graph.nodes)),
            roots=tuple(replace(root, gradient=_rounded(root.gradient)) for root in graph.roots),
        )
        for graph in capture.graphs
    )
    sources = {names.get(file, file): lines for file, lines in capture.sources.items()}
    return replace(capture, program=program, graphs=graphs, sources=sources)


def _node_without_machine(node: Node) -> Node:
    leaf = node.leaf_gradient
    return replace(
        node,
        gradients=tuple(map(_rounded, node.gradients)),
        shares=tuple(map(_rounded_share, node.shares)),
        arrived=tuple(map(_rounded, node.arrived)),
        before_hooks=tuple(map(_rounded, node.before_hooks)),
        values=tuple(map(_rounded, node.values)),
        run=None if node.run is None else replace(node.run, seconds=0.0),
        leaf_gradient=leaf and replace(leaf, before=_rounded(leaf.before), after=_rounded(leaf.after)),
    )


def _rounded(figures: TensorFigures | None) -> TensorFigures | None:
    if figures is None:
        return None
    numbers = {name: getattr(figures, name) for name in ("norm", "mean", "minimum", "maximum")}
    return replace(figures, **{name: _rounded_number(number) for name, number in numbers.items() if number is not None})


def _rounded_share(branch: BranchShare | None) -> BranchShare | None:
    if branch is None:
        return None
    return BranchShare(*(None if each is None else _rounded_number(each) for each in (branch.share, branch.cosine)))


def _rounded_number(number: float) -> float:
    # A mean that should be zero is some 1e-10, another one on every machine; adding 0 makes -0 a 0.
    return round(number, 5) + 0.0


if __name__ == "__main__":
    DEMO.write_bytes(write_capture(recorded_sample()))
    sys.stdout.write(f"wrote {DEMO}\n")
