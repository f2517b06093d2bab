"""Notes what wrappers exchange between ranks for groups of parameters: buckets of gradients, and sharded parameters.

`DistributedDataParallel` sends its buckets from compiled code, as soon as all gradients of a bucket are there and the
buckets before it have been sent: when that was follows from the order in which leaves got their gradients.
`fully_shard` gathers and scatters from Python, which is noted when it happens.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from time import perf_counter
from typing import Any

from gradviz.graph.exchanges import Exchange, ExchangeKind
from gradviz.recording.backward.gradients.gradient_watch import RunTimes
from gradviz.recording.run.recording_failures import Defects
from gradviz.recording.torch_access.distributed.buckets import Bucket, buckets_of
from gradviz.recording.torch_access.distributed.sharded_parameters import own_parameter
from gradviz.recording.torch_access.name_lookup import is_loaded
from gradviz.recording.torch_access.patches import Replacement
from gradviz.recording.walk.graph_walker import Walk
from gradviz.recording.walk.leaves import leaf_variables

MAX_NOTED = 4_096
_MODULE = "torch.distributed.fsdp._fully_shard._fsdp_param_group"


@dataclass(frozen=True)
class _Noted:
    kind: ExchangeKind
    parameters: tuple[int, ...]
    bytes: int
    at: float


class ExchangeWatch:
    """Replaces functions of `fully_shard` from a `look` that finds it loaded to `stop`."""

    def __init__(self, modules: Callable[[], Iterable[Any]], defects: Defects) -> None:
        """
        Args:
            modules: the modules that have run until now.
        """
        self._modules = modules
        self._defects = defects
        self._noted: deque[_Noted] = deque(maxlen=MAX_NOTED)
        self._gathering = Replacement(f"{_MODULE}.foreach_all_gather")
        self._reducing = Replacement(f"{_MODULE}.foreach_reduce")

    def look(self) -> None:
        """A module is about to run, which may be sharded."""
        if not self._gathering.is_in_force and is_loaded(_MODULE):
            self._gathering.put(self._noting_gathering)
            self._reducing.put(self._noting_reduction)

    def stop(self) -> None:
        """Put everything back; safe to call twice."""
        self._gathering.take_back()
        self._reducing.take_back()

    def forget(self) -> None:
        """A backward call has ended: what comes belongs to the next one."""
        self._noted.clear()

    def of_backward(self, walk: Walk, times: RunTimes) -> tuple[Exchange, ...]:
        """What was exchanged for the parameters of a graph, whose backward call has just ended."""
        leaves = {id(own_parameter(variable)): index for index, variable in leaf_variables(walk)}
        found = [each for buckets in buckets_of(self._modules()) for each in _sent(buckets, leaves, times)]
        return (*found, *(self._exchange(each, leaves, times) for each in self._noted))

    def _exchange(self, noted: _Noted, leaves: Mapping[int, int], times: RunTimes) -> Exchange:
        is_in_forward = noted.at < times.began
        ran = bisect_right(times.ends, noted.at)
        return Exchange(
            noted.kind,
            "fully_shard",
            _known(noted.parameters, leaves),
            len(noted.parameters),
            noted.bytes,
            is_in_forward=is_in_forward,
            after=ran - 1 if ran else None,
            began=None if is_in_forward else noted.at - times.began,
        )

    def _noting_gathering(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def foreach_all_gather(parameters: Any, group: Any, *args: Any, **kwargs: Any) -> Any:
            at = perf_counter()
            result = original(parameters, group, *args, **kwargs)
            with self._defects.caught():
                whole = getattr(result, "all_gather_output", None)
                self._note("all_gather", parameters, 0 if whole is None else whole.nbytes // group.size(), at)
            return result

        return foreach_all_gather

    def _noting_reduction(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def foreach_reduce(parameters: Any, gradients: Any, *args: Any, **kwargs: Any) -> Any:
            with self._defects.caught():
                self._note("reduce_scatter", parameters, sum(each.nbytes for each in gradients), perf_counter())
            return original(parameters, gradients, *args, **kwargs)

        return foreach_reduce

    def _note(self, kind: ExchangeKind, parameters: Iterable[Any], size: int, at: float) -> None:
        self._noted.append(_Noted(kind, tuple(id(each.sharded_param) for each in parameters), size, at))


def _known(parameters: Iterable[int], leaves: Mapping[int, int]) -> tuple[int, ...]:
    return tuple(leaves[each] for each in parameters if each in leaves)


def _sent(buckets: Sequence[Bucket], leaves: Mapping[int, int], times: RunTimes) -> Iterator[Exchange]:
    """The buckets of one wrapper, if the graph has any of its parameters."""
    if not any(each in leaves for bucket in buckets for each in bucket.parameters):
        return
    last = -1
    for bucket in buckets:
        known = _known(bucket.parameters, leaves)
        last = max(last, *(times.order[each] for each in known if each in times.order), -1)
        yield Exchange(
            "all_reduce",
            "DistributedDataParallel",
            known,
            len(bucket.parameters),
            bucket.bytes,
            bucket.number,
            bucket.hook,
            after=last if last >= 0 else None,
            began=max(0.0, times.ends[last] - times.began) if last >= 0 else 0.0,
        )
