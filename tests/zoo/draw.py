"""``python -m tests.zoo.draw NAME FILE...``: one recorded step of a family, written as what the suffixes say."""

from __future__ import annotations

import sys

from tests.zoo.families import families
from tests.zoo.training_step import recorded_step


def main(name: str, *files: str) -> None:
    """Record the step, and write each file."""
    (family,) = [family for family in families() if family.name == name]
    recording = recorded_step(family).recording
    assert recording is not None
    for file in files:
        print("wrote", recording.save(file))


if __name__ == "__main__":
    main(*sys.argv[1:])
