"""Calls that compute with lists of tensors, as the calls that they are for each element.

>>> from gradviz.graph.call_log import TensorUse
>>> def use(tensor, place): return TensorUse(tensor, place, 0, False, True)
>>> both = (use(0, "0[0]"), use(1, "0[1]"), use(2, "1[0]"), use(3, "1[1]"))
>>> call = Call("torch._foreach_copy_", inputs=both, outputs=(use(0, "return[0]"), use(1, "return[1]")))
>>> [(each.function, [use.tensor for use in each.inputs]) for each in element_calls(call)]
[('torch.Tensor.copy_', [0, 2]), ('torch.Tensor.copy_', [1, 3])]
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from msgspec.structs import replace

from gradviz.graph.call_log import Call, TensorUse

_PREFIX = "torch._foreach_"


def element_calls(call: Call) -> Iterator[Call]:
    """A call for each element of the lists that ``torch._foreach_...`` takes; another call as it is."""
    if not call.function.startswith(_PREFIX):
        yield call
        return
    function = f"torch.Tensor.{call.function.removeprefix(_PREFIX)}"
    inputs, outputs = _by_element(call.inputs), _by_element(call.outputs)
    shared = tuple(inputs.pop("", ()))
    for index, uses in inputs.items():
        yield replace(call, function=function, inputs=(*uses, *shared), outputs=tuple(outputs.get(index, ())))


def _by_element(uses: tuple[TensorUse, ...]) -> dict[str, list[TensorUse]]:
    """By the place in a list: the tensors there, of all lists; without one those that belong to no list."""
    found: dict[str, list[TensorUse]] = defaultdict(list)
    for use in uses:
        place, _, index = use.place.partition("[")
        found[index].append(replace(use, place=place))
    return found
