"""Fixtures of the tests of recording."""

from __future__ import annotations

import os

import pytest

from tests.end_to_end.shared_runs import SharedFolders, shared_folders


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> SharedFolders:
    """Folders that are filled once for all tests and all workers."""
    return shared_folders(tmp_path_factory, os.environ.get("PYTEST_XDIST_WORKER"))
