"""The picture of a run log: a heat map, module by step."""

from __future__ import annotations

from math import nan
from xml.etree import ElementTree

import pytest

from gradviz.rendering.look.geometry import Rect
from gradviz.rendering.svg.flow_chart import MAX_ROWS, FlowChartRenderer
from gradviz.rendering.svg.heat_map import MAX_COLUMNS, Columns, LogScale, cells
from tests.run_logs import BROKEN, run_log

LOG = run_log(
    {
        "embed": [(1e-9, 0), (1e-8, 0), (nan, 0)],
        "dying": [(1.0, 0), (0.0, 4), (0.0, 4)],
        "head </script>": [(1.0, 0), (10.0, 1), BROKEN],
    }
)
SVG = "{http://www.w3.org/2000/svg}"


def parsed(svg: str) -> ElementTree.Element:
    return ElementTree.fromstring(svg)


def texts(root: ElementTree.Element) -> list[str]:
    return ["".join(text.itertext()) for text in root.iter(f"{SVG}text")]


@pytest.mark.parametrize("theme", ["auto", "light", "dark"])
def test_the_picture_names_rows_steps_and_problems(theme: str) -> None:
    root = parsed(FlowChartRenderer(theme=theme).render(LOG))  # type: ignore[arg-type]
    words = texts(root)
    assert {"embed", "dying", "head </script>", "step 1", "NaN or Inf", "all zero", "no gradient"} <= set(words)
    assert "NaN or Inf first at step 20: head </script>" in words
    assert "all zero since step 10: dying" in words
    drawn = {path.get("class") for path in root.iter(f"{SVG}path")}
    assert {"bad", "dead", "s0", "u"} <= drawn


def test_a_run_without_zeros_has_no_map_of_zeros_and_no_legend_for_it() -> None:
    words = texts(parsed(FlowChartRenderer().render(run_log({"a": [(1.0, 0), (2.0, 0)]}))))
    assert not {"zeros in the gradient", "NaN or Inf", "all zero", "no gradient"} & set(words)


def test_the_same_log_gives_the_same_bytes() -> None:
    assert FlowChartRenderer().render(LOG) == FlowChartRenderer().render(LOG)


@pytest.mark.parametrize("figures", [[(1.0, 0)], [(nan, 0)], [(0.0, 4)], [BROKEN]])
def test_a_single_step_of_whatever_kind_is_drawn(figures: list[tuple[float, int]]) -> None:
    parsed(FlowChartRenderer().render(run_log({"a": figures})))


def test_many_parameters_are_folded_until_they_fit_and_all_shows_every_one() -> None:
    log = run_log({f"layers.{layer}.weight{each}": [(1.0, 0)] for layer in range(30) for each in range(4)})
    folded, whole = (texts(parsed(FlowChartRenderer(show_all=each).render(log))) for each in (False, True))
    assert "layers.7" in folded
    assert "layers.7.weight0" in whole
    assert sum(word.startswith("layers") for word in folded) <= MAX_ROWS


def test_no_more_columns_are_drawn_than_can_be_seen() -> None:
    columns = Columns.of(10_000)
    assert len(columns) == MAX_COLUMNS
    assert [place for span in columns.spans() for place in range(10_000)[span]] == list(range(10_000))


def test_a_row_without_changes_costs_one_rectangle() -> None:
    (path,) = cells([["s3"] * 200], Rect(0, 0, 400, 10))
    assert path == '<path class="s3" d="M0 0H400v9H0z"/>\n'


def test_a_scale_holds_all_sizes_unless_they_span_too_many_decades() -> None:
    assert LogScale.of([2e-3, 5.0]) == LogScale(-3, 1)
    assert LogScale.of([1e-40, 5.0]).high == 1
    assert LogScale.of([1e-40, 5.0]).part(1e-40) == 0.0
    assert LogScale.of([]).part(1.0) == 0.0
