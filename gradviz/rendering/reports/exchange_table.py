"""The table of what a rank exchanged with the others for the parameters of a graph."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from gradviz.graph.exchanges import Exchange
from gradviz.graph.model import Graph
from gradviz.graph.number_words import byte_words, counted, seconds_words
from gradviz.rendering.reports.terminal_tables import empty_table
from gradviz.rendering.words.common_words import listed

MAX_EXCHANGES = 12
MAX_NAMES = 2


def exchange_table(graph: Graph) -> Table:
    """A row for each collective of backward, in order; those of the forward share one."""
    table = empty_table()
    for title in ("collective", "of"):
        table.add_column(title, max_width=40)
    table.add_column("bytes", justify="right", no_wrap=True)
    table.add_column("begins after step", justify="right")
    has_times = any(each.seconds is not None for each in graph.exchanges)
    for title in ("over within", "waited") if has_times else ():
        table.add_column(title, justify="right", no_wrap=True)
    runs = sum(node.run is not None for node in graph.nodes)
    before = [each for each in graph.exchanges if each.is_in_forward]
    if before:
        parameters = counted(sum(each.parameters for each in before), "parameter")
        table.add_row(
            f"{counted(len(before), before[0].kind)} in the forward",
            parameters,
            _size(before),
            "-",
            *_times(before) * has_times,
        )
    inside = sorted((each for each in graph.exchanges if not each.is_in_forward), key=_order)
    for each in inside[:MAX_EXCHANGES]:
        begins = "-" if each.after is None else f"{each.after + 1:,} of {runs:,}"
        table.add_row(_title(each), _names(graph, each), _bytes(each), begins, *_times([each]) * has_times)
    left = inside[MAX_EXCHANGES:]
    if left:
        table.add_row(f"and {len(left):,} more", "", _size(left), "", *_times(left) * has_times)
    return table


def _order(exchange: Exchange) -> int:
    return -1 if exchange.after is None else exchange.after


def _title(exchange: Exchange) -> str:
    return exchange.kind if exchange.bucket is None else f"{exchange.kind} of bucket {exchange.bucket}"


def _names(graph: Graph, exchange: Exchange) -> str:
    names = [next(iter(graph.nodes[leaf].names), "a parameter") for leaf in exchange.leaves]
    more = exchange.parameters - min(len(names), MAX_NAMES)
    return listed(names[:MAX_NAMES], MAX_NAMES) + (f" and {more:,} more" if more else "")


def _bytes(exchange: Exchange) -> str:
    sent = "" if exchange.sent is None else f" as {byte_words(exchange.sent)}"
    return f"{byte_words(exchange.bytes)}{sent}"


def _times(exchanges: Sequence[Exchange]) -> tuple[str, str]:
    """How long the longest took, and how long all of them were waited for."""
    seconds = [each.seconds for each in exchanges if each.seconds is not None]
    waited = [each.waited for each in exchanges if each.waited is not None]
    return seconds_words(max(seconds)) if seconds else "-", seconds_words(sum(waited)) if waited else "-"


def _size(exchanges: Sequence[Exchange]) -> str:
    return byte_words(sum(each.bytes for each in exchanges))
