"""Finds the autograd nodes that a traced graph stands for: runs it once on fake tensors, which compute nothing.

What AOTAutograd differentiates is the same graph with fake tensors of the same shapes, so the nodes, their edges and
what they would save are those that the compiled code replaces. All of it runs on a thread of its own, where no mode of
the program is on and no sequence number of the program's is used up. Random generators are put back: seeding one is no
operation on tensors, so that it happens.
"""

from __future__ import annotations

import operator
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import fx

from gradviz.recording.backward.program_state import generators_restored
from gradviz.recording.compiled.run_log import RunLog
from gradviz.recording.compiled.told_by_backward import NumberedNode, innermost_module
from gradviz.recording.compiled.traced_nodes import TracedNode, moved
from gradviz.recording.forward.copies import COPYING, Copies
from gradviz.recording.forward.forward_memory import storage_of
from gradviz.recording.forward.function_mode import CallMode
from gradviz.recording.forward.memory_parts import MemoryPart
from gradviz.recording.forward.python_numbers import ARITHMETIC, python_number
from gradviz.recording.forward.tensors_in_containers import tensors_in_call
from gradviz.recording.torch_access.dynamo.dynamo_graphs import (
    TensorInput,
    TracedGraph,
    fake_tensors,
    made_fake,
    takes_numbers,
)
from gradviz.recording.torch_access.dynamo.graph_interpreter import GraphInterpreter
from gradviz.recording.torch_access.dynamo.operators_run import OperatorsRun
from gradviz.recording.torch_access.name_lookup import find
from gradviz.recording.torch_access.nodes import LEAF_SEQUENCE_NR, peek_sequence_nr
from gradviz.recording.torch_access.own_thread import result_of_own_thread
from gradviz.recording.torch_access.tensors import (
    DISABLE_TORCH_FUNCTION,
    base_of,
    grad_fn_of,
    requires_grad_of,
    storage_address,
    version_of,
)
from gradviz.recording.torch_access.unwatched_backward import unwatched
from gradviz.recording.walk.graph_walker import Walk, walk

_BODY_RUNS_IN_PLACE = frozenset({"tag_activation_checkpoint", "wrap", "invoke_subgraph", "wrap_activation_checkpoint"})
"""Higher-order operators that only run the graph that they are given."""

RESHAPES = frozenset({"ViewBackward0", "AsStridedBackward0", "ReshapeAliasBackward0", "UnsafeViewBackward0"})
"""Which of them ``reshape`` makes depends on strides, and on whether tensors are fake."""


def is_alike(one: str, other: str) -> bool:
    """Whether the same call can make nodes of these names on fake and on real tensors."""
    return one == other or RESHAPES.issuperset((one, other))


class ReplayedCall(NamedTuple):
    """A torch function that made nodes in a replay."""

    start: int
    """Sequence number of its first node."""
    end: int
    function: Any
    traced: TracedNode
    """The node of the traced graph that it belongs to."""
    constants: tuple[torch.Tensor, ...]
    """Tensors that it got and that need no gradient."""
    is_checkpointed: bool
    number: int | float | None = None
    """The Python number that it got."""
    is_inplace: bool = False
    """Whether it was told to change its input."""


@dataclass
class Replay:
    """The nodes that a traced graph stands for."""

    walk: Walk
    input_of: dict[int, int]
    """The input of the traced graph, among those that are tensors, for each leaf of the walk."""
    calls: list[ReplayedCall]
    results: list[tuple[int, int] | int | None]
    """For each result: the node and the number of its output; the number of an input; or None without gradient."""
    bases: list[tuple[int, int] | int | None]
    """The same for the tensor that the result is a view of, if any."""
    changed: dict[int, tuple[int, int] | int | None]
    """The same for inputs that were changed in place, by number among the placeholders."""
    tensors: list[Any] = field(default_factory=list)
    """The inputs, the results, and for each result its base or None; they keep the nodes alive."""
    operators: OperatorsRun | None = None
    """What the operators do that computed the results; None for a run on real tensors."""
    written: frozenset[int] = frozenset()
    """Inputs whose numbers were changed in place."""
    stand_ins: frozenset[int] = frozenset()
    """Of these, those that require grad: only a copy of such an input could be changed, see `StandIn`."""
    without_gradient: Mapping[str, bool] = field(default_factory=dict)
    """Nodes of the traced graph that got something that requires grad, and whose results do not; and whether gradients
    were switched off there."""
    first_nr: int = 0
    """The sequence number of the first node that the run made, if it made any."""
    last_nr: int = 0
    """The one after that of its last node."""
    log: RunLog | None = None
    """Every torch call of the run, if they are wanted."""
    copies: Copies = field(default_factory=Copies)
    """Which tensors without gradient are copies of others."""

    def nodes_by_number(self) -> dict[int, NumberedNode]:
        """The nodes by their number in the run, beginning with 0."""
        found: dict[int, NumberedNode] = {}
        for wrapper, number in zip(self.walk.wrappers, self.walk.sequence_nrs, strict=True):
            call = self.call_of(number) if number != LEAF_SEQUENCE_NR else None
            if number != LEAF_SEQUENCE_NR:
                module = innermost_module(call.traced.meta) if call is not None else ""
                found[number - self.first_nr] = NumberedNode(wrapper.name(), module)
        return found

    def call_of(self, sequence_nr: int) -> ReplayedCall | None:
        """The call that made the node with this number."""
        index = bisect_right(self.calls, sequence_nr, key=operator.attrgetter("start")) - 1
        return self.calls[index] if index >= 0 and sequence_nr < self.calls[index].end else None


