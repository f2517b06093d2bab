"""The table of a run log: a row for each parameter or module, a character for every few steps, all on one log scale."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isnan

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from gradviz.analysis.flow.flow_over_steps import FlowOverSteps, Series, depth_that_fits, flow_over_steps
from gradviz.capture.run_log import RunLog
from gradviz.rendering.reports.terminal_tables import (
    MAX_ROWS,
    TableLook,
    empty_table,
    printed,
    shortened_paths,
    wrapped,
)
from gradviz.rendering.svg.heat_map import Columns, LogScale, typical
from gradviz.rendering.words.run_log_words import findings, run_facts, run_title, size_words, what_is_missing

_MIN_SIGNS, _MAX_SIGNS = 8, 100
_BROKEN, _ZERO, _NOTHING = "!", "0", " "


@dataclass(frozen=True, slots=True)
class StepsTable:
    """Prints a run log."""

    look: TableLook

    def text(self, log: RunLog) -> str:
        """The table, and sentences about the run."""
        depth = self.look.depth
        if depth is None and not self.look.show_all:
            depth = depth_that_fits(log, MAX_ROWS)
        flow = flow_over_steps(log, depth)
        scale = LogScale.of([size for each in flow.series for size in each.sizes if size > 0])
        sentences = (wrapped(sentence, self.look.width, style) for sentence, style in self._sentences(log, flow, scale))
        parts: list[RenderableType] = [Text(run_title(log), style="bold"), self._table(flow, scale), Text(), *sentences]
        return printed(parts, self.look.width, color=self.look.color)

    def _table(self, flow: FlowOverSteps, scale: LogScale) -> Table:
        names = max((len(each.name) for each in flow.series), default=0)
        name_width = min(names, max(14, self.look.width // 3))
        signs = min(max(self.look.width - name_width - 28, _MIN_SIGNS), _MAX_SIGNS, len(flow.steps))
        columns = Columns.of(len(flow.steps), signs)
        table = empty_table()
        table.add_column("parameter", no_wrap=True)
        table.add_column("first", justify="right", no_wrap=True)
        table.add_column("last", justify="right", no_wrap=True)
        table.add_column("zeros", justify="right", no_wrap=True)
        table.add_column(_span_title(flow.steps, signs), no_wrap=True)
        shown = shortened_paths([each.name for each in flow.series], name_width, self.look.ellipsis)
        for name, each in zip(shown, flow.series, strict=True):
            table.add_row(name, *_ends(each), self._signs(each, columns, scale), style=_style(each))
        return table

    def _signs(self, series: Series, columns: Columns, scale: LogScale) -> str:
        levels = self.look.levels
        signs = []
        for span in columns.spans():
            size = typical(series.sizes[span])
            if any(series.broken[span]):
                signs.append(_BROKEN)
            elif isnan(size):
                signs.append(_NOTHING)
            else:
                signs.append(_ZERO if size == 0 else levels[min(int(scale.part(size) * len(levels)), len(levels) - 1)])
        return "".join(signs)

    def _sentences(self, log: RunLog, flow: FlowOverSteps, scale: LogScale) -> Iterator[tuple[str, str]]:
        levels = self.look.levels
        signs = [f"{levels[0]} 1e{scale.low} to {levels[-1]} 1e{scale.high}"]
        if any(any(each.broken) for each in flow.series):
            signs.append(f"{_BROKEN} NaN or Inf")
        if any(0.0 in each.sizes for each in flow.series):
            signs.append(f"{_ZERO} all zero")
        yield f"size of the gradient, root mean square: {', '.join(signs)}", "dim"
        yield from ((sentence, "bold yellow") for sentence in findings(log, flow))
        yield run_facts(log), ""
        folded = sum(each.parameters for each in flow.series if each.parameters > 1)
        if folded:
            total = len(log.header.parameters)
            yield f"{folded:,} of {total:,} parameters are folded into modules; --all shows every one", "dim"
        yield from ((sentence, "yellow") for sentence in what_is_missing(log))


def _span_title(steps: Sequence[int], width: int) -> str:
    first, last = f"step {steps[0]:,}", f"{steps[-1]:,}"
    return first + last.rjust(width - len(first)) if width > len(first) + len(last) else first


def _ends(series: Series) -> tuple[str, str, str]:
    """Size at the first and the last step, and the share of zeros at the last."""
    zeros = series.zeros[-1]
    share = "" if isnan(zeros) or zeros == 0 else "<0.1%" if zeros < 1e-3 else f"{zeros:.0%}"
    return _size(series, 0), _size(series, -1), share


def _size(series: Series, index: int) -> str:
    size = series.sizes[index]
    return ("NaN" if series.broken[index] else "-") if isnan(size) else size_words(size)


def _style(series: Series) -> str:
    return "bold red" if series.first_broken is not None else "yellow" if series.dead_since is not None else ""
