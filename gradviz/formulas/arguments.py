"""Names for the inputs and results of a node, read from the schema of its function.

``next_functions`` has one entry for each argument that can get a gradient, in the order of the arguments; for a list of
tensors, one for each tensor.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from gradviz.formulas.derivative import Derivative

_TENSOR = re.compile(r"\bTensor(?:\([^)]*\))?\??(\[\d*\])?\??(?: (\w+))?")


@dataclass(frozen=True, slots=True)
class TensorArgument:
    """One tensor, or list of tensors, that a function takes."""

    name: str
    is_list: bool = False


def tensor_arguments(schema: str) -> tuple[TensorArgument, ...]:
    """The tensor arguments of ``cat(Tensor[] tensors, int dim=0) -> Tensor``, in order."""
    # The name before the bracket may contain Tensor, too: mul.Tensor(...).
    taken = schema.rpartition(" -> ")[0].partition("(")[2]
    return tuple(TensorArgument(found[2], bool(found[1])) for found in _TENSOR.finditer(taken))


def result_names(schema: str) -> tuple[str, ...]:
    """``values`` and ``indices``; ``result``, or ``result0`` and so on, where the results have no names."""
    _, _, given = schema.rpartition(" -> ")
    names = [found[2] for found in _TENSOR.finditer(given)]
    return ("result",) if len(names) == 1 else tuple(name or f"result{index}" for index, name in enumerate(names))


def edge_names(derivative: Derivative, count: int) -> tuple[str, ...]:
    """The argument of each of the `count` entries of ``next_functions``; empty where they do not match the schema."""
    wanted = [each for each in tensor_arguments(derivative.schema) if each.name in derivative.input_names]
    lists = [each for each in wanted if each.is_list]
    if len(lists) > 1 or (not lists and len(wanted) != count):
        return ()
    in_list = count - (len(wanted) - len(lists))
    names: list[str] = []
    for each in wanted:
        names += [f"{each.name}[{index}]" for index in range(in_list)] if each.is_list else [each.name]
    return tuple(names)
