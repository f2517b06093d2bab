"""Which rank of a job this process is: as its process group says, else as its launcher has set the environment."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

from gradviz.capture.capture import Rank
from gradviz.recording.ranks.job_folder import own_host

_TRIED = "gloo"


def untried_backend(rank: Rank) -> Iterator[str]:
    """A sentence if gradviz was never tried with the backend of the process group."""
    if rank.backend and rank.backend != _TRIED:
        yield f"what {rank.backend} does otherwise than {_TRIED}: gradviz was never tried with this backend"


def rank_in_group(job: str) -> Rank | None:
    """The rank in the process group of this process; None as long as there is none of several processes."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    if distributed.get_world_size() < 2:
        return None
    backend = str(distributed.get_backend())
    return Rank(distributed.get_rank(), distributed.get_world_size(), job, own_host(), backend)


def rank_in_environment(job: str) -> Rank | None:
    """The rank that ``RANK`` and ``WORLD_SIZE`` tell, which torchrun and others set; None for a world of one."""
    rank, world_size = os.environ.get("RANK", ""), os.environ.get("WORLD_SIZE", "")
    if not (rank.isdecimal() and world_size.isdecimal()) or not int(rank) < int(world_size) > 1:
        return None
    return Rank(int(rank), int(world_size), job, own_host())