class StandIn(NamedTuple):
    """A copy of an input that requires grad and is changed in place: autograd lets nobody change a leaf.

    In the program it was no leaf. The node of the copy is treated as one.
    """

    leaf: torch.Tensor
    copy: torch.Tensor
    node: Any


def with_stand_ins(inputs: list[Any], wanted: Collection[int]) -> tuple[list[Any], dict[int, StandIn]]:
    """The inputs, with copies in the place of those that are wanted; and these."""
    found: dict[int, StandIn] = {}
    for index in wanted:
        with torch.enable_grad():
            copy = inputs[index].clone()
        found[index] = StandIn(inputs[index], copy, grad_fn_of(copy))
    return [found[index].copy if index in found else each for index, each in enumerate(inputs)], found


class CannotReplay(Exception):
    """What torch raised when a traced graph was run again, in a line."""


def replayed(traced: TracedGraph) -> Replay:
    """The traced graph run on fake tensors, which is done once; if that raises, every call raises `CannotReplay`."""
    if traced.replay is None:
        try:
            traced.replay = result_of_own_thread(lambda: _replay_or_with_stand_ins(traced))
        except Exception as error:  # whatever torch raises for what the traced graph contains
            # Not the exception itself: its traceback would keep the frames of the program, and all that they hold.
            traced.replay = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
    if isinstance(traced.replay, str):
        raise CannotReplay(traced.replay)
    result: Replay = traced.replay
    return result


def _replay_or_with_stand_ins(traced: TracedGraph) -> Replay:
    try:
        return _replay(traced)
    except RuntimeError as error:
        if "leaf Variable" not in str(error):
            raise
    needing = {
        index for index, each in enumerate(traced.inputs) if isinstance(each, TensorInput) and each.requires_grad
    }
    return _replay(traced, needing & _replay(traced, needing).written)


def _replay(traced: TracedGraph, stand_ins: Collection[int] = ()) -> Replay:
    with generators_restored(), fake_tensors(with_numbers=takes_numbers(traced.graph)) as mode, torch.enable_grad():
        leaves = [made_fake(mode, each) if isinstance(each, TensorInput) else each for each in traced.inputs]
        inputs, standing_in = with_stand_ins(leaves, stand_ins)
        log, copies = RunLog() if traced.logs_calls else None, Copies(part_of_fake)
        interpreter = NotingInterpreter(traced, lambda given: made_fake(mode, given), log=log, copies=copies)
        with ExitStack() as surroundings:
            surroundings.enter_context(as_traced(traced))
            surroundings.enter_context(interpreter.mode_on())
            operators = surroundings.enter_context(OperatorsRun())
            first_nr = peek_sequence_nr()
            results = interpreter.run(*inputs)
            last_nr = peek_sequence_nr()
        found = described(inputs, list(results), interpreter.calls, standing_in)
        found.operators, found.copies = operators, copies
        found.first_nr, found.last_nr, found.log = first_nr, last_nr, log
        found.without_gradient = interpreter.without_gradient
        found.written = frozenset(
            index for index, each in enumerate(inputs) if isinstance(each, torch.Tensor) and version_of(each)
        )
        return found


def part_of_fake(tensor: torch.Tensor) -> MemoryPart | None:
    """Where a fake tensor lies in its storage, which has no memory; None if its sizes are not known."""
    storage, offset = storage_of(tensor), tensor.storage_offset()
    if storage is None or not all(type(size) is int for size in (*tensor.shape, *tensor.stride(), offset)):
        return None
    return MemoryPart(storage, storage_address(storage), tuple(tensor.shape), tensor.stride(), int(offset))


