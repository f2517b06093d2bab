"""How hooks on tensors changed the gradients that they got."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from functools import cached_property
from typing import Literal

from msgspec import Struct

from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.graph.call_log import Call, Definition
from gradviz.graph.gradients import TensorFigures, at_index
from gradviz.graph.model import Graph, Node

Alteration = Literal["not_finite", "zero", "constant", "without_sign", "shrunk", "masked", "changed"]
"""The worst first. ``without_sign``: no element is negative any more, and none became zero; ``shrunk``: almost nothing
is left; ``masked``: some elements are zero that were not, and none is larger; ``changed``: any other change. The last
two are the purpose of hooks."""

MODULE_HOOK = "BackwardHookFunctionBackward"
"""The node at which torch calls the hooks of a module."""
_REGISTER_ON_GRAD = "torch.Tensor.register_post_accumulate_grad_hook"
_REGISTER = frozenset({"torch.Tensor.register_hook", _REGISTER_ON_GRAD})
_REGISTER_ON_MODULE = "torch.nn.Module.register_full_backward_hook"
_SAME = 1e-3
_MAX_SHRUNK = 1e-3
"""Of a norm that was not large before."""
_MAX_USUAL_NORM = 1e3


class HookedGradient(Struct, frozen=True):
    """A gradient that hooks changed."""

    node: Node
    output: int
    before: TensorFigures
    after: TensorFigures
    alteration: Alteration

    @property
    def factor(self) -> float | None:
        """The size of the gradient after the hooks, divided by its size before."""
        return None if not self.before.norm or self.after.norm is None else self.after.norm / self.before.norm


def hooked_gradients(graph: Graph) -> Iterator[HookedGradient]:
    """The gradients of a graph that hooks changed, in order of creation."""
    for node in graph.nodes:
        befores, afters = _around_hooks(node)
        for output, before in enumerate(befores):
            after = at_index(afters, output)
            if before is not None and after is not None and before.is_measured and after.is_measured:
                alteration = _alteration(before, after)
                if alteration is not None:
                    yield HookedGradient(node, output, before, after, alteration)


def _around_hooks(node: Node) -> tuple[tuple[TensorFigures | None, ...], tuple[TensorFigures | None, ...]]:
    """The gradients that hooks got, and the results. For a module with hooks torch inserts a node that changes
    nothing."""
    if node.name == MODULE_HOOK:
        return node.arrived, node.gradients
    return node.before_hooks, node.arrived


def _alteration(before: TensorFigures, after: TensorFigures) -> Alteration | None:
    if _figures(before) == _figures(after) or before.nans or before.infs:
        return None
    if after.nans or after.infs:
        return "not_finite"
    if after.is_zero:
        return "zero"
    if after.count > 1 and after.minimum == after.maximum and before.minimum != before.maximum:
        return "constant"
    if _lost_its_sign(before, after):
        return "without_sign"
    if _is_almost_gone(before, after):
        return "shrunk"
    return "masked" if _is_masked(before, after) else "changed"


def _is_masked(before: TensorFigures, after: TensorFigures) -> bool:
    if before.minimum is None or before.maximum is None or after.minimum is None or after.maximum is None:
        return False
    is_within = min(before.minimum, 0) <= after.minimum and after.maximum <= max(before.maximum, 0)
    return after.zeros > before.zeros and is_within


def _is_almost_gone(before: TensorFigures, after: TensorFigures) -> bool:
    """Whether almost nothing is left of a gradient that was not too large."""
    if not before.norm or after.norm is None or before.norm > _MAX_USUAL_NORM:
        return False
    return after.norm < _MAX_SHRUNK * before.norm


def _figures(figures: TensorFigures) -> tuple[object, ...]:
    return figures.norm, figures.mean, figures.minimum, figures.maximum, figures.zeros, figures.nans, figures.infs


def _lost_its_sign(before: TensorFigures, after: TensorFigures) -> bool:
    """Whether elements of both signs became sizes, or squares, or averages of these: none is negative any more, and
    none was set to zero for it, as guided backpropagation does."""
    if before.minimum is None or before.maximum is None or after.minimum is None or not before.norm:
        return False
    if not before.minimum < 0 < before.maximum:  # what is negative throughout may be meant to be turned around
        return False
    is_same_size = after.norm is not None and abs(after.norm - before.norm) <= _SAME * before.norm
    return after.minimum >= 0 and (is_same_size or after.zeros <= before.zeros)


class Hooks:
    """Which hooks of the program are on which tensors and modules, and where they are written."""

    def __init__(self, flow: Dataflow) -> None:
        self._flow = flow
        self._log = flow.log

    def definitions(self, graph: Graph, node: Node) -> tuple[Definition, ...]:
        """The program's own hooks on the result of a node, or on a leaf."""
        if node.name == MODULE_HOOK:
            return self._of_module(None if node.scope is None else graph.scopes[node.scope].path)
        made = self._flow.call_of_node(node)
        by_name = {row for name in node.names for row in self.registrations_on(name)}
        rows = by_name if made is None else self._by_maker.get(made, [])
        known = (self._definition(self._log.calls[row]) for row in sorted(rows))
        found = (each for each in known if each is not None and each.name.removesuffix(".__call__") in node.hooks)
        return tuple(dict.fromkeys(found))

    def registrations_on(self, name: str) -> list[int]:
        """The calls of ``register_hook`` on the tensor with this name, oldest first."""
        return self._by_name.get(name, [])

    def is_of_grad(self, definition: Definition) -> bool:
        """Whether a hook was only registered to run when ``.grad`` is complete: it may change that in place."""
        return self._registered_by.get(definition) == {_REGISTER_ON_GRAD}

    @cached_property
    def _registered_by(self) -> dict[Definition, set[str]]:
        """By hook: the functions that registered it."""
        found: dict[Definition, set[str]] = defaultdict(set)
        for call in self._log.calls:
            if (definition := self._definition(call)) is not None:
                found[definition].add(call.function)
        return dict(found)

    def _of_module(self, path: str | None) -> tuple[Definition, ...]:
        return tuple(dict.fromkeys(found for where, found in self._on_modules if path is None or where == path))

    def _definition(self, call: Call) -> Definition | None:
        return None if call.definition is None else self._log.definitions[call.definition]

    @cached_property
    def _registrations(self) -> tuple[tuple[int, int], ...]:
        """Calls of ``register_hook``, each with its tensor."""
        calls = ((row, call) for row, call in enumerate(self._log.calls) if call.inputs)
        return tuple((row, call.inputs[0].tensor) for row, call in calls if call.function in _REGISTER)

    @cached_property
    def _by_maker(self) -> dict[int, list[int]]:
        """By call: the registrations on its results."""
        rows: dict[int, list[int]] = defaultdict(list)
        for row, tensor in self._registrations:
            for maker in self._flow.producers(tensor):
                rows[maker].append(row)
        return dict(rows)

    @cached_property
    def _by_name(self) -> dict[str, list[int]]:
        rows: dict[str, list[int]] = defaultdict(list)
        for row, tensor in self._registrations:
            for name in self._log.tensors[tensor].names:
                rows[name].append(row)
        return dict(rows)

    @cached_property
    def _on_modules(self) -> list[tuple[str | None, Definition]]:
        """Paths of modules, each with the definition of a hook on it."""
        calls = (call for call in self._log.calls if call.function == _REGISTER_ON_MODULE)
        paths = ((None if call.scope is None else self._log.scopes[call.scope].path, call) for call in calls)
        return [(path, found) for path, call in paths if (found := self._definition(call)) is not None]
