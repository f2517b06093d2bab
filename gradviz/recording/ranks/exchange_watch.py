"""Notes what wrappers exchange between ranks for groups of parameters: buckets of gradients, and sharded parameters.

`DistributedDataParallel` sends its buckets from compiled code, as soon as all gradients of a bucket are there and the
buckets before it have been sent: when that was follows from the order in which leaves got their gradients.
`fully_shard` and `FullyShardedDataParallel` gather and scatter from Python, which is noted when it happens.
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
from gradviz.recording.torch_access.distributed.parameter_shards import bytes_of_shard, number_made_of
from gradviz.recording.torch_access.distributed.sharded_parameters import own_parameter
from gradviz.recording.torch_access.name_lookup import is_loaded
from gradviz.recording.torch_access.patches import Replacement
from gradviz.recording.walk.graph_walker import Walk
from gradviz.recording.walk.leaves import leaf_variables

MAX_NOTED = 4_096
_SHARDED = "torch.distributed.fsdp._fully_shard._fsdp_param_group"
_FLAT = "torch.distributed.fsdp._flat_param"


@dataclass(frozen=True)
class _Noted:
    kind: ExchangeKind
    by: str
    parameters: tuple[int, ...]
    """The ``id()`` of each."""
    count: int
    bytes: int
    at: float


class ExchangeWatch:
    """Replaces functions of both from a `look` that finds them loaded to `stop`."""

    def __init__(self, modules: Callable[[], Iterable[Any]], defects: Defects) -> None:
        """
        Args:
            modules: the modules that have run until now.
        """
        self._modules = modules
        self._defects = defects
        self._noted: deque[_Noted] = deque(maxlen=MAX_NOTED)
        self._of_shards = {
            Replacement(f"{_SHARDED}.foreach_all_gather"): self._noting_gathering,
            Replacement(f"{_SHARDED}.foreach_reduce"): self._noting_reduction,
        }
        self._of_flat = {
            Replacement(f"{_FLAT}.FlatParamHandle._all_gather_flat_param"): self._noting_flat_gathering,
            Replacement("torch.distributed.fsdp._runtime_utils._reduce_grad"): self._noting_flat_reduction,
        }

    def look(self) -> None:
        """A module is about to run, which may be sharded."""
        for module, replacements in ((_SHARDED, self._of_shards), (_FLAT, self._of_flat)):
            if is_loaded(module):
                for replacement, make in replacements.items():
                    replacement.put(make)

    def stop(self) -> None:
        """Put everything back; safe to call twice."""
        for replacement in (*self._of_shards, *self._of_flat):
            replacement.take_back()

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
            noted.by,
            _known(noted.parameters, leaves),
            noted.count,
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

    def _noting_flat_gathering(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def _all_gather_flat_param(handle: Any, *args: Any, **kwargs: Any) -> Any:
            with self._defects.caught():
                self._note_flat("all_gather", handle.flat_param, bytes_of_shard(handle.flat_param))
            return original(handle, *args, **kwargs)

        return _all_gather_flat_param

    def _noting_flat_reduction(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def _reduce_grad(state: Any, handle: Any) -> Any:
            with self._defects.caught():
                gradient = handle.flat_param.grad
                self._note_flat("reduce_scatter", handle.flat_param, 0 if gradient is None else gradient.nbytes)
            return original(state, handle)

        return _reduce_grad

    def _note(self, kind: ExchangeKind, parameters: Iterable[Any], size: int, at: float) -> None:
        ids = tuple(id(each.sharded_param) for each in parameters)
        self._noted.append(_Noted(kind, "fully_shard", ids, len(ids), size, at))

    def _note_flat(self, kind: ExchangeKind, flat: Any, size: int) -> None:
        made_of = number_made_of(flat)
        self._noted.append(_Noted(kind, "FullyShardedDataParallel", (id(flat),), made_of, size, perf_counter()))


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
