"""Lines of uncompiled code, inside a compiled function, that cut off gradients: what was noted of them."""

from __future__ import annotations

import weakref
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, field

import torch

from gradviz.graph.compilations import GradientCut
from gradviz.recording.forward.tensor_names import ModuleNames

_MEANT = frozenset({"torch.Tensor.detach", "torch.Tensor.detach_", "torch.Tensor.data", "torch.no_grad"})
"""Whoever writes these wants no gradient; the others are often there for something else, such as to print a number."""
_RANKS = {"torch.Tensor.tolist": 2, "torch.Tensor.numpy": 2, "torch.Tensor.item": 3}
_MAX_TIMES = 4
"""A line may cut off other parameters each time that it runs; so many times it is looked at."""


@dataclass
class NotedCut:
    """One of these lines."""

    function: str
    file: str
    line: int
    is_grad_off: bool
    _times: int = 0
    _leaves: dict[int, weakref.ref[torch.Tensor]] = field(default_factory=dict)
    """By ``id()``, what gets no gradient there."""
    parameters: dict[str, None] = field(default_factory=dict)
    """The names of those that got no gradient in the backward that followed."""

    @property
    def is_open(self) -> bool:
        """Whether it is to be looked at once more."""
        return self._times < _MAX_TIMES

    def add(self, leaves: Iterable[torch.Tensor]) -> None:
        """It ran, and cut these off."""
        self._times += 1
        self._leaves.update((id(leaf), weakref.ref(leaf)) for leaf in leaves)

    def take_names(self, names: ModuleNames, reached: Container[int]) -> None:
        """Note what the leaves are called that a backward does not reach, and forget them."""
        for key, leaf in self._leaves.items():
            if leaf() is not None and key not in reached and names.parameters.get(key):
                self.parameters[names.parameters[key][0]] = None
        self._leaves.clear()


class NotedCuts:
    """Those of one recording."""

    def __init__(self) -> None:
        self._cuts: dict[tuple[str, str, int], NotedCut] = {}

    def at(self, function: str, file: str, line: int, *, is_grad_off: bool) -> NotedCut:
        """What is noted of a function that is called at a line."""
        key = function, file, line
        if key not in self._cuts:
            self._cuts[key] = NotedCut(*key, is_grad_off)
        return self._cuts[key]

    def take_names(self, names: ModuleNames, reached: Container[int]) -> None:
        """A backward reaches the leaves with these ids."""
        for cut in self._cuts.values():
            cut.take_names(names, reached)

    def cuts(self) -> Iterator[GradientCut]:
        """Each parameter with the line that is to blame: what leaves as a number is often only printed."""
        told: set[str] = set()
        for each in sorted(self._cuts.values(), key=_rank):
            parameters = tuple(name for name in each.parameters if name not in told)
            told.update(parameters)
            if parameters:
                yield GradientCut(each.function, parameters, each.file, each.line, each.is_grad_off)


def _rank(cut: NotedCut) -> int:
    return 0 if cut.function in _MEANT else _RANKS.get(cut.function, 1)
