"""Notes what wrappers exchange between ranks for groups of parameters: buckets of gradients, and sharded parameters.

`DistributedDataParallel` sends its buckets from compiled code, as soon as all gradients of a bucket are there and the
buckets before it have been sent: when that was follows from the order in which leaves got their gradients.
`fully_shard` and `FullyShardedDataParallel` gather and scatter from Python, which is noted when it happens.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from time import perf_counter, time
from typing import Any

from gradviz.graph.exchanges import Exchange, ExchangeKind
from gradviz.graph.number_words import byte_words
from gradviz.recording.backward.gradients.gradient_watch import RunTimes
from gradviz.recording.ranks.collectives_called import bytes_called_since
from gradviz.recording.run.recording_failures import Defects
from gradviz.recording.torch_access.distributed import buckets
from gradviz.recording.torch_access.distributed.buckets import (
    Bucket,
    buckets_of,
    bytes_of_gradients,
    exchanging_wrappers,
)
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
    seconds: float | None = None
    """How long the program waited for it; None if it does not."""


class ExchangeWatch:
    """Replaces functions of both from a `look` that finds them loaded to `stop`."""

    def __init__(self, modules: Callable[[], Iterable[Any]], defects: Defects) -> None:
        """
        Args:
            modules: the modules that have run until now.
        """
        self._modules = modules
        self._defects = defects
        self._has_ended = False
        self._noted: deque[_Noted] = deque(maxlen=MAX_NOTED)
        self.too_large: dict[str, None] = {}
        """The sizes of wrappers whose buckets were not read, in words."""
        self._of_shards = {
            Replacement(f"{_SHARDED}.foreach_all_gather"): self._noting_gathering,
            Replacement(f"{_SHARDED}.foreach_reduce"): self._noting_reduction,
        }
        self._of_flat = {
            Replacement(f"{_FLAT}.FlatParamHandle._all_gather_flat_param"): self._noting_flat_gathering,
            Replacement("torch.distributed.fsdp._runtime_utils._reduce_grad"): self._noting_flat_reduction,
        }

    def look(self) -> None:
        """A module is about to run, which may be sharded; on another thread perhaps while the recording ends."""
        if self._has_ended:
            return
        for module, replacements in ((_SHARDED, self._of_shards), (_FLAT, self._of_flat)):
            if is_loaded(module):
                for replacement, make in replacements.items():
                    replacement.put(make)
        if self._has_ended:
            self.stop()

    def stop(self) -> None:
        """Put everything back; safe to call twice."""
        self._has_ended = True
        for replacement in (*self._of_shards, *self._of_flat):
            replacement.take_back()

    def forget(self) -> None:
        """A backward call has ended: what comes belongs to the next one."""
        self._noted.clear()

    def of_backward(self, walk: Walk, times: RunTimes) -> tuple[Exchange, ...]:
        """What was exchanged for the parameters of a graph, whose backward call has just ended."""
        leaves = {id(own_parameter(variable)): index for index, variable in leaf_variables(walk)}
        found = [each for wrapper in self._wrappers(leaves) for each in _of_wrapper(buckets_of(wrapper), leaves, times)]
        return (*found, *(self._exchange(each, leaves, times) for each in self._noted))

    def _wrappers(self, leaves: Container[int]) -> Iterator[Any]:
        """Those with parameters in a graph, whose buckets can be read."""
        for wrapper in exchanging_wrappers(self._modules()):
            if not any(id(each) in leaves for each in wrapper.module.parameters()):
                continue
            size = bytes_of_gradients(wrapper)
            if size <= buckets.MAX_BYTES:
                yield wrapper
            else:
                self.too_large[f"{byte_words(size)} of gradients (limit {byte_words(buckets.MAX_BYTES)})"] = None

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
            seconds=noted.seconds,
            waited=noted.seconds,
        )

    def _noting_gathering(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def foreach_all_gather(parameters: Any, group: Any, *args: Any, **kwargs: Any) -> Any:
            at = perf_counter()
            result = original(parameters, group, *args, **kwargs)
            with self._defects.caught():
                whole = getattr(result, "all_gather_output", None)
                is_over = whole is not None and getattr(result, "all_gather_work", None) is None
                size = 0 if whole is None else whole.nbytes // group.size()
                self._note("all_gather", parameters, size, at, whole if is_over else None)
            return result

        return foreach_all_gather

    def _noting_reduction(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def foreach_reduce(parameters: Any, gradients: Any, *args: Any, **kwargs: Any) -> Any:
            at, size, one = perf_counter(), 0, None
            with self._defects.caught():  # before the call, which empties the list
                size, one = sum(each.nbytes for each in gradients), gradients[0]
            result = original(parameters, gradients, *args, **kwargs)
            with self._defects.caught():
                self._note("reduce_scatter", parameters, size, at, one)
            return result

        return foreach_reduce

    def _noting_flat_gathering(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def _all_gather_flat_param(handle: Any, *args: Any, **kwargs: Any) -> Any:
            at = perf_counter()
            result = original(handle, *args, **kwargs)
            with self._defects.caught():
                self._note_flat("all_gather", handle.flat_param, bytes_of_shard(handle.flat_param), at)
            return result

        return _all_gather_flat_param

    def _noting_flat_reduction(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def _reduce_grad(state: Any, handle: Any) -> Any:
            at, size = perf_counter(), 0
            with self._defects.caught():
                gradient = handle.flat_param.grad
                size = 0 if gradient is None else gradient.nbytes
            result = original(state, handle)
            with self._defects.caught():
                self._note_flat("reduce_scatter", handle.flat_param, size, at)
            return result

        return _reduce_grad

    def _note(self, kind: ExchangeKind, parameters: Iterable[Any], size: int, at: float, waited_for: Any) -> None:
        """`waited_for` is a tensor that was there when the call returned, if the call waits."""
        ids = tuple(id(each.sharded_param) for each in parameters)
        self._noted.append(_Noted(kind, "fully_shard", ids, len(ids), size, at, _seconds_since(at, waited_for)))

    def _note_flat(self, kind: ExchangeKind, flat: Any, size: int, at: float) -> None:
        made_of = number_made_of(flat)
        seconds = _seconds_since(at, flat)
        self._noted.append(_Noted(kind, "FullyShardedDataParallel", (id(flat),), made_of, size, at, seconds))


def _seconds_since(at: float, tensor: Any) -> float | None:
    """How long the program waited for this tensor; None on a GPU, where calls return before their work is done."""
    return perf_counter() - at if tensor is not None and tensor.device.type == "cpu" else None


def _known(parameters: Iterable[int], leaves: Mapping[int, int]) -> tuple[int, ...]:
    return tuple(leaves[each] for each in parameters if each in leaves)


def _of_wrapper(found: Sequence[Bucket], leaves: Mapping[int, int], times: RunTimes) -> Iterator[Exchange]:
    """The buckets of one wrapper."""
    last, sent = -1, _sent_by_hook(found, times)
    for bucket, size in zip(found, sent, strict=True):
        known = _known(bucket.parameters, leaves)
        last = max(last, *(times.order[each] for each in known if each in times.order), -1)
        began = max(0.0, times.ends[last] - times.began) if last >= 0 else 0.0
        yield Exchange(
            "all_reduce",
            "DistributedDataParallel",
            known,
            len(bucket.parameters),
            bucket.bytes,
            bucket.number,
            bucket.hook,
            after=last if last >= 0 else None,
            began=began,
            sent=size,
            seconds=max(0.0, times.over - times.began - began) if bucket.is_waited_for else None,
            waited=_seconds_after_last_run(times) if bucket.is_waited_for and bucket is found[-1] else None,
        )


def _sent_by_hook(found: Sequence[Bucket], times: RunTimes) -> Sequence[int | None]:
    """What the communication hook gave to others for each bucket, if it calls one collective for each."""
    unknown = [None] * len(found)
    if not any(bucket.hook for bucket in found):
        return unknown
    sent = bytes_called_since(time() - (perf_counter() - times.began))
    return sent if len(sent) == len(found) else unknown


def _seconds_after_last_run(times: RunTimes) -> float:
    return max(0.0, times.over - times.ends[-1]) if times.ends else 0.0
