"""Why a backward could not use a saved tensor: it was changed in place, or an earlier backward had freed it.

torch's error names one saved tensor and no line. The graph shows which node failed; the log shows which call made that
node, which of its tensors was changed afterwards, and which earlier backward went through it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from functools import cached_property

from msgspec import Struct
from msgspec.structs import replace

from gradviz.analysis.dataflow.backward_calls import BackwardCalls
from gradviz.graph.call_log import Call, TensorUse
from gradviz.graph.model import Graph, Node
from gradviz.graph.saved_tensors import SavedTensor
from gradviz.graph.tensor_facts import TensorFacts

CHANGED = "modified by an inplace operation"
SECOND_TIME = "backward through the graph a second time"
"""Parts of torch's messages, the same in every 2.x."""
_WHICH = re.compile(r"Tensor \[([\d, ]*)\]\].* is at version (\d+); expected version (\d+)")


class Overwritten(Struct, frozen=True):
    """A tensor that a call saved for backward, and the calls that changed it before backward used it."""

    backward: int
    """The backward call, as a row of the log, like the other calls."""
    saver: int
    """The call that saved it."""
    tensor: int
    """Its number in the log."""
    version: int
    """Its version when it was saved."""
    slot: str | None
    """The attribute of the node that saved it."""
    node: tuple[int, int] | None
    """The graph and the node that saved it, if known."""
    changes: tuple[int, ...]
    """Calls that changed it, or a tensor in the same memory, oldest first."""
    step: int | None
    """The optimizer's step that was the first of them."""
    is_carried_over: bool
    """True if that step is between two rounds of a loop, and the backward goes through both rounds."""


class Freed(Struct, frozen=True):
    """An earlier backward through the same calls, which freed what they had saved."""

    backward: int
    earlier: int
    call: int
    """A call that both went through."""
    node: tuple[int, int] | None
    is_carried_over: bool
    """True if the backward goes through calls of two steps, and the earlier backward went through the first step."""


