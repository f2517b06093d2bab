"""What the tests of rules leave out of a recording, as no rule reads it."""

from __future__ import annotations

import pytest

from gradviz.recording.torch_access import allocators


@pytest.fixture(autouse=True)
def no_totals_of_allocators(monkeypatch: pytest.MonkeyPatch) -> None:
    """For a total the C library walks all free blocks: in a process of many tests, a tenth of the time."""
    monkeypatch.setattr(allocators, "read", dict)
