"""Makes the recording that ``gradviz demo`` shows: ``make demo-capture``.

What depends on the machine is taken out of it, so that recording it again gives the same: paths, build numbers, and
what the allocator had given out.
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec.structs import replace

from gradviz.capture.capture import Capture
from gradviz.capture.capture_file import load_capture, write_capture
from gradviz.cli.demo import DEMO
from tests.end_to_end.command import SAMPLES, gradviz

SAMPLE = SAMPLES / "mlp.py"


def recorded_sample() -> Capture:
    """What the sample gives today, without what depends on the machine."""
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
        )
        for graph in capture.graphs
    )
    sources = {names.get(file, file): lines for file, lines in capture.sources.items()}
    return replace(capture, program=program, graphs=graphs, sources=sources)


if __name__ == "__main__":
    DEMO.write_bytes(write_capture(recorded_sample()))
    sys.stdout.write(f"wrote {DEMO}\n")
