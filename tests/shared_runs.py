"""Results that several tests use, made once for all worker processes."""

from __future__ import annotations

import fcntl
from collections.abc import Callable
from pathlib import Path

import pytest

Maker = Callable[[Path], None]


class SharedFolders:
    """Folders by name; the first test that asks fills a folder, others wait for it."""

    def __init__(self, base: Path) -> None:
        self._base = base

    def folder(self, name: str, fill: Maker) -> Path:
        """The folder called `name`, after `fill` has been called with it."""
        folder, done = self._base / name, self._base / f"{name}.done"
        with (self._base / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not done.exists():
                folder.mkdir(exist_ok=True)
                fill(folder)
                done.touch()
        return folder


def shared_folders(factory: pytest.TempPathFactory, worker_id: str | None) -> SharedFolders:
    """The folders of this test run; with several workers, in the parent of their folders."""
    base = factory.getbasetemp()
    return SharedFolders(base.parent if worker_id else base)
