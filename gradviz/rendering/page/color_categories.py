"""Colours for items of the page by category: by kind of operation, module, dtype, finding, or what differs."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from gradviz.graph.model import Graph
from gradviz.rendering.look.color_by import (
    KIND_CATEGORIES,
    STATE_CATEGORIES,
    kind_tints,
    module_categories,
    state_tints,
)
from gradviz.rendering.look.color_ramps import CATEGORIES
from gradviz.rendering.page.document import PageLegend
from gradviz.rendering.page.level import Level
from gradviz.rendering.words.flags import worst_finding
from gradviz.safe_text import printable
from gradviz.view.model import Item

PAGE_CATEGORIES = ("kind", "module", "dtype", "finding", "state")
_SEVERITIES = {"error": "broken", "warning": "category1", "note": "category0"}
"""The tint of each severity, the most severe first."""

Tinted = dict[int, tuple[str, ...]]
"""Tints by the number of an item; a folded box has one for each dtype inside it."""


class PageCategories:
    """Collects the categories of a graph's items, level by level."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._tinted: dict[str, Tinted] = {by: {} for by in PAGE_CATEGORIES}
        self._modules: tuple[tuple[str, str], ...] = ()
        self._dtypes: dict[str, int] = {}
        """Each dtype with its index, in the order of the computation."""

    def add(self, level: Level) -> None:
        """Add the items that a level shows first."""
        self._modules, modules = module_categories(level.facts)
        for item in level.closed:
            if item.root is None:
                number = level.number(item.id)
                worst = worst_finding(level.facts, item)
                if kind := kind_tints(level.facts, item):
                    self._tinted["kind"][number] = kind
                if level.facts.marks is not None:
                    self._tinted["state"][number] = state_tints(level.facts, item)
                self._tinted["module"][number] = (modules[item.id] or "plain",)
                self._tinted["dtype"][number] = tuple(self._tints_of_dtypes(item)) or ("plain",)
                self._tinted["finding"][number] = ("plain" if worst is None else _SEVERITIES[worst.severity],)

    def _tints_of_dtypes(self, item: Item) -> dict[str, None]:
        made = chain.from_iterable(self._graph.nodes[node].outputs for node in item.nodes)
        given = (self._graph.constants[constant].tensor for constant in item.constants)
        own = None if item.constant is None else self._graph.constants[item.constant].tensor
        dtypes = (tensor.dtype for tensor in (*made, *given, own) if tensor is not None)
        indices = (self._dtypes.setdefault(dtype, len(self._dtypes)) for dtype in dict.fromkeys(dtypes))
        return {f"category{min(index, CATEGORIES - 1)}": None for index in indices}

    def finished(self) -> Iterator[tuple[str, Tinted, PageLegend]]:
        """The categories by which items can be coloured, and their legends."""
        kinds = set(chain.from_iterable(self._tinted["kind"].values()))
        if kinds:
            names = tuple((tint, words) for tint, words in KIND_CATEGORIES if tint in kinds)
            yield "kind", self._tinted["kind"], PageLegend("kind", names)
        if len(self._modules) > 1:
            names = tuple((tint, printable(name)) for tint, name in self._modules)
            yield "module", self._tinted["module"], PageLegend("module", names)
        if len(self._dtypes) > 1:
            dtypes = [*self._dtypes][: CATEGORIES - 1 if len(self._dtypes) > CATEGORIES else CATEGORIES]
            more = ["other dtypes"] if len(self._dtypes) > CATEGORIES else []
            names = tuple((f"category{index}", name) for index, name in enumerate([*dtypes, *more]))
            yield "dtype", self._tinted["dtype"], PageLegend("dtype", names)
        present = set(chain.from_iterable(self._tinted["finding"].values()))
        if present != {"plain"} and present:
            names = tuple((tint, severity) for severity, tint in _SEVERITIES.items() if tint in present)
            yield "finding", self._tinted["finding"], PageLegend("finding", (*names, ("plain", "nothing found")))
        states = set(chain.from_iterable(self._tinted["state"].values()))
        if states:
            names = tuple((tint, words) for tint, words in STATE_CATEGORIES if tint in states)
            yield "state", self._tinted["state"], PageLegend("state", names)