@contextmanager
def as_traced(traced: TracedGraph) -> Iterator[None]:
    """The state of this thread in which the code was traced."""
    with ExitStack() as surroundings:
        for kind, dtype in traced.autocast.items():
            surroundings.enter_context(torch.autocast(kind, dtype))
        surroundings.enter_context(unwatched())  # what was traced may differentiate
        yield


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


def _needs_gradient(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.requires_grad


def described(
    inputs: list[Any], results: list[Any], calls: list[ReplayedCall], standing_in: Mapping[int, StandIn]
) -> Replay:
    """The nodes behind the results of a run."""
    with DISABLE_TORCH_FUNCTION():
        bases = [base_of(each) if isinstance(each, torch.Tensor) else None for each in results]
        roots = [grad_fn_of(each) for each in (*results, *inputs, *bases) if _needs_gradient(each)]
        walked = walk(root for root in roots if root is not None)
        numbers: dict[int, int] = {}
        count = 0
        for index, each in enumerate(inputs):
            if isinstance(each, torch.Tensor):
                numbers[index] = count
                count += 1
        leaves = {index: each.leaf for index, each in standing_in.items()}
        by_variable = {
            id(leaves.get(index, each)): numbers[index] for index, each in enumerate(inputs) if index in numbers
        }
        input_of = {
            index: by_variable[id(wrapper.variable)]
            for index, wrapper in enumerate(walked.wrappers)
            if hasattr(wrapper, "variable") and id(wrapper.variable) in by_variable
        }
        for index, each in standing_in.items():
            position = walked.position.get(each.node)
            if position is not None:
                walked.sequence_nrs[position] = LEAF_SEQUENCE_NR
                input_of[position] = numbers[index]

        def slot(tensor: Any) -> tuple[int, int] | int | None:
            if not _needs_gradient(tensor):
                return None
            made_by = grad_fn_of(tensor)
            if made_by is None:
                return by_variable.get(id(tensor))
            position = walked.position[made_by]
            return input_of.get(position, (position, tensor.output_nr))

        return Replay(
            walked,
            input_of,
            calls,
            [slot(each) for each in results],
            [slot(each) for each in bases],
            {index: slot(each) for index, each in enumerate(inputs) if isinstance(each, torch.Tensor)},
            [inputs, results, bases],
            stand_ins=frozenset(standing_in),
        )


class RegionInterpreter(GraphInterpreter):
    """Runs a traced graph, and the bodies of its higher-order operators.

    Args:
        constant: makes a tensor that is part of the traced graph.
    """

    def __init__(self, traced: TracedGraph, constant: Callable[[TensorInput], Any], *, frees_values: bool) -> None:
        super().__init__(fx.GraphModule({}, fx.Graph()), garbage_collect_values=frees_values, graph=traced.graph)
        self._traced = traced
        self._constant = constant

    def fetch_args_kwargs_from_env(self, n: fx.Node) -> tuple[Any, Any]:
        """Lists as the program wrote them: those of a traced graph are of a class of their own."""
        args, kwargs = super().fetch_args_kwargs_from_env(n)
        return _plain(args), _plain(kwargs)

    def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
        found = self._traced.attributes[str(target)]
        return found if isinstance(found, TracedGraph) else self._constant(found)

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        if isinstance(target, find("torch._ops.HigherOrderOperator")):
            return self._run_higher_order(target, args, kwargs)
        return super().call_function(target, args, kwargs)

    def _run_higher_order(self, target: Any, args: Any, kwargs: Any) -> Any:
        bodies = [each for each in args if isinstance(each, TracedGraph)]
        name = target.name() if callable(target.name) else target.name
        if name == "autograd_function_apply":
            # torch makes the node of a custom function by itself, and calls the traced forward inside it.
            bodies_as_modules = tuple(self._as_module(each) if isinstance(each, TracedGraph) else each for each in args)
            return self._run_custom_function(target, bodies_as_modules, kwargs)
        if len(bodies) != 1 or name not in _BODY_RUNS_IN_PLACE:
            raise NotImplementedError(f"it contains {name}")
        tensors = args[args.index(bodies[0]) + 1 :]
        if name == "invoke_subgraph":
            tensors = tensors[1:] if tensors and isinstance(tensors[0], str) else tensors
        return self._run_body(
            bodies[0], tensors, is_checkpointed="checkpoint" in name, is_shared=name == "invoke_subgraph"
        )

    def _run_custom_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        return super().call_function(target, args, kwargs)

    def _run_body(self, body: TracedGraph, tensors: Any, *, is_checkpointed: bool, is_shared: bool) -> Any:
        return RegionInterpreter(body, self._constant, frees_values=self.garbage_collect_values).run(*tensors)

    def _as_module(self, body: TracedGraph) -> Any:
        attributes: dict[str, Any] = {
            name: self._as_module(each) if isinstance(each, TracedGraph) else self._constant(each)
            for name, each in body.attributes.items()
        }
        return fx.GraphModule(attributes, body.graph)


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    return tuple(map(_plain, value)) if type(value) is tuple else value


class NotingInterpreter(RegionInterpreter):
    """Notes which of the nodes of a traced graph made which autograd nodes.

    Args:
        log: gets every torch call, if that is wanted.
        copies: notes which tensors are copies of others. Only with it the tensors without gradient are kept that calls
            get.
    """

    def __init__(
        self,
        traced: TracedGraph,
        constant: Callable[[TensorInput], Any],
        *,
        frees_values: bool = False,
        log: RunLog | None = None,
        copies: Copies | None = None,
    ) -> None:
        super().__init__(traced, constant, frees_values=frees_values)
        self._log, self._copies = log, copies
        self.calls: list[ReplayedCall] = []
        self._node: TracedNode | None = None
        self._around: TracedNode | None = None
        """The node that runs this graph, if other nodes run the same graph for other modules."""
        self._times = 0
        """Distinguishes these runs."""
        self._checkpoint = False
        self.without_gradient: dict[str, bool] = {}
        self._mode = CallMode(self._note, also=frozenset(COPYING if copies is not None else ()))
        self._mode.listener = log

    def mode_on(self) -> Any:
        """While entered, torch functions of this thread are noted."""
        return _On(self._mode)

    def run_node(self, n: fx.Node) -> Any:
        self._node = n if self._around is None else moved(n, self._around, self._times)
        if self._log is not None:
            self._log.node = self._node
        before, calls = peek_sequence_nr(), len(self.calls)
        result = super().run_node(n)
        self._note_cut(n, result)
        after = peek_sequence_nr()
        if after != before and len(self.calls) == calls:
            # Custom functions are not seen by a function mode.
            made_by = ReplayedCall(before, after, "autograd.Function.apply", self._node, (), self._checkpoint)
            self.calls.append(made_by)
        return result

    def _note_cut(self, n: fx.Node, result: Any) -> None:
        if n.op not in ("call_function", "call_method"):
            return
        results = [each for each in (result if isinstance(result, (tuple, list)) else (result,)) if _is_tensor(each)]
        with DISABLE_TORCH_FUNCTION():
            is_live = any(_needs_gradient(self.env.get(each)) for each in n.all_input_nodes)
            if is_live and results and not any(map(_needs_gradient, results)):
                self.without_gradient[n.name] = not torch.is_grad_enabled()

    def _run_body(self, body: TracedGraph, tensors: Any, *, is_checkpointed: bool, is_shared: bool) -> Any:
        inner = NotingInterpreter(
            body, self._constant, frees_values=self.garbage_collect_values, log=self._log, copies=self._copies
        )
        inner.calls = self.calls
        inner._checkpoint = self._checkpoint or is_checkpointed
        inner._around, inner._times = (self._node, len(self.calls)) if is_shared else (self._around, self._times)
        self._mode.take_off()
        try:
            with inner.mode_on():
                return inner.run(*tensors)
        finally:
            self._mode.put_on()

    def _run_custom_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        """The calls inside its forward are its own."""
        if self._log is None:
            return super()._run_custom_function(target, args, kwargs)
        self._mode.listener = None
        try:
            with self._log.custom_function(args, kwargs) as note_result:
                result = super()._run_custom_function(target, args, kwargs)
                note_result(result)
                return result
        finally:
            self._mode.listener = self._log

    def _note(self, before: int, after: int, function: Any, args: Any, kwargs: Any, result: Any) -> None:
        with DISABLE_TORCH_FUNCTION():
            if after != before and self._node is not None:
                constants = () if self._copies is None else tensors_in_call(args, kwargs)
                self.calls.append(
                    ReplayedCall(
                        before,
                        after,
                        function,
                        self._node,
                        tuple(each for each in constants if not requires_grad_of(each)),
                        self._checkpoint,
                        python_number(args) if id(function) in ARITHMETIC else None,
                        bool(kwargs) and kwargs.get("inplace") is True,
                    )
                )
            elif self._copies is not None and function in COPYING:
                self._copies.note(function, args, result)


class _On:
    """A function mode that is on while entered."""

    def __init__(self, mode: CallMode) -> None:
        self._mode = mode

    def __enter__(self) -> None:
        self._mode.put_on()

    def __exit__(self, *_: object) -> None:
        self._mode.take_off()
