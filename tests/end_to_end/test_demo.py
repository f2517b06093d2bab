"""``gradviz demo``: the first command of a new user."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from msgspec.structs import replace

from gradviz.capture.capture import Capture
from gradviz.capture.capture_file import FORMAT_VERSION, load_capture
from gradviz.cli.demo import DEMO
from gradviz.graph.model import Graph
from gradviz.recording.torch_access.capabilities import works
from tests.end_to_end.command import gradviz, installed_python, refusal
from tests.end_to_end.demo_capture import recorded_sample


def test_it_shows_a_tree_and_what_to_do_next(tmp_path: Path) -> None:
    run = installed_python("-m", "gradviz", "demo", cwd=tmp_path)
    assert (run.exit_code, run.stderr) == (0, "")
    assert "loss = nn.functional.cross_entropy(logits, labels)" in run.stdout
    assert "NllLossBackward0" in run.stdout
    assert "next:  gradviz demo -o demo.svg" in run.stdout
    assert max(map(len, run.stdout.splitlines())) <= 100
    assert list(tmp_path.iterdir()) == []


def test_it_draws_to_files(tmp_path: Path) -> None:
    run = gradviz("demo", "-o", "demo.svg", "-o", "demo.dot", cwd=tmp_path)
    assert (run.exit_code, run.stdout) == (0, "wrote demo.svg\nwrote demo.dot\n")
    assert (tmp_path / "demo.svg").read_text(encoding="utf-8").startswith("<svg")
    assert "format" in refusal(gradviz("demo", "-o", "demo.sgv", cwd=tmp_path))
    assert "demo.svg" in refusal(gradviz("demo", "-o", "-", cwd=tmp_path))


@pytest.mark.parametrize("more", [(), ("--engine", "dot")])
def test_it_draws_without_the_layout_engine(more: tuple[str, ...], tmp_path: Path) -> None:
    if more and shutil.which("dot") is None:
        pytest.skip("Graphviz is not installed")
    program = "import sys; sys.modules['graphlay'] = None; from gradviz.cli import main; main()"
    files = ("demo.svg", "demo.html")[: 1 if more else 2]
    outputs = (word for file in files for word in ("-o", file))
    run = installed_python("-c", program, "render", DEMO, *outputs, *more, cwd=tmp_path)
    assert (run.exit_code, run.stderr) == (0, "")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(files)


def test_the_recording_is_what_the_sample_gives_today() -> None:
    assert DEMO.read_bytes().startswith(f"gradviz capture {FORMAT_VERSION}\n".encode())
    assert _without_versions(load_capture(DEMO)) == _without_versions(recorded_sample())


def test_the_recording_holds_no_path_of_a_machine() -> None:
    capture = load_capture(DEMO)
    files = {site.file for graph in capture.graphs for site in graph.call_sites} | set(capture.sources)
    assert files == {"mlp.py"}


def _without_versions(capture: Capture) -> Capture:
    graphs = capture.graphs if works("slots as stored") else tuple(map(_without_saved_versions, capture.graphs))
    program = replace(capture.program, torch_version="", gradviz_version="")
    return replace(capture, graphs=graphs, program=program, settings=None)  # those of the machine


def _without_saved_versions(graph: Graph) -> Graph:
    """A torch that unpacks to read compares the versions, also where others would have to make a node for it."""
    nodes = [
        replace(
            node, saved=tuple(each if each.is_changed else replace(each, saved_version=None) for each in node.saved)
        )
        for node in graph.nodes
    ]
    return replace(graph, nodes=tuple(nodes))
