"""The table of a gradient flow: a row for each parameter or module, with a bar on a log scale."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from math import ceil, floor, log10
from statistics import geometric_mean

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from gradviz.analysis.flow.gradient_flow import FlowRow, GradientFlow, Trend, deepest_that_fits, folded, gradient_flow
from gradviz.analysis.flow.shared_weights import shared_weights
from gradviz.capture.capture import Capture
from gradviz.graph.model import Graph, Node
from gradviz.graph.query.operation_names import autograd_name
from gradviz.graph.query.own_line import line_words
from gradviz.graph.root_shares import RootShares
from gradviz.rendering.reports.exchange_table import exchange_table
from gradviz.rendering.reports.loss_table import conflicts, loss_table
from gradviz.rendering.reports.terminal_tables import (
    MAX_ROWS,
    TableLook,
    empty_table,
    printed,
    shortened_paths,
    wrapped,
)
from gradviz.rendering.words.common_words import counted, listed
from gradviz.rendering.words.run_log_words import trend_words

MAX_SHARED = 3
"""How many shared weights are reported."""
MAX_NAMES = 6
"""How many parameters without a gradient are named for each reason."""
_BAR_WIDTH = 16
_MAX_STEADY_FACTOR = 10
"""A gradient that changes over depth by a smaller factor than this is called steady."""
_PROFILE = "input {} loss"
_MAX_REACH = 4
"""How many neighbours on each side smooth the profile."""
_MAKERS = {"sum": "where branches are summed for", "hook": "by a hook on what arrived at"}
_EIGHTHS = " ▏▎▍▌▋▊▉█"


@dataclass(frozen=True)
class FlowContent:
    """What one table shows."""

    title: str
    flow: GradientFlow
    remarks: tuple[tuple[str, str], ...] = ()
    """Sentences, each with its style."""
    disclosures: tuple[str, ...] = ()
    shares: RootShares | None = None
    exchanged: Graph | None = None
    """The graph, if ranks exchanged something for its parameters."""


@dataclass(frozen=True, slots=True)
class FlowTable:
    """Prints gradient flows."""

    look: TableLook

    def text(self, capture: Capture, graphs: Sequence[Graph]) -> str:
        """The tables of all graphs, one below the other."""
        return "\n".join(self.text_of(_content(capture, graph)) for graph in graphs)

    def text_of(self, content: FlowContent) -> str:
        """One table, and sentences about it."""
        return printed(self._parts(content), self.look.width, color=self.look.color)

    def _parts(self, content: FlowContent) -> Iterator[RenderableType]:
        flow, depth = content.flow, self.look.depth
        if depth is None and not self.look.show_all:
            depth = deepest_that_fits(flow.rows, MAX_ROWS)
        rows = list(flow.rows) if depth is None else folded(flow.rows, depth)
        reached = [row for row in rows if row.count]
        yield Text(content.title, style="bold")
        if reached:
            yield self._table(reached)
        if flow.trend is not None:
            yield Text("\n" + self._profile(flow.profile))
            is_steep = flow.trend.verdict != "steady"
            yield wrapped(_verdict(flow.trend), self.look.width, "bold yellow" if is_steep else "")
        if flow.closed_regions:
            inside = counted(flow.closed_regions, "compiled function")
            words = f"the depth of parameters inside {inside} is not known: whether the gradient vanishes is not judged"
            yield wrapped(words, self.look.width, "")
        if content.shares is not None:
            yield from self._losses(content.shares, rows)
        if content.exchanged is not None:
            by = listed(list(dict.fromkeys(each.by for each in content.exchanged.exchanges)), MAX_NAMES)
            yield Text()
            yield wrapped(f"exchanged with other ranks by {by}", self.look.width, "bold")
            yield exchange_table(content.exchanged)
        for remark, style in content.remarks:
            yield wrapped(remark, self.look.width, style)
        if len(rows) < len(flow.rows):
            hidden = sum(row.parameters for row in rows if row.shape is None)
            folded_away = f"{hidden:,} of {len(flow.rows):,} parameters are folded into modules"
            more = "--all shows every one, --depth N opens fewer or more levels"
            yield wrapped(f"{folded_away}; {more}", self.look.width, "dim")
        for sentence in content.disclosures:
            yield wrapped(f"not recorded: {sentence}", self.look.width, "yellow")

    def _losses(self, shares: RootShares, rows: Sequence[FlowRow]) -> Iterator[RenderableType]:
        names = listed([loss.name for loss in shares.losses], len(shares.losses))
        yield Text()
        yield wrapped(
            f"what each of {len(shares.losses)} losses adds to each gradient: {names}", self.look.width, "bold"
        )
        yield loss_table(shares, rows, self.look.width, self.look.ellipsis)
        for sentence in conflicts(shares, rows):
            yield wrapped(sentence, self.look.width, "")

    def _table(self, rows: Sequence[FlowRow]) -> Table:
        scale = _Scale.of(rows)
        has_broken = any(row.nans or row.infs for row in rows)
        table = empty_table()
        table.add_column("parameter", no_wrap=True)
        table.add_column("shape", no_wrap=True, max_width=16, overflow="ellipsis")
        table.add_column("norm", justify="right", no_wrap=True)
        is_reduced = any(row.reduced_by for row in rows)
        if is_reduced:
            table.add_column(".grad", justify="right", no_wrap=True)
        table.add_column("/weight", justify="right", no_wrap=True)
        table.add_column("zeros", justify="right", no_wrap=True)
        if has_broken:
            table.add_column("NaN/Inf", justify="right", no_wrap=True, style="bold red")
        table.add_column(scale.title, no_wrap=True, width=_BAR_WIDTH)
        cells = [[_shape(row), *_figures(row, is_reduced=is_reduced), *_broken(row) * has_broken] for row in rows]
        names = shortened_paths([row.name for row in rows], self._name_width(table, cells), self.look.ellipsis)
        for row, name, others in zip(rows, names, cells, strict=True):
            table.add_row(name, *others, self._bar(row, scale), style=_style(row))
        return table

    def _name_width(self, table: Table, cells: Sequence[Sequence[str]]) -> int:
        """What the other columns leave, each as wide as its longest cell."""
        width = self.look.width
        others = [column for column in table.columns[1:] if column.width is None]
        taken = sum(
            min(max(len(str(column.header)), *(len(row[index]) for row in cells)), column.max_width or width) + 2
            for index, column in enumerate(others)
        )
        return max(18, width - taken - 2 - _BAR_WIDTH)

    def _bar(self, row: FlowRow, scale: _Scale) -> str:
        if row.is_zero:
            return "all zero"
        if not row.norm:
            return "not finite"
        eighths = max(1, round(scale.part(row.norm) * _BAR_WIDTH * 8))
        if self.look.only_ascii:
            return "#" * max(1, eighths // 8)
        return ("█" * (eighths // 8) + _EIGHTHS[eighths % 8]).strip()

    def _profile(self, profile: Sequence[float]) -> str:
        """Sizes from the input to the loss as a line of blocks; if there are too many, some are left out."""
        profile = _smooth(profile)
        shown = min(len(profile), self.look.width - len(_PROFILE.format("")))
        sizes = [log10(profile[index * len(profile) // shown]) for index in range(shown)]
        low, levels = min(sizes), self.look.levels
        step = (len(levels) - 1) / max(max(sizes) - low, 1)
        return _PROFILE.format("".join(levels[round((size - low) * step)] for size in sizes))


def _smooth(profile: Sequence[float]) -> list[float]:
    """The mean of each value and its neighbours: the layers of one block have sizes of their own, which alternate."""
    reach = min(_MAX_REACH, len(profile) // 6)
    return [geometric_mean(profile[max(at - reach, 0) : at + reach + 1]) for at in range(len(profile))]


def _verdict(trend: Trend) -> str:
    word = trend.verdict.upper()
    if trend.verdict == "steady":
        word = "steady" if 1 / _MAX_STEADY_FACTOR <= trend.factor <= _MAX_STEADY_FACTOR else "within bounds"
    sizes = f"root mean square {trend.near_loss:.1e}, then {trend.near_input:.1e}"
    return f"{word}: {trend_words(trend)} ({sizes})"


@dataclass(frozen=True)
class _Scale:
    """The log scale of the bars, from 10**low to 10**high."""

    low: int
    high: int

    @classmethod
    def of(cls, rows: Sequence[FlowRow]) -> _Scale:
        logs = [log10(row.norm) for row in rows if row.norm]
        low = floor(min(logs, default=0))
        return cls(low, max(ceil(max(logs, default=0)), low + 1))

    @property
    def title(self) -> str:
        left, right = f"1e{self.low}", f"1e{self.high}"
        return left + " " * (_BAR_WIDTH - len(left) - len(right)) + right

    def part(self, norm: float) -> float:
        return (log10(norm) - self.low) / (self.high - self.low)


def _content(capture: Capture, graph: Graph) -> FlowContent:
    flow = gradient_flow(capture, graph)
    remarks = (*_remarks(flow, graph), *_flat_parameters(capture))
    exchanged = graph if graph.exchanges else None
    return FlowContent(_title(capture, graph), flow, remarks, capture.disclosures, graph.root_shares, exchanged)


def _title(capture: Capture, graph: Graph) -> str:
    call = graph.backward
    which = f"{call.function} {call.number}{_at(graph, call.call_site)}" if call is not None else "graph"
    return f"gradients of {which} in {capture.title}"


def _shape(row: FlowRow) -> str:
    if row.shape is None:
        return counted(row.parameters, "tensor")
    return "×".join(map(str, row.shape)) or "scalar"


def _figures(row: FlowRow, *, is_reduced: bool) -> list[str]:
    share = row.zeros / row.count
    zeros = "" if not row.zeros else "<0.1%" if share < 1e-3 else f"{min(share, 0.999):.1%}"
    if row.is_zero:
        zeros = "100%"
    reduced = [_number(row.reduced_norm)] if is_reduced else []
    return [_number(row.norm), *reduced, _number(row.ratio), zeros]


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return "0" if value == 0 else f"{value:.3g}" if 1e-3 <= value < 1e4 else f"{value:.1e}"


def _style(row: FlowRow) -> str:
    return "bold red" if row.nans or row.infs else "yellow" if row.is_zero else ""


def _broken(row: FlowRow) -> list[str]:
    return [f"{row.nans:,}/{row.infs:,}" if row.nans or row.infs else ""]


_REDUCED_BY_OTHERS = (
    "norm is of this rank's own gradient; .grad is what the optimizer sees: {} made it of the gradients of all ranks"
)
_OF_THE_SHARD = _REDUCED_BY_OTHERS + "; it is the norm of the shard on this rank"
_REDUCED = {"fully_shard": _OF_THE_SHARD, "FullyShardedDataParallel": _OF_THE_SHARD}


def _remarks(flow: GradientFlow, graph: Graph) -> Iterator[tuple[str, str]]:
    failed = graph.failed_node
    if failed is not None:
        yield f"backward failed in {_node_words(graph, graph.nodes[failed])}", "bold red"
    if flow.first_nan is not None:
        maker = _MAKERS.get(flow.first_nan_by or "node", "by")
        yield f"NaN or Inf first made {maker} {_node_words(graph, graph.nodes[flow.first_nan])}", "bold red"
    lost: dict[int, list[str]] = {}
    for row in flow.rows:
        if row.lost_at is not None:
            lost.setdefault(row.lost_at, []).append(row.name)
    for node, names in lost.items():
        yield f"all zero since {_node_words(graph, graph.nodes[node])}: {listed(names, MAX_NAMES)}", "yellow"
    for reducer in dict.fromkeys(row.reduced_by for row in flow.rows if row.reduced_by):
        yield _REDUCED.get(reducer, _REDUCED_BY_OTHERS).format(reducer), ""
    older = [row.name for row in flow.rows if row.outcome == "accumulated"]
    if older:
        yield f"added to a .grad from before, which is not counted here: {listed(older, MAX_NAMES)}", ""
    for shared in islice(shared_weights(graph), MAX_SHARED):
        name = next(iter(shared.leaf.names), "a parameter")
        parts = [f"{share:.0%} from {_use_words(graph, node)}" for node, share in shared.uses]
        yield f"{name} is used in {len(parts)} places: {listed(parts, len(parts))}", ""
    yield from silent_remarks(flow)


def _flat_parameters(capture: Capture) -> Iterator[tuple[str, str]]:
    """Of what `FullyShardedDataParallel` has made each flat parameter."""
    parts: dict[str, list[str]] = {}
    for parameter in capture.parameters:
        if parameter.part_of:
            parts.setdefault(parameter.part_of, []).append(parameter.names[0])
    for flat, names in parts.items():
        yield f"{flat} is made of {listed(names, MAX_NAMES)}", ""


def silent_remarks(flow: GradientFlow) -> Iterator[tuple[str, str]]:
    """For each reason, which parameters got no gradient; with the style of the sentence."""
    silent: dict[str, list[str]] = {}
    for row in flow.rows:
        if row.nothing is not None:
            silent.setdefault(row.nothing, []).append(row.name)
    for reason, names in silent.items():
        yield f"no gradient, {reason}: {listed(names, MAX_NAMES)}", "yellow"


def _node_words(graph: Graph, node: Node) -> str:
    return f"{autograd_name(node)}{_at(graph, node.call_site)}"


def _use_words(graph: Graph, node: Node) -> str:
    """The module that used a weight, or the operation and its line."""
    return graph.scopes[node.scope].path if node.scope is not None else _node_words(graph, node)


def _at(graph: Graph, call_site: int | None) -> str:
    return "" if call_site is None else f" at {line_words(graph.call_sites[call_site])}"
