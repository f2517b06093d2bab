"""Reads whole files."""

from __future__ import annotations

from pathlib import Path

from gradviz.errors import BadInput


def content_of(path: Path) -> bytes:
    """Everything in the file at `path`; `BadInput` says in one line why it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise BadInput(f"cannot read {str(path)!r}: {error.strerror}") from error
    except ValueError as error:  # a zero byte in its name
        raise BadInput(f"cannot read {str(path)!r}: {error}", hint="no file can have such a name") from error
