"""Calls on lists of tensors, ``torch._foreach_add_(xs, ys, alpha=0.1)``, as one call for each element of the lists.

>>> from gradviz.graph.call_log import Call, TensorUse
>>> def use(tensor, place): return TensorUse(tensor, place, 0, False, False)
>>> both = (use(3, "return[0]"), use(4, "return[1]"))
>>> call = Call("torch._foreach_mul", inputs=(use(1, "0[0]"), use(2, "0[1]")), outputs=both, scalars={"1": 0.5})
>>> one = CallsOnLists([call]).single(0, 4)
>>> one.function, [use.tensor for use in one.inputs], one.scalars
('torch.mul', [2], {'1': 0.5})
>>> call = Call("torch.broadcast_tensors", inputs=(use(1, "0"), use(2, "1")), outputs=both)
>>> [use.tensor for use in CallsOnLists([call]).single(0, 4).inputs]
[2]
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from gradviz.graph.call_log import Call, TensorUse
from gradviz.graph.model import Scalar

_PREFIX = "torch._foreach_"
_ALIGNS = frozenset({"torch.broadcast_tensors", "torch.functional.broadcast_tensors"})
"""Give each tensor of a list back in the shape that all of them have together."""
_ITEM = re.compile(r"\[(\d+)\]$")
_BY_KEYWORD = {"addcmul": {"3": "value", "scalars": "value"}, "addcdiv": {"3": "value", "scalars": "value"}}
"""Numbers that a call on a tensor takes by another name than a call on lists, which takes them by position."""


class CallsOnLists:
    """The calls of a log for each element of their lists, which are taken apart once."""

    def __init__(self, calls: Sequence[Call]) -> None:
        self._calls = calls
        self._singles: dict[int, tuple[Call, ...]] = {}
        self._by_tensor: dict[int, dict[int, Call]] = {}

    def singles(self, row: int) -> tuple[Call, ...]:
        """The call for each element of its lists; any other call as it is."""
        call = self._calls[row]
        if not call.function.startswith(_PREFIX):
            return (call,)
        if row not in self._singles:
            self._singles[row] = tuple(_single_calls(call))
        return self._singles[row]

    def single(self, row: int, tensor: int) -> Call:
        """What a call on lists does for one of the tensors that it takes or returns; any other call as it is."""
        call = self._calls[row]
        if call.function in _ALIGNS:
            return _aligned(call, tensor)
        if not call.function.startswith(_PREFIX):
            return call
        if row not in self._by_tensor:
            singles = self.singles(row)
            taken = {use.tensor: each for each in singles for use in each.inputs}
            self._by_tensor[row] = taken | {use.tensor: each for each in singles for use in each.outputs}
        return self._by_tensor[row].get(tensor, call)


def _aligned(call: Call, tensor: int) -> Call:
    """What a call that aligns shapes does for one of its results, whose values are those of one tensor alone."""
    for taken, given in zip(call.inputs, call.outputs, strict=False) if len(call.inputs) == len(call.outputs) else ():
        if given.tensor == tensor:
            return replace(call, inputs=(taken,), outputs=(given,))
    return call


def _single_calls(call: Call) -> Iterator[Call]:
    inputs: dict[str | None, list[TensorUse]] = defaultdict(list)
    for use in call.inputs:
        inputs[_item(use.place)].append(use)
    numbers: dict[str | None, dict[str, Scalar]] = defaultdict(dict)
    function = call.function.removeprefix(_PREFIX)
    renamed = _BY_KEYWORD.get(function.rstrip("_"), {})
    for place, number in call.scalars.items():
        plain = _without_item(place)
        numbers[_item(place)][renamed.get(plain, plain)] = number
    name = f"torch.{function}"
    for item, use in {_item(use.place): use for use in call.outputs}.items():
        if item is not None:
            taken = sorted((*inputs[item], *inputs[None]), key=lambda use: use.place)
            yield replace(
                call,
                function=name,
                inputs=tuple([_renamed(each) for each in taken]),
                outputs=(_renamed(use),),
                scalars=numbers[None] | numbers[item],
            )


def _renamed(use: TensorUse) -> TensorUse:
    return replace(use, place=_without_item(use.place))


def _item(place: str) -> str | None:
    found = _ITEM.search(place)
    return None if found is None else found[1]


def _without_item(place: str) -> str:
    return _ITEM.sub("", place)