class FailedBackwards:
    """The backward calls of one run that raised, and the reason of each."""

    def __init__(self, backward_calls: BackwardCalls) -> None:
        self._flow = backward_calls.flow
        self._log = self._flow.log
        self._backward_calls = backward_calls
        self.reached = backward_calls.reached

    @cached_property
    def overwritten(self) -> tuple[Overwritten, ...]:
        """The backward calls that needed a saved tensor that was changed."""
        found = (self._overwritten(row) for row in self._that_raised(CHANGED))
        return tuple(each for each in found if each is not None)

    @cached_property
    def freed(self) -> tuple[Freed, ...]:
        """The backward calls that went through a graph for the second time."""
        found = (self._freed(row) for row in self._that_raised(SECOND_TIME))
        return tuple(each for each in found if each is not None)

    def is_of_own_gradient(self, freed: Freed) -> bool:
        """Whether the backward starts at a loss that was computed from the gradients that the earlier call returned."""
        roots = self._log.calls[freed.backward].roots
        return any(freed.earlier in self._flow.ancestors(use.tensor, before=freed.backward) for use in roots)

    def _that_raised(self, words: str) -> list[int]:
        return [row for row in self._flow.rows_of_kind("backward") if words in (self._log.calls[row].raised or "")]

    def _graph(self, backward: int) -> tuple[int | None, Graph | None]:
        number = self._backward_calls.graph_of(backward)
        return number, None if number is None else self._backward_calls.graphs[number]

    # -- changed in place ----------------------------------------------------------------------------------------

    def _overwritten(self, backward: int) -> Overwritten | None:
        said = _WHICH.search(self._log.calls[backward].raised or "")
        if said is None:
            return None
        wanted = _Wanted(math.prod(int(size) for size in said[1].split(",") if size.strip()), int(said[3]))
        found = self._of_suspects(backward, wanted)
        if found is not None:
            return found
        for saver in reversed(self.reached(backward).rows):
            for found in self._changed_since(saver, backward, wanted):
                return found
        # The log has the size of a tensor when it was first seen: ``weight.data = larger`` gives it another.
        return self._of_suspects(backward, wanted, knows_sizes=False)

    def _of_suspects(self, backward: int, wanted: _Wanted, *, knows_sizes: bool = True) -> Overwritten | None:
        for index, node in self._suspects(backward):
            saver = self._flow.call_of_node(node)
            slots = [saved for saved in node.saved if wanted.may_be(saved)]
            if saver is None or not slots:
                continue
            is_result = "result" in slots[0].slot
            for found in self._changed_since(saver, backward, wanted, is_result, knows_sizes=knows_sizes):
                return replace(found, slot=slots[0].slot, node=(index, node.id))
        return None

    def _suspects(self, backward: int) -> Iterator[tuple[int, Node]]:
        """The node that failed, then all nodes with a changed saved tensor, in the order of backward."""
        index, graph = self._graph(backward)
        if index is None or graph is None:
            return
        failed = graph.failed_node
        if failed is not None:
            yield index, graph.nodes[failed]
        for node in reversed(graph.nodes):
            if node.id != failed and any(saved.is_changed for saved in node.saved):
                yield index, node

    def _changed_since(
        self, saver: int, backward: int, wanted: _Wanted, is_result: bool = False, *, knows_sizes: bool = True
    ) -> Iterator[Overwritten]:
        """Tensors that a call used, returned or made inside of itself, and that were changed after it."""
        for use in self._uses(saver, is_result):
            if use.version != wanted.version:
                continue
            if knows_sizes and not wanted.is_as_large(self._log.tensors[use.tensor].facts):
                continue
            changes = self._flow.changes(use.tensor, saver, backward)
            if changes:
                step = self._step_around(changes[0])
                is_carried = step is not None and self.reached(backward).repeats_over(step)
                yield Overwritten(backward, saver, use.tensor, wanted.version, None, None, changes, step, is_carried)

    def _step_around(self, call: int) -> int | None:
        around: int | None = call
        while around is not None and self._log.calls[around].kind != "step":
            around = self._log.calls[around].inside
        return around

    def _uses(self, saver: int, is_result: bool) -> Iterator[TensorUse]:
        call = self._log.calls[saver]
        yield from (*call.outputs, *call.inputs) if is_result else (*call.inputs, *call.outputs)
        row = saver + 1
        while call.kind == "custom" and row < len(self._log.calls) and self._log.calls[row].inside == saver:
            yield from self._log.calls[row].outputs
            row += 1

    # -- freed ---------------------------------------------------------------------------------------------------

    def _freed(self, backward: int) -> Freed | None:
        index, graph = self._graph(backward)
        failed = None if graph is None else graph.failed_node
        call = None if graph is None or failed is None else self._flow.call_of_node(graph.nodes[failed])
        node = (index, failed) if index is not None and failed is not None else None
        own = self.reached(backward)
        for earlier in reversed(self._that_freed(backward)):
            shared = own.members & self.reached(earlier).members
            if shared and (call is None or call in shared):
                common = max(shared) if call is None else call
                return Freed(backward, earlier, common, node, own.repeats_over(earlier))
        return None

    def _that_freed(self, backward: int) -> list[int]:
        calls = self._log.calls
        return [
            row
            for row in self._flow.rows_of_kind("backward")
            if row < backward and calls[row].raised is None and not keeps_its_graph(calls[row])
        ]


def keeps_its_graph(backward: Call) -> bool:
    """``create_graph=True`` keeps the graph, too, unless ``retain_graph=False`` says otherwise."""
    retains = backward.scalars.get("retain_graph")
    return bool(backward.scalars.get("create_graph") if retains is None else retains)


class _Wanted(Struct, frozen=True):
    """The saved tensor, as torch's message describes it."""

    count: int
    version: int

    def may_be(self, saved: SavedTensor) -> bool:
        """Whether it can be the one of this slot; torch before 2.10 shows only the versions of one that was changed."""
        if saved.tensor is None:
            return saved.is_changed and saved.saved_version == self.version
        return self.is_as_large(saved.tensor)

    def is_as_large(self, facts: TensorFacts) -> bool:
        return math.prod(size for size in facts.shape if isinstance(size, int)) == self.count
