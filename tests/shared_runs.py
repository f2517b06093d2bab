"""Runs that several tests look at: made once, however many worker processes the tests are spread over."""

from __future__ import annotations

import fcntl
from collections.abc import Callable
from pathlib import Path

import pytest

Maker = Callable[[Path], None]


class SharedFolders:
    """Folders by name, each filled once by whoever asks first; the others wait for it."""

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
    """Where the folders of this test run are: beside those of the single workers, if there are any."""
    base = factory.getbasetemp()
    return SharedFolders(base.parent if worker_id else base)
