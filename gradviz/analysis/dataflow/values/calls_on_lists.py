"""Calls on lists of tensors, ``torch._foreach_add_(xs, ys, alpha=0.1)``, as one call for each element of the lists.

>>> from gradviz.graph.call_log import Call, TensorUse
>>> def use(tensor, place): return TensorUse(tensor, place, 0, False, False)
>>> both = (use(3, "return[0]"), use(4, "return[1]"))
>>> call = Call("torch._foreach_mul", inputs=(use(1, "0[0]"), use(2, "0[1]")), outputs=both, scalars={"1": 0.5})
>>> one = as_single_call(call, 4)
>>> one.function, [use.tensor for use in one.inputs], one.scalars
('torch.mul', [2], {'1': 0.5})
"""

from __future__ import annotations

import re

from msgspec.structs import replace

from gradviz.graph.call_log import Call, TensorUse

_PREFIX = "torch._foreach_"
_ITEM = re.compile(r"\[(\d+)\]$")


def as_single_call(call: Call, tensor: int) -> Call:
    """What a call on lists does for one of the tensors that it returns; any other call as it is."""
    if not call.function.startswith(_PREFIX):
        return call
    item = next((_item(use.place) for use in call.outputs if use.tensor == tensor), None)
    return call if item is None else _element(call, item)


def single_calls(call: Call) -> tuple[Call, ...]:
    """The call for each element of its lists; any other call as it is."""
    if not call.function.startswith(_PREFIX):
        return (call,)
    items = dict.fromkeys(item for use in call.outputs if (item := _item(use.place)) is not None)
    by_item: dict[str | None, list[TensorUse]] = {}
    for use in call.inputs:
        by_item.setdefault(_item(use.place), []).append(use)
    outputs = {_item(use.place): use for use in call.outputs}
    return tuple(_made_of(call, item, by_item.get(item, []), by_item.get(None, []), outputs[item]) for item in items)


def _element(call: Call, item: str) -> Call:
    own = [use for use in call.inputs if _item(use.place) == item]
    for_all = [use for use in call.inputs if _item(use.place) is None]
    return _made_of(call, item, own, for_all, next(use for use in call.outputs if _item(use.place) == item))


def _made_of(call: Call, item: str, own: list[TensorUse], for_all: list[TensorUse], output: TensorUse) -> Call:
    name = "torch." + call.function.removeprefix(_PREFIX)
    numbers = {place: number for place, number in call.scalars.items() if _item(place) is None}
    numbers |= {_without_item(place): number for place, number in call.scalars.items() if _item(place) == item}
    inputs = sorted((*own, *for_all), key=lambda use: use.place)
    return replace(
        call,
        function=name,
        inputs=tuple([_renamed(use) for use in inputs]),
        outputs=(_renamed(output),),
        scalars=numbers,
    )


def _renamed(use: TensorUse) -> TensorUse:
    return replace(use, place=_without_item(use.place))


def _item(place: str) -> str | None:
    found = _ITEM.search(place)
    return None if found is None else found[1]


def _without_item(place: str) -> str:
    return _ITEM.sub("", place)
