"""A tensor without a name is said to be a part of one that has a name."""

from __future__ import annotations

import pytest
import torch

from gradviz.recording.forward.memory_parts import MemoryPart, index_words, memory_part_of


def part(tensor: torch.Tensor) -> MemoryPart:
    found = memory_part_of(tensor)
    assert found is not None
    return found


WHOLE = torch.arange(120).view(4, 5, 6)


@pytest.mark.parametrize(
    ("index", "words"),
    [
        ((), ""),
        ((slice(None), slice(None, -1)), "[:, :-1]"),
        ((slice(1, None),), "[1:]"),
        ((slice(1, 3), 2), "[1:3, 2]"),
        ((slice(None), -1), "[:, -1]"),
        ((0, slice(None, None, 2)), "[0, ::2]"),
        ((slice(None), slice(None), slice(2, 5)), "[:, :, 2:5]"),
    ],
)
def test_an_index_is_written_as_python_writes_it(index: tuple[slice | int, ...], words: str) -> None:
    assert index_words(part(WHOLE[index]), part(WHOLE)) == words


def test_every_written_index_leads_to_the_same_elements() -> None:
    for index in (WHOLE[1:, 2, ::3], WHOLE[3], WHOLE[:, 1:2], WHOLE[2:3, 4:, 1]):
        words = index_words(part(index), part(WHOLE))
        assert words is not None
        assert torch.equal(eval(f"WHOLE{words}"), index.reshape(eval(f"WHOLE{words}").shape))


def test_what_is_no_plain_index_has_no_words() -> None:
    assert index_words(part(WHOLE[1].T), part(WHOLE)) is None
    assert index_words(part(WHOLE.view(-1)[3:9]), part(WHOLE)) is None
    assert index_words(part(WHOLE.view(-1)), part(WHOLE)) == ""
