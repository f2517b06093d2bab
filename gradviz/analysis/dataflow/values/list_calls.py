"""Calls of ``torch._foreach_add_(these, those)`` and their like, as one call for each element of their lists.

>>> from gradviz.graph.call_log import Call, TensorUse
>>> def use(tensor, place): return TensorUse(tensor, place, 0, False, True)
>>> call = Call("torch._foreach_mul_", inputs=(use(0, "0[0]"), use(1, "0[1]"), use(2, "1")),
...             outputs=(use(0, "return[0]"), use(1, "return[1]")))
>>> [(each.function, [given.tensor for given in each.inputs]) for each in elements_of(call)]
[('torch.Tensor.mul_', [0, 2]), ('torch.Tensor.mul_', [1, 2])]
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

from msgspec.structs import replace

from gradviz.graph.call_log import Call, TensorUse

_OF_LISTS = "torch._foreach_"
_ELEMENT = re.compile(r"(\w+)\[(\d+)\]$")


def elements_of(call: Call) -> Iterator[Call]:
    """A call for each element of the lists that a call was given, with the tensors that it was given beside the lists;
    the call itself if it is of single tensors."""
    if not call.function.startswith(_OF_LISTS):
        yield call
        return
    inputs, outputs = _by_element(call.inputs), _by_element(call.outputs)
    shared = inputs.pop(None, [])
    function = f"torch.Tensor.{call.function.removeprefix(_OF_LISTS)}"
    for index, uses in inputs.items():
        # Numbers of a list, one for each element, take the place of a number for all.
        own = {
            place.partition("[")[0]: number
            for place, number in call.scalars.items()
            if "[" not in place or place.endswith(f"[{index}]")
        }
        yield replace(
            call, function=function, inputs=(*uses, *shared), outputs=tuple(outputs.get(index, ())), scalars=own
        )


def _by_element(uses: tuple[TensorUse, ...]) -> dict[int | None, list[TensorUse]]:
    """The tensors by their number in a list; under None those that are in no list."""
    found: dict[int | None, list[TensorUse]] = defaultdict(list)
    for use in uses:
        match = _ELEMENT.match(use.place)
        if match is None:
            found[None].append(use)
        else:
            found[int(match[2])].append(
                TensorUse(
                    use.tensor, match[1], use.version, use.requires_grad, use.is_leaf, use.values, use.fingerprint
                )
            )
    return found
