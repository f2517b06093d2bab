"""The content of a run log in sentences, for the terminal and for the chart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gradviz.analysis.flow.flow_over_steps import FlowOverSteps, Series, flow_of_last_step
from gradviz.analysis.flow.gradient_flow import Trend
from gradviz.capture.run_log import RunLog
from gradviz.rendering.words.common_words import counted, listed


def run_title(log: RunLog) -> str:
    """``gradients of train.py over steps 1 to 10,000``."""
    steps = log.steps
    span = f"step {steps[0].step:,}" if len(steps) == 1 else f"steps {steps[0].step:,} to {steps[-1].step:,}"
    return f"gradients of {log.header.program.name} over {span}"


def run_facts(log: RunLog) -> str:
    """How much of the run was measured."""
    scaled = ", divided by the factor of the gradient scaler" if log.header.is_unscaled else ""
    parameters = counted(len(log.header.parameters), "parameter")
    return f"{parameters} at {counted(len(log.steps), 'measured step')}, every={log.header.every:,}{scaled}"


def size_words(value: float) -> str:
    """Three digits: ``0.0123``, ``3.4e-07``."""
    return "0" if value == 0 else f"{value:.3g}" if 1e-3 <= value < 1e4 else f"{value:.1e}"


def findings(log: RunLog, flow: FlowOverSteps) -> Iterator[str]:
    """The problems that the run log shows; empty if there are none."""
    steps = flow.steps
    trend = flow_of_last_step(log).trend
    if trend is not None and trend.verdict != "steady":
        yield f"{trend.verdict} at step {steps[-1]:,}: {trend_words(trend)}"
    yield from _by_step([(each, each.first_broken) for each in flow.series], steps, "NaN or Inf first at step {}: {}")
    yield from _by_step([(each, each.dead_since) for each in flow.series], steps, "all zero since step {}: {}")
    silent = [each.name for each in flow.series if each.is_silent]
    if silent:
        yield f"no gradient in any measured step: {listed(silent)}"


def trend_words(trend: Trend) -> str:
    """How the gradient changes from the loss to the input."""
    change = f"grows {trend.factor:.2g}" if trend.factor >= 1 else f"shrinks {1 / trend.factor:.2g}"
    return f"from the loss to the input the gradient {change} times"


def what_is_missing(log: RunLog) -> Iterator[str]:
    """Why steps may be missing, and what could not be recorded."""
    if log.cut is not None:
        yield f"this run log {log.cut}; the part before that is shown"
    elif log.end is None:
        yield "the run did not end, or still goes on: steps after the last one here may be missing"
    if log.end is not None:
        yield from log.end.disclosures
    reasons = dict.fromkeys(reason for figures in log.steps for reason in figures.unmeasured)
    yield from (f"gradients could not be measured: {reason}" for reason in reasons)


def _by_step(
    series_and_indices: Sequence[tuple[Series, int | None]], steps: Sequence[int], sentence: str
) -> Iterator[str]:
    """One sentence for the earliest step; later ones are counted."""
    known = [(index, each.name) for each, index in series_and_indices if index is not None]
    if not known:
        return
    first = min(index for index, _ in known)
    names = [name for index, name in known if index == first]
    later = len(known) - len(names)
    yield sentence.format(f"{steps[first]:,}", listed(names)) + (f"; later {later:,} more" if later else "")
