"""What a node saved, read from torch in the most direct way, and without any code of gradviz."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch


def stored_tensors(node: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """Each tensor that the node keeps, by the name of its slot: ``self``, ``tensors[0]``.

    Some releases of torch do not hand out what a slot stores. There it is unpacked: the graphs that tests read so have
    no hooks on what they save, and were neither freed nor changed in place.
    """
    names = set(dir(node))
    for attribute in sorted(names):
        if not attribute.startswith("_raw_saved_"):
            continue
        name, raw = attribute.removeprefix("_raw_saved_"), getattr(node, attribute)
        slots = raw if type(raw) is tuple else (raw,)
        if any(slot is not None and not hasattr(slot, "data") for slot in slots):
            plain = f"_saved_{name}" if f"_saved_{name}" in names else "saved_tensors"
            unpacked = getattr(node, plain)
            tensors = unpacked if type(raw) is tuple else (unpacked,)
        else:
            tensors = tuple(None if slot is None else slot.data for slot in slots)
        for number, tensor in enumerate(tensors):
            if tensor is not None:
                yield (f"{name}[{number}]" if type(raw) is tuple else name), tensor
