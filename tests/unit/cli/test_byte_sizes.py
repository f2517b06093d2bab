"""Sizes of memory are read in the usual notations."""

from __future__ import annotations

import pytest

from gradviz.cli.options.settings import bytes_in
from gradviz.errors import BadInput


@pytest.mark.parametrize(
    ("text", "size"),
    [("2GiB", 2 * 2**30), ("1.5 MiB", 3 * 2**19), ("2GB", 2 * 10**9), ("3k", 3072), ("1000000", 10**6), ("7 B", 7)],
)
def test_sizes_with_and_without_units(text: str, size: int) -> None:
    assert bytes_in(text, "max-saved") == size


@pytest.mark.parametrize("text", ["", "GiB", "2XB", "-1GiB", "1,5GiB", "nan"])
def test_what_is_no_size_is_shown_with_how_to_write_one(text: str) -> None:
    with pytest.raises(BadInput, match="is not a size") as refusal:
        bytes_in(text, "max-saved")
    assert "2GiB" in (refusal.value.hint or "")
