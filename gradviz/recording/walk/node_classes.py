"""What all nodes of one class have in common: their name, their kind, and the slots that can be read from them."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

from gradviz.graph.model import Attribute, CustomFunction, NodeKind, Scalar
from gradviz.recording.forward.user_functions import custom_function_of
from gradviz.recording.torch_access.nodes import (
    SHOWS_SLOTS,
    TELLS_SAVED_TENSORS,
    python_function_class,
    raw_slots,
    saved_in,
    unpacking_slots,
)
from gradviz.recording.walk.node_kinds import is_checkpointed, kind_of_function_class, kind_of_operation

_TOP_BIT = 2**63
_SKIPPED_ATTRIBUTES = ("sym_", "scalar_type", "options", "_sizes", "_numel")
"""Parts of attribute names that only repeat shapes and dtypes of the inputs."""


@dataclass(frozen=True, slots=True)
class SavedSlot:
    """A slot in which nodes of one class keep a tensor, or a list of tensors."""

    name: str
    attribute: str
    """The attribute to read without unpacking."""
    result_nr: int | None = None
    """Which of the node's own outputs is kept here; None for inputs."""

    @property
    def unpacking_attribute(self) -> str:
        """The attribute that unpacks it."""
        return self.attribute.removeprefix("_raw")

    def numbered(self, number: int) -> SavedSlot:
        """One tensor of a list."""
        return SavedSlot(f"{self.name}[{number}]", self.attribute, self.result_nr)


@dataclass(frozen=True, slots=True)
class NodeClass:
    """What all nodes of one class have in common, read once."""

    name: str
    kind: NodeKind
    attributes: tuple[tuple[str, str], ...]
    """Non-tensor arguments: name to show, name to read."""
    first_saved: str | None
    """A slot that shows whether hooks pack the saved tensors; None for Python functions."""
    saved: tuple[SavedSlot, ...] = ()
    definition: CustomFunction | None = None
    """Where a custom function is defined."""


def read_class(wrapper: Any) -> NodeClass:
    """Read what the class of this node has; ``dir()`` is far too slow to call for each node."""
    raw = {slot.removeprefix("_raw") for slot in raw_slots(wrapper)}
    function_class = python_function_class(wrapper)
    plain = [slot for slot in unpacking_slots(wrapper) if slot not in raw and not _repeats_shapes(slot)]
    name = wrapper.name()
    kind = kind_of_operation(name) if function_class is None else kind_of_function_class(function_class)
    return NodeClass(
        name=name,
        kind=kind,
        attributes=tuple((slot.removeprefix("_saved_"), slot) for slot in plain),
        first_saved="_raw" + min(raw) if raw and function_class is None and SHOWS_SLOTS else None,
        saved=tuple(_saved_slot(slot) for slot in sorted(raw)) if TELLS_SAVED_TENSORS else (),
        definition=custom_function_of(function_class, name) if function_class and kind == "custom" else None,
    )


def can_be_read(kind: NodeKind) -> bool:
    """Compiled functions may give up what they saved when it is unpacked."""
    return SHOWS_SLOTS or kind != "compiled"


def saves_for_recomputation(wrapper: Any, node_class: NodeClass) -> bool:
    """True inside non-reentrant checkpointing, if the call was not seen: reads one packed slot, unpacks nothing."""
    try:
        raw = saved_in(wrapper, node_class.first_saved or "")
    except RuntimeError:
        return False  # freed by an earlier backward
    first = raw[0] if isinstance(raw, tuple) and raw else raw
    return is_checkpointed(first)


def _saved_slot(slot: str) -> SavedSlot:
    name = slot.removeprefix("_saved_")
    result = _RESULT.fullmatch(name)
    return SavedSlot(name, f"_raw{slot}", int(result.group(1) or 0) if result is not None else None)


_RESULT = re.compile(r"result(\d*)")


def _repeats_shapes(slot: str) -> bool:
    return any(part in slot for part in _SKIPPED_ATTRIBUTES)


def plain_value(value: Any) -> Attribute:
    """A node's attribute as a number, string or list; anything else is shown as Python prints it."""
    if isinstance(value, (list, tuple)):
        return [_scalar(element) for element in value]
    return _scalar(value)


def _scalar(value: Any) -> Scalar:
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)  # JSON has no infinity
    if isinstance(value, int):
        # torch returns signed 64-bit numbers as unsigned ones: dim=-1 is read as 2**64 - 1.
        return value - 2 * _TOP_BIT if value >= _TOP_BIT else value
    return str(value).removeprefix("torch.")
