"""Notes what the program sends to single ranks and receives from them, and which ends of a graph that is.

A graph ends where a tensor is sent: its node there says to which rank, and the input of the next stage's graph says
from which. A tensor is known by its memory, which the program hands over without a copy.
"""

from __future__ import annotations

import sys
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import wraps
from traceback import walk_stack
from types import FrameType
from typing import Any

import torch
from msgspec.structs import replace

from gradviz.capture.peer_traffic import Direction, PeerTraffic
from gradviz.graph.model import Graph
from gradviz.graph.query.own_line import is_tracer
from gradviz.recording.forward.forward_memory import storage_of
from gradviz.recording.ranks.last_message import forget_messages, note_message
from gradviz.recording.run.file_kinds import own_line
from gradviz.recording.run.recording_failures import Defects
from gradviz.recording.torch_access.patches import Replacement
from gradviz.recording.torch_access.tensors import storage_address, weak_storage
from gradviz.recording.walk.graph_walker import Walk
from gradviz.recording.walk.leaves import leaf_variables
from gradviz.recording.walk.roots import RootTensor

MAX_REMEMBERED = 1_024
"""So many of the last messages can be found again in graphs."""
MAX_ROWS = 64
_PIPELINES = "torch.distributed.pipelining.stage"
_WORDS: dict[Direction, str] = {"sent": "to", "received": "from"}
_FUNCTIONS: dict[Direction, str] = {"sent": "send", "received": "recv"}


@dataclass(frozen=True)
class _Message:
    direction: Direction
    peer: int
    number: int
    memory: Any
    """A weak reference, which keeps the address reserved."""

    @property
    def words(self) -> str:
        return f"{_WORDS[self.direction]} rank {self.peer}, message {self.number}"


def is_shape_inference(frame: FrameType | None) -> bool:
    """Whether a stage of a pipeline calls backward from `frame` only to learn the shapes of its gradients."""
    if _PIPELINES not in sys.modules:
        return False
    return any(is_tracer(each.f_code.co_filename, each.f_code.co_name) for each, _ in walk_stack(frame))


class PeerWatch:
    """Replaces the methods of process groups between `start` and `stop`."""

    def __init__(self, defects: Defects) -> None:
        self._defects = defects
        self._methods = {
            Replacement("torch.distributed.ProcessGroup.send"): self._noting("sent"),
            Replacement("torch.distributed.ProcessGroup.recv"): self._noting("received"),
        }
        self._messages: deque[tuple[int, _Message]] = deque(maxlen=MAX_REMEMBERED)
        """With the address of their memory."""
        self._numbers: Counter[tuple[Direction, int]] = Counter()
        self._traffic: dict[tuple[Any, ...], PeerTraffic] = {}

    def start(self) -> None:
        """Begin to note messages."""
        forget_messages()
        for method, make in self._methods.items():
            method.put(make)

    def stop(self) -> None:
        """Put everything back; safe to call twice."""
        for method in self._methods:
            method.take_back()

    def release_all(self) -> None:
        """Forget which memory was sent."""
        self._messages.clear()

    def traffic(self) -> tuple[PeerTraffic, ...]:
        """What was noted until now."""
        return tuple(self._traffic.values())

    def labelled(
        self, graph: Graph, walk: Walk, roots: Sequence[RootTensor], gradients: Iterable[torch.Tensor | None]
    ) -> Graph:
        """The graph, in which nodes say which of their tensors were sent or received."""
        if not self._messages:
            return graph
        known = {(each.direction, address): each for address, each in self._messages if not each.memory.expired()}
        found: dict[int, dict[str, str]] = {}
        for index, title, direction, tensor in self._ends(walk, roots, gradients):
            storage = None if tensor is None else storage_of(tensor)
            message = None if storage is None else known.get((direction, storage_address(storage)))
            if message is not None:
                found.setdefault(index, {})[title] = message.words
        nodes = tuple(
            replace(node, attributes={**node.attributes, **found[node.id]}) if node.id in found else node
            for node in graph.nodes
        )
        return replace(graph, nodes=nodes) if found else graph

    def _ends(
        self, walk: Walk, roots: Sequence[RootTensor], gradients: Iterable[torch.Tensor | None]
    ) -> Iterator[tuple[int, str, Direction, torch.Tensor | None]]:
        for index, variable in leaf_variables(walk):
            yield index, "received", "received", variable
        for root in roots:
            yield walk.position[root.grad_fn], "sent", "sent", root.tensor
        for root, gradient in zip(roots, gradients, strict=False):
            yield walk.position[root.grad_fn], "gradient received", "received", gradient

    def _noting(self, direction: Direction) -> Callable[[Any], Any]:
        def make(original: Any) -> Any:
            @wraps(original)
            def exchange(group: Any, tensors: Any, peer: Any, *args: Any, **kwargs: Any) -> Any:
                with self._defects.caught():
                    self._note(direction, group, tensors, peer)
                return original(group, tensors, peer, *args, **kwargs)

            return exchange

        return make

    def _note(self, direction: Direction, group: Any, tensors: Sequence[torch.Tensor], peer: int) -> None:
        rank = torch.distributed.get_global_rank(group, peer)
        file, line = own_line((each.f_code, number) for each, number in walk_stack(sys._getframe(2))) or ("", 0)
        for tensor in tensors:
            note_message(_FUNCTIONS[direction], rank, tuple(tensor.shape), _dtype(tensor), (file, line))
        for tensor in filter(_may_have_gradient, tensors):
            self._numbers[direction, rank] += 1
            number = self._numbers[direction, rank]
            storage = storage_of(tensor)
            if storage is not None:
                message = _Message(direction, rank, number, weak_storage(storage))
                self._messages.append((storage_address(storage), message))
            shape, dtype = tuple(tensor.shape), _dtype(tensor)
            key = direction, rank, shape, dtype, file, line
            before = self._traffic.get(key) or PeerTraffic(direction, rank, 0, 0, shape, dtype, number, file, line)
            if key in self._traffic or len(self._traffic) < MAX_ROWS:
                self._traffic[key] = replace(before, calls=before.calls + 1, bytes=before.bytes + tensor.nbytes)


def _dtype(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _may_have_gradient(tensor: torch.Tensor) -> bool:
    """Others are messages of torch itself, about shapes."""
    return tensor.is_floating_point() or tensor.is_complex()
