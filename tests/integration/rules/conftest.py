"""What the tests of rules leave out of a recording, as no rule reads it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gradviz.recording.torch_access import allocators


@pytest.fixture(scope="package", autouse=True)
def no_totals_of_allocators() -> Iterator[None]:
    """For a total the C library walks all free blocks: in a process of many tests, a tenth of the time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(allocators, "read", dict)
        yield
