"""What holds for every test. See `tests.leftovers` for what is compared."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.leftovers import changes, snapshot


@pytest.fixture(autouse=True)
def nothing_is_left_behind() -> Iterator[None]:
    """Fail a test after which Python or torch has a hook, a mode, a patch or a setting that was not there before."""
    before = snapshot()
    yield
    left = changes(before, snapshot())
    if left:
        pytest.fail("the test left something behind:\n  " + "\n  ".join(left), pytrace=False)
