"""torch's flight recorder: which collectives this process has called, with sequence numbers, shapes and stacks.

`recording.ranks.environment.record_collectives` turns it on. Torch 2.6 has it for NCCL only, and without the name that
is read here.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

from gradviz.recording.torch_access.capabilities import note_failure, works
from gradviz.recording.torch_access.name_lookup import find

CAPABILITY = "flight recorder"


def entries(*, with_stacks: bool = True) -> list[dict[str, Any]]:
    """What torch recorded, in order; empty if it does not record, or this torch has no such recorder."""
    if not works(CAPABILITY):
        return []
    try:
        return [each for dump in _dumps(with_stacks) for each in pickle.loads(dump).get("entries", ())]
    except Exception:  # its format is private, and what has moved is not known
        note_failure(CAPABILITY)
        return []


def _dumps(with_stacks: bool) -> Iterator[bytes]:
    """Of gloo and other backends without a device, and of NCCL, which has a recorder of its own."""
    for name in ("_dump_fr_trace", "_dump_nccl_trace"):
        dump = find(f"torch._C._distributed_c10d.{name}")
        if dump is not None:
            yield dump(True, with_stacks, False)
