"""Writes a file completely or not at all, whatever ends the process in the middle."""

from __future__ import annotations

import os
import secrets
import shutil
from pathlib import Path


def write_whole_file(path: Path, data: bytes) -> None:
    """Write `data` to a new file in the same folder, which then gets the name; an older file stays until then.

    Missing folders are made. Raises `OSError` wherever the system does, and then leaves the older file as it was.
    """
    # The target of a link is replaced, not the link.
    target = Path(os.path.realpath(path))
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.parent / f".gradviz-{os.getpid()}-{secrets.token_hex(4)}"
    try:
        with temporary.open("xb") as file:
            file.write(data)
        if target.exists():
            shutil.copymode(target, temporary)
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
