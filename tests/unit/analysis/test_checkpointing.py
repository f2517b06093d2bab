"""What checkpointing would save: what a call keeps for itself, without what it must keep to run again."""

from __future__ import annotations

from gradviz.analysis.memory.checkpointing import checkpointing, worth_checkpointing
from tests.unit.analysis.memory_graphs import stack_of_blocks


def test_a_block_saves_what_only_it_keeps_and_still_keeps_what_it_was_given() -> None:
    found = checkpointing(stack_of_blocks(3))

    assert {path: (entry.saved_bytes, entry.operations) for path, entry in found.items()} == {
        f"model.h.{index}": (4000, 2) for index in range(3)
    }


def test_blocks_that_differ_in_a_number_share_one_advice() -> None:
    (advice,) = worth_checkpointing(checkpointing(stack_of_blocks(3)), least_bytes=1)

    assert (advice.path, advice.calls, advice.saved_bytes, advice.largest_call) == ("model.h.*", 3, 12_000, 4000)


def test_a_single_block_is_not_advised_because_the_peak_stays() -> None:
    assert worth_checkpointing(checkpointing(stack_of_blocks(1)), least_bytes=1) == []
