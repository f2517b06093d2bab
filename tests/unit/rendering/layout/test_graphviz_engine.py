"""``--engine dot``: Graphviz's positions in our own picture."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from itertools import combinations
from typing import Any

import pytest

from gradviz.errors import GradvizError, MissingDependency
from gradviz.rendering.layout.graphviz_engine import lay_out_with_dot
from gradviz.rendering.look.geometry import Direction, Layout
from gradviz.rendering.look.node_label import node_labels_of
from tests.unit.rendering import views
from tests.unit.rendering.layout.test_graphlay_engine import overlap, touches
from tests.unit.rendering.views import Sketch

needs_dot = pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz is not installed")


def laid_out(sketch: Sketch, direction: Direction = "TB") -> Layout:
    view = sketch.view()
    return lay_out_with_dot(view, node_labels_of(sketch.graph(), view, tuple(sketch.texts)), direction)


@needs_dot
@pytest.mark.parametrize("sketch", [views.tiny, views.perceptron, views.transformer_block, views.every_role])
@pytest.mark.parametrize("direction", ["TB", "LR"])
def test_items_do_not_overlap_and_routes_arrive(sketch: Callable[[], Sketch], direction: Direction) -> None:
    made = sketch()
    layout = laid_out(made, direction)
    for siblings in made.view().children().values():
        assert not any(overlap(layout.boxes[a.id], layout.boxes[b.id]) for a, b in combinations(siblings, 2))
    for link, route in zip(made.links, layout.routes, strict=True):
        assert touches(route[0], layout.boxes[link.source]) and touches(route[-1], layout.boxes[link.target])


def test_a_missing_program_is_named_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(MissingDependency, match="`dot` program is not installed; install it"):
        laid_out(views.tiny())


def test_a_layout_that_takes_too_long_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(*_: Any, **__: Any) -> None:
        raise subprocess.TimeoutExpired("dot", 60)

    monkeypatch.setattr(subprocess, "run", slow)
    with pytest.raises(GradvizError, match="found no layout within 60 seconds"):
        laid_out(views.tiny())


def test_the_error_of_the_program_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: Any, **__: Any) -> None:
        raise subprocess.CalledProcessError(1, "dot", stderr=b"Error: out of memory\n")

    monkeypatch.setattr(subprocess, "run", failing)
    with pytest.raises(GradvizError, match="out of memory"):
        laid_out(views.tiny())
