"""Positions from Graphviz's `dot` program, if it is installed and chosen: ``--engine dot``.

The program gets empty boxes of the final sizes, and its answer is read as JSON. So the picture has the same words,
colours and outlines as with the built-in engine. Orthogonal splines are not used: they crash Graphviz 2.43.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from gradviz.errors import GradvizError, MissingDependency
from gradviz.rendering.look.geometry import Direction, Layout, Point, Rect, Route
from gradviz.rendering.look.node_label import HEADER_HEIGHT, NodeLabel
from gradviz.view.model import Item, View

TIME_LIMIT = 60
"""Seconds. `dot` slows down steeply: a layout that takes longer than this often takes hours."""
POINTS_PER_INCH = 72
CURVE_STEPS = 6
"""Straight pieces for each Bézier piece of a route."""


def lay_out_with_dot(view: View, node_labels: Sequence[NodeLabel], direction: Direction = "TB") -> Layout:
    """The same as `graphlay_engine.lay_out`, by Graphviz."""
    return _read(_run_dot(_source(view, node_labels, direction)), view, node_labels)


def check_that_dot_is_there() -> None:
    """Raise `MissingDependency` if it is missing: better before a long run than after it."""
    if shutil.which("dot") is None:
        raise _missing_dot()


def _missing_dot() -> MissingDependency:
    return MissingDependency(
        "Graphviz's `dot` program is not installed",
        hint="install it (for instance `apt install graphviz`), or leave out --engine",
    )


def _run_dot(source: str) -> dict[str, Any]:
    try:
        finished = subprocess.run(
            ["dot", "-Tjson"], input=source.encode(), capture_output=True, timeout=TIME_LIMIT, check=True
        )
    except FileNotFoundError:
        raise _missing_dot() from None
    except subprocess.TimeoutExpired:
        raise GradvizError(
            f"Graphviz's `dot` found no layout within {TIME_LIMIT} seconds",
            hint="leave out --engine, or fold more of the graph",
        ) from None
    except subprocess.CalledProcessError as failure:
        said = failure.stderr.decode(errors="replace").strip().splitlines()
        reason = said[-1] if said else f"exit code {failure.returncode}"
        raise GradvizError(f"Graphviz's `dot` failed: {reason}", hint="leave out --engine") from None
    answer: dict[str, Any] = json.loads(finished.stdout)
    return answer


def _source(view: View, node_labels: Sequence[NodeLabel], direction: Direction) -> str:
    """Empty boxes and edges. Names are numbers, so nothing needs quoting."""
    lines = [
        f"digraph {{ graph [rankdir={direction} nodesep=0.35 ranksep=0.4]",
        'node [shape=box fixedsize=true label=""] edge [arrowhead=none]',
    ]
    lines += _nested_statements(view, node_labels)
    lines += [
        f"i{link.source} -> i{link.target} [comment={number}]"
        for number, link in enumerate(view.links)
        if not (view.items[link.source].is_open or view.items[link.target].is_open)
    ]
    return "\n".join([*lines, "}"])


def _nested_statements(view: View, node_labels: Sequence[NodeLabel]) -> Iterator[str]:
    children = view.children()
    waiting: list[Item | None] = list(reversed(children.get(None, [])))
    while waiting:
        item = waiting.pop()
        if item is None:
            yield "}"
        elif item.is_open:
            # An empty label of the header's size reserves space for the title.
            size = f'width="{node_labels[item.id].width:g}" height="{HEADER_HEIGHT - 12:g}"'
            header = f'<<TABLE BORDER="0" CELLBORDER="0" CELLPADDING="0"><TR><TD {size}></TD></TR></TABLE>>'
            yield f"subgraph cluster_{item.id} {{ graph [label={header} margin=12]"
            waiting += [None, *reversed(children.get(item.id, []))]
        else:
            node_label = node_labels[item.id]
            width, height = node_label.width / POINTS_PER_INCH, node_label.height / POINTS_PER_INCH
            yield f"i{item.id} [width={width:.4f} height={height:.4f}]"


def _read(answer: dict[str, Any], view: View, node_labels: Sequence[NodeLabel]) -> Layout:
    _, _, width, height = map(float, answer["bb"].split(","))
    boxes = [Rect(0, 0, 0, 0)] * len(view.items)
    for thing in answer.get("objects", ()):
        if "nodes" in thing or thing["name"].startswith("cluster_"):
            left, low, right, high = map(float, thing["bb"].split(","))
            boxes[int(thing["name"].removeprefix("cluster_"))] = _rect(left, height - high, right - left, high - low)
        else:
            item = int(thing["name"][1:])
            x, y = map(float, thing["pos"].split(","))
            node_label = node_labels[item]
            boxes[item] = _rect(
                x - node_label.width / 2, height - y - node_label.height / 2, node_label.width, node_label.height
            )
    routes: list[Route] = [()] * len(view.links)
    for edge in answer.get("edges", ()):
        routes[int(edge["comment"])] = _curve(edge["pos"], height)
    return Layout(round(width, 1), round(height, 1), tuple(boxes), tuple(routes))


def _rect(x: float, y: float, width: float, height: float) -> Rect:
    return Rect(round(x, 1), round(y, 1), round(width, 1), round(height, 1))


def _curve(spline: str, height: float) -> Route:
    """A chain of cubic Bézier pieces as short straight ones, with y pointing down."""
    points = [Point(*map(float, pair.split(",")[-2:])) for pair in spline.split() if not pair.startswith(("s", "e"))]
    curve = [points[0]]
    for first in range(0, len(points) - 3, 3):
        curve += [_bezier(points[first : first + 4], step / CURVE_STEPS) for step in range(1, CURVE_STEPS + 1)]
    return tuple(Point(round(x, 1), round(height - y, 1)) for x, y in curve)


def _bezier(points: Sequence[Point], at: float) -> Point:
    while len(points) > 1:
        points = [Point(a.x + (b.x - a.x) * at, a.y + (b.y - a.y) * at) for a, b in pairwise(points)]
    return points[0]
