"""Figures get their steps, and the ends of a scale have words."""

from __future__ import annotations

from gradviz.graph.number_words import seconds_words
from gradviz.rendering.look.scales import scale_for


def test_gradients_are_spread_over_whole_decades() -> None:
    scale = scale_for("gradient", [3e-9, 0.0, 0.4])
    assert scale is not None
    assert (scale.low_words, scale.high_words) == ("1e-9", "1")
    assert [scale.step(value) for value in (3e-9, 3e-5, 0.4)] == [0, 3, 6]


def test_gradients_that_hardly_differ_have_one_colour() -> None:
    scale = scale_for("gradient", [0.3, 0.5, 0.9])
    assert scale is not None
    assert (scale.low_words, scale.high_words) == ("1e-4", "1")
    assert {scale.step(value) for value in (0.3, 0.5, 0.9)} == {6}


def test_figures_far_below_the_largest_share_the_lowest_step() -> None:
    scale = scale_for("gradient", [1e-30, 1.0])
    assert scale is not None
    assert scale.low_words == "≤ 1e-16"
    assert scale.step(1e-30) == 0


def test_bytes_have_a_logarithmic_scale_and_time_a_linear_one() -> None:
    memory, time = scale_for("memory", [1024.0, 1024.0**2]), scale_for("time", [1e-6, 2e-3])
    assert memory is not None and time is not None
    assert (memory.low_words, memory.high_words, memory.step(32 * 1024.0)) == ("1.00 KiB", "1.00 MiB", 3)
    assert (time.low_words, time.high_words, time.step(1e-3)) == ("0", "2 ms", 3)


def test_one_figure_makes_a_scale_but_no_figure_or_zeros_do_not() -> None:
    for quantity in ("gradient", "memory", "time"):
        assert scale_for(quantity, [5.0]) is not None
        assert scale_for(quantity, [0.0]) is None


def test_seconds_are_written_in_a_suitable_unit() -> None:
    assert [seconds_words(value) for value in (3.5e-5, 1.234e-3, 2.5)] == ["35 µs", "1.23 ms", "2.5 s"]


def test_a_gradient_that_is_decades_away_from_all_others_lies_beyond_the_end() -> None:
    scale = scale_for("gradient", [1e-13, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7])
    assert scale is not None
    assert (scale.low_words, scale.high_words, scale.step(1e-13)) == ("≤ 1e-4", "1", 0)
    fading = scale_for("gradient", [10.0**-power for power in range(0, 12, 2)])
    assert fading is not None and fading.low_words == "1e-10"


def test_what_keeps_most_memory_has_the_last_colour_alone() -> None:
    scale = scale_for("memory", [8.0, 900.0, 1024.0, 1100.0, 1200.0, 1024.0**2])
    assert scale is not None
    assert (scale.low_words, scale.high_words) == ("≤ 900 B", "1.00 MiB")
    assert scale.step(1200.0) == 0 and scale.step(1024.0**2) == 6
