"""The cost of each line of the user's code, for the margin of the page's source view."""

from __future__ import annotations

from collections import defaultdict

from gradviz.analysis.memory.kept_memory import memory_of
from gradviz.graph.model import Graph, Node, Region
from gradviz.graph.query.engine_times import timed
from gradviz.graph.query.own_line import own_lines
from gradviz.rendering.page.document import PageCost
from gradviz.rendering.page.items import cut

_Line = tuple[str, int]


def page_costs(graph: Graph) -> tuple[PageCost, ...]:
    """Lines that keep memory for backward, or whose nodes the engine ran.

    The cost of a library counts for the line of the user's code that called it. Memory counts where it is kept
    first, so that the lines add up to the total.
    """
    lines = own_lines(graph)

    def line_of(made: Node | Region) -> _Line | None:
        if made.call_site is None:
            return None
        site = graph.call_sites[lines[made.call_site]]
        return site.file, site.line

    kept: defaultdict[_Line, int] = defaultdict(int)
    seconds: defaultdict[_Line, float] = defaultdict(float)
    for use in memory_of(graph).counted():
        if line := line_of(graph.nodes[use.held_by[0].node]):
            kept[line] += use.bytes
    for each in timed(graph):  # the time of compiled code is at the line that calls it
        if each.run is not None and (line := line_of(each)):
            seconds[line] += each.run.seconds
    return tuple(PageCost(cut(line[0]), line[1], kept[line], seconds[line]) for line in sorted({*kept, *seconds}))
