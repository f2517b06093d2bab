"""Cut paths: how values that lost their gradient in a cut still reached a tensor.

A walk from the tensor upwards over the calls that made it. The result of a cut is dead, and so is everything computed
from it alone, until it is combined with something alive. If values left torch and came back, the walk follows what
`gradviz.analysis.dataflow.values.outside_torch` knows, and prefers certain paths to guessed ones.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable, Iterable, Iterator
from heapq import heappop, heappush
from itertools import count

from msgspec import Struct

from gradviz.analysis.dataflow.call_words import callers, plain_name
from gradviz.analysis.dataflow.cuts import TAKES_ONLY_THE_SHAPE, Cut, overwrites
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.values.outside_torch import Reentry, looks_computed
from gradviz.graph.call_log import Call, TensorUse

GUESSES = ("memory", "value", "order", "number")
"""Certainties of a reentry, the surest first."""


class CutPath(Struct, frozen=True):
    """A cut, and the path of its values to a tensor."""

    cut: Cut
    calls: tuple[int, ...]
    """Calls from the cut (included) to the one that made the tensor."""
    reentries: tuple[Reentry, ...]
    """Where the values came back into torch on that path, in the same order."""
    is_steering: bool = False
    """True if the values left torch for good, and only decided what the program did: an index, a truth value."""

    @property
    def doubt(self) -> int:
        """How uncertain the path is; 0 if it is certain."""
        if self.is_steering:
            return len(GUESSES)
        return max((GUESSES.index(reentry.certainty) for reentry in self.reentries), default=0)


class _Step(Struct, frozen=True):
    """One call on a path upwards, and the tensor that led to it."""

    call: int
    tensor: int
    reentry: Reentry | None = None


def cut_paths_on(
    flow: Dataflow, tensor: int, before: int, kind_of: Callable[[Cut], Hashable], since: int = 0
) -> tuple[tuple[CutPath, tuple[Cut, ...]], ...]:
    """The cut paths that lead to a tensor as the call `before` received it, from cuts in the call `since` or later.

    Cuts of one kind (of one line, for instance) share the most certain path of one of them: a path for each cut would
    take quadratic time.
    """
    return _Walk(flow, since).run(tensor, before, kind_of)


def alive_above(flow: Dataflow, uses: Iterable[tuple[int, int]]) -> frozenset[int]:
    """These tensors, and all tensors that a gradient of any of them would reach.

    Args:
        uses: tensors, each with the call that received it.
    """
    starts = set(uses)
    reached = {tensor for tensor, _ in starts}
    waiting = [(row, tensor) for tensor, before in sorted(starts) for row in flow.producers(tensor, before)]
    seen = set(waiting)
    known: tuple[dict[int, int], dict[int, int]] = {}, {}
    while waiting:
        row, given = waiting.pop()
        call = flow.log.calls[row]
        if not any(use.tensor == given and _has_history(use, call) for use in call.outputs):
            continue
        for use in call.inputs:
            if use.requires_grad:
                reached.add(use.tensor)
                for maker in flow.further_producers(use.tensor, row, known[use.is_leaf]):
                    may_have = not use.is_leaf or flow.log.calls[maker].grad_mode != "enabled"
                    if may_have and (maker, use.tensor) not in seen:
                        seen.add((maker, use.tensor))
                        waiting.append((maker, use.tensor))
    return frozenset(reached)


def _has_history(use: TensorUse, call: Call) -> bool:
    """Whether the result has a history. A view made under no_grad counts, though torch calls it a leaf."""
    is_view = (
        call.grad_mode != "enabled" and use.requires_grad and all(use.tensor != each.tensor for each in call.inputs)
    )
    return use.has_grad_fn or is_view


def steering_path(flow: Dataflow, cut: Cut, before: int) -> CutPath | None:
    """The path of a cut whose values left torch at once, as integers or booleans that control the program."""
    call = flow.log.calls[cut.call]
    if not cut.dead_outputs:
        return CutPath(cut, (cut.call,), (), is_steering=True) if _decides(call) else None
    path, tensors = [cut.call], set(cut.dead_outputs)
    for _ in range(_MAX_STEPS):
        users = [row for tensor in sorted(tensors) for row in flow.users(tensor, path[-1]) if row < before]
        if not users:
            return None
        row = min(users)
        path.append(row)
        if not flow.log.calls[row].outputs:
            return CutPath(cut, tuple(path), (), is_steering=True) if _decides(flow.log.calls[row]) else None
        if not flow.log.calls[row].function.endswith(_PASS_ON):
            return None
        tensors = {use.tensor for use in flow.log.calls[row].outputs}
    return None


def is_draw(flow: Dataflow, cut_path: CutPath) -> bool:
    """Whether the values reach a random draw under no_grad, which would have no gradient in any case."""
    for row in cut_path.calls if cut_path.cut.kind in ("no_grad", "inference") else ():
        call = flow.log.calls[row]
        if call.grad_mode == "enabled":
            return False
        if call.function in _DRAW:
            return True
    return False


def is_parameter_as_number(flow: Dataflow, cut_path: CutPath, tensors: Container[int]) -> bool:
    """Whether the value of one of these leaves is read with ``item()`` and goes at once into an operation that would
    have a gradient for it: ``x.clamp(0, clip.item())``.

    A short number, such as 0.5, may be there by chance, unless the same line has read it, itself or in a function.
    """
    calls, cut = flow.log.calls, cut_path.cut
    if cut.kind != "value" or len(cut_path.calls) <= 1 or cut_path.doubt != GUESSES.index("value"):
        return False
    read, used = cut_path.calls[:2]
    is_of_leaf = all(tensor in tensors for tensor in cut.live_inputs)
    if not is_of_leaf or plain_name(calls[used].function) not in _TAKE_NUMBERS:
        return False
    return looks_computed(calls[read].result) or flow.line_of(used) in {flow.line_of(read), *callers(flow, read)}


_TAKE_NUMBERS = frozenset({
    "clamp", "clip", "clamp_min", "clamp_max", "hardtanh", "mul", "div", "add", "sub", "pow", "lerp",
})  # fmt: skip
_DRAW = frozenset(
    f"torch.{prefix}{name}"
    for prefix in ("", "Tensor.")
    for name in ("normal", "bernoulli", "multinomial", "poisson", "binomial", "_standard_gamma", "_sample_dirichlet")
)
_MAX_STEPS = 5
_PASS_ON = tuple(
    f".{name}" for name in ("__getitem__", "squeeze", "flatten", "view", "reshape", "cpu", "detach", "unbind")
)


def _decides(call: Call) -> bool:
    return isinstance(call.result, (bool, int)) or bool(call.results and isinstance(call.results[0], (bool, int)))


class _Walk:
    def __init__(self, flow: Dataflow, since: int) -> None:
        self._flow = flow
        self._since = since
        self._cuts: dict[int, Cut] = {cut.call: cut for cut in flow.cuts if cut.kind != "parameter"}
        self._made_parameters = {made: cut for cut in flow.cuts if cut.kind == "parameter" for made in cut.dead_outputs}
        self._numbers = count()
        self._below: dict[_Step, _Step | None] = {}
        self._known: tuple[dict[int, int], dict[int, int]] = {}, {}
        """Which producers of each tensor were visited: for other tensors, and for leaves that are trained."""

    def run(
        self, tensor: int, before: int, kind_of: Callable[[Cut], Hashable]
    ) -> tuple[tuple[CutPath, tuple[Cut, ...]], ...]:
        cut_paths: dict[Hashable, CutPath] = {}
        cuts: dict[Hashable, dict[int, Cut]] = {}
        waiting: list[tuple[bool, int, int, int, int, _Step, _Step | None]] = []
        seen: set[tuple[int, int]] = set()

        def go_to(steps: Iterator[_Step], selects: bool, doubt: int, below: _Step | None) -> None:
            for step in steps:
                if step.call >= self._since and (step.call, step.tensor) not in seen:
                    guessed = GUESSES.index(step.reentry.certainty) if step.reentry is not None else 0
                    number = next(self._numbers)
                    # Integers and truth values may only select: paths of values come first.
                    is_last = selects or not self._flow.log.tensors[step.tensor].facts.is_differentiable
                    heappush(waiting, (is_last, max(doubt, guessed), -step.call, step.tensor, number, step, below))

        go_to(self._makers(TensorUse(tensor, "", 0, False, True), before), False, 0, None)
        while waiting:
            selects, doubt, _, _, _, step, below = heappop(waiting)
            if (step.call, step.tensor) in seen:
                continue
            seen.add((step.call, step.tensor))
            self._below[step] = below
            cut = self._cut_at(step)
            if cut is not None:
                kind = kind_of(cut)
                cuts.setdefault(kind, {})[cut.call] = cut
                if kind not in cut_paths:
                    cut_paths[kind] = self._cut_path(cut, step)
            go_to(self._above(step), selects, doubt, step)
        return tuple((cut_paths[kind], tuple(of_kind.values())) for kind, of_kind in cuts.items())

    def _cut_at(self, step: _Step) -> Cut | None:
        made = self._made_parameters.get(step.tensor)
        if made is not None and made.call == step.call:
            return made
        cut = self._cuts.get(step.call)
        return cut if cut is not None and (not cut.dead_outputs or step.tensor in cut.dead_outputs) else None

    def _above(self, step: _Step) -> Iterator[_Step]:
        call = self._flow.log.calls[step.call]
        made = self._made_parameters.get(step.tensor)
        if made is not None and made.call == step.call:
            yield from self._makers(TensorUse(made.live_inputs[0], "", 0, True, False), step.call)
            return
        if call.function in TAKES_ONLY_THE_SHAPE:
            return
        for use in call.inputs:
            yield from self._makers(use, step.call)
        for reentry in self._flow.reentries.get(step.call, ()):
            yield _Step(reentry.exit, reentry.tensor, reentry)

    def _makers(self, use: TensorUse, before: int) -> Iterator[_Step]:
        """Calls that made a tensor; for a leaf, those before it became one, not those that train it."""
        made = self._made_parameters.get(use.tensor)
        if made is not None:
            yield _Step(made.call, use.tensor)
            return
        for row in self._flow.further_producers(use.tensor, before, self._known[use.is_live_leaf]):
            is_trained = use.is_live_leaf and self._takes_alive(row, use.tensor)
            if not is_trained or self._overwrites_with_result(row, use.tensor):
                yield _Step(row, use.tensor)
        assigned = self._flow.newest_data_assignment(use.tensor, before)
        if assigned is not None and self._overwrites_with_result(assigned, use.tensor):
            yield _Step(assigned, use.tensor)
        if not self._flow.is_made(use.tensor, before):
            for reentry in self._flow.reentries_as(use.tensor, before):
                yield _Step(reentry.exit, reentry.tensor, reentry)

    def _takes_alive(self, row: int, tensor: int) -> bool:
        return any(use.tensor == tensor and use.requires_grad for use in self._flow.log.calls[row].inputs)

    def _overwrites_with_result(self, row: int, tensor: int) -> bool:
        """Whether a call replaces a leaf's values with something computed, not with those of another leaf."""
        call = self._flow.log.calls[row]
        others = [use for use in call.inputs if use.tensor != tensor] if overwrites(call) else []
        return any(use.has_grad_fn or self._is_cut_from_result(use.tensor, row) for use in others)

    def _is_cut_from_result(self, tensor: int, before: int) -> bool:
        maker = self._flow.newest_producer(tensor, before)
        return maker in self._cuts and any(use.has_grad_fn for use in self._flow.log.calls[maker].inputs)

    def _cut_path(self, cut: Cut, step: _Step) -> CutPath:
        path: list[int] = []
        reentries: list[Reentry] = []
        at: _Step | None = step
        while at is not None:
            path.append(at.call)
            if at.reentry is not None:
                reentries.append(at.reentry)
            at = self._below[at]
        return CutPath(cut, tuple(path), tuple(reentries))
