"""A run log as series: folds, sizes, and where gradients became zero, NaN or Inf."""

from __future__ import annotations

from math import isnan, nan, sqrt

import pytest

from gradviz.analysis.flow.flow_over_steps import depth_that_fits, flow_of_last_step, flow_over_steps
from gradviz.rendering.words.run_log_words import findings, what_is_missing
from tests.run_logs import BROKEN, run_log


def test_a_parameter_has_norms_sizes_and_shares_of_zeros_by_step() -> None:
    flow = flow_over_steps(run_log({"fc.weight": [(4.0, 0), (0.0, 16), (nan, 0), BROKEN]}, elements=16))
    (series,) = flow.series
    assert flow.steps == (1, 10, 20, 30)
    assert series.norms[:2] == (4.0, 0.0)
    assert series.sizes[:2] == (1.0, 0.0)
    assert series.zeros[:2] == (0.0, 1.0)
    assert isnan(series.norms[2]) and isnan(series.zeros[2])
    assert series.broken == (False, False, False, True)
    assert series.first_broken == 3
    assert flow.total[0] == 4.0


def test_parameters_of_a_module_fold_into_the_figures_of_all_their_elements() -> None:
    log = run_log({"net.0.weight": [(3.0, 1)], "net.0.bias": [(4.0, 3)], "net.1.weight": [(nan, 0)]}, elements=8)
    first, second = flow_over_steps(log, depth=1).series
    assert (first.name, first.parameters, first.norms, first.zeros) == ("net.0", 2, (5.0,), (0.25,))
    assert first.sizes == pytest.approx((5 / sqrt(16),))
    assert second.name == "net.1.weight"
    assert second.is_silent
    assert depth_that_fits(log, 3) is None
    assert depth_that_fits(log, 2) == 1


def test_a_gradient_that_stays_zero_to_the_end_is_dead_since_the_first_zero() -> None:
    alive, dead = (1.0, 0), (0.0, 4)
    log = run_log({"a": [dead, alive, dead, dead], "b": [dead, dead, dead, alive]})
    assert [series.dead_since for series in flow_over_steps(log).series] == [2, None]


def test_findings_name_the_first_step_and_count_the_later_ones() -> None:
    fine = (1.0, 0)
    log = run_log({"a": [fine, BROKEN, BROKEN], "b": [fine, BROKEN, fine], "c": [fine, fine, BROKEN]})
    assert list(findings(log, flow_over_steps(log))) == ["NaN or Inf first at step 10: a, b; later 1 more"]


def test_a_gradient_that_shrinks_towards_the_input_is_reported_and_an_even_one_is_not() -> None:
    vanishing = run_log({f"layers.{place}": [(10.0 ** (place - 6), 0)] for place in range(7)})
    assert list(findings(vanishing, flow_over_steps(vanishing))) == [
        "vanishing at step 1: from the loss to the input the gradient shrinks 1e+05 times"
    ]
    steady = run_log({f"layers.{place}": [(1.0, 0)] for place in range(7)})
    assert list(findings(steady, flow_over_steps(steady))) == []


def test_the_last_step_says_which_parameters_got_nothing() -> None:
    flow = flow_of_last_step(run_log({"a": [(1.0, 0), (2.0, 1)], "b": [(1.0, 0), (nan, 0)]}))
    assert [(row.name, row.norm, row.nothing) for row in flow.rows] == [
        ("a", 2.0, None),
        ("b", None, "none arrived in this step"),
    ]


def test_a_stopped_run_says_so() -> None:
    assert list(what_is_missing(run_log({"a": [(1.0, 0)]}, is_ended=False))) == [
        "the run did not end, or still goes on: steps after the last one here may be missing"
    ]
    assert not list(what_is_missing(run_log({"a": [(1.0, 0)]})))
