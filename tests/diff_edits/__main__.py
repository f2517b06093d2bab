"""Changes one operation of small real models at random, and counts how often `gradviz.diff` names it first.

``make diff-edits`` records 100 pairs with one edit each, and 100 pairs without any, all in this process, for at most
`MINUTES` minutes. What was counted until then is printed, also if it is stopped with Ctrl+C or terminated. An edit is
one of the kinds in `tests.diff_edits.edits`.
"""

from __future__ import annotations

import argparse
import gc
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NoReturn

import gradviz
from tests.diff_edits.edits import Edit, random_edit
from tests.zoo.families import families as all_families
from tests.zoo.family import Family, Subject, loss_of, seed

_KINDS = ("encoder", "decoder", "encoder-decoder", "vision")
MAX_FAMILIES = 16
"""Each is recorded once before it counts, and a part of its library is imported."""
MAX_CALLS = 900
"""Families with more torch calls in a step are left out: they take most of the time and test nothing else."""
MINUTES = 12.0


@dataclass
class Tally:
    """What was found in the pairs so far."""

    started: float
    identical: int = 0
    false_alarms: int = 0
    edited: Counter[str] = field(default_factory=Counter)
    found: Counter[str] = field(default_factory=Counter)

    def text(self) -> str:
        """The totals."""
        lines = [
            f"named first: {self.found.total()} of {self.edited.total()} edits; "
            f"false alarms: {self.false_alarms} of {self.identical} identical pairs; "
            f"{time.monotonic() - self.started:.0f} s"
        ]
        lines += [f"  {kind}: {self.found[kind]} of {count}" for kind, count in sorted(self.edited.items())]
        return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=MINUTES)
    parser.add_argument("--only", type=int, help="the number of one pair, as it is printed where it was not found")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, _stop)
    tally = Tally(time.monotonic())
    numbers = range(options.pairs) if options.only is None else [options.only]
    try:
        compare_pairs(tally, numbers, options.seed, options.minutes * 60, is_verbose=options.only is not None)
    except KeyboardInterrupt:
        print("stopped")
    finally:
        print(tally.text(), flush=True)


def _stop(*_: Any) -> NoReturn:
    raise KeyboardInterrupt


def compare_pairs(tally: Tally, numbers: Any, first_seed: int, seconds: float, *, is_verbose: bool = False) -> None:
    """For each number, a family compared with itself, and with an edited one."""
    zoo = _Zoo(first_seed)
    for number in numbers:
        if time.monotonic() - tally.started > seconds:
            print(f"{seconds / 60:g} minutes are over before pair {number}")
            return
        # Of its own for each pair, so that one pair can be repeated.
        generator = random.Random(f"{first_seed} {number}")
        family = zoo.family(number)
        plain = recorded(family, number)
        again = gradviz.diff(plain, recorded(family, number))
        tally.identical += 1
        if not again.same or again.difference.rounding is not None:
            tally.false_alarms += 1
            print(f"{number}: {family.name}: not the same as itself: {again.difference.sentence}", flush=True)
        edit, changed = _recorded_with_an_edit(family, number, generator)
        tally.edited[edit.kind] += 1
        difference = gradviz.diff(plain, changed)
        first = difference.first
        if first is not None and edit.is_named_by(first):
            tally.found[edit.kind] += 1
        else:
            print(f"{number}: {family.name}: {edit}: found {first.what if first else 'nothing'}", flush=True)
        if is_verbose:
            print(difference)
        gc.collect()


class _Zoo:
    """Small families in a random order."""

    def __init__(self, first_seed: int) -> None:
        families = [each for each in all_families() if each.kind in _KINDS and not each.hides_layers]
        random.Random(first_seed).shuffle(families)
        self._waiting = families[::-1]
        self._ready: list[Family] = []

    def family(self, number: int) -> Family:
        """The family of this pair: the first pairs try new ones, then they come again in turn."""
        index = number % MAX_FAMILIES
        while len(self._ready) <= index and self._waiting:
            family = self._waiting.pop()
            # Libraries keep what they compute in a first step, such as positions: a second one has fewer operations.
            calls = recorded(family, 0).capture.calls
            if calls is not None and len(calls.calls) <= MAX_CALLS:
                self._ready.append(family)
        return self._ready[index % len(self._ready)]


def recorded(family: Family, number: int, edit: Callable[[Subject], None] | None = None) -> gradviz.Recording:
    """One step of the family."""
    seed(number)
    subject = family.make()
    if edit is not None:
        edit(subject)
    seed(number)
    with gradviz.record(fingerprints=True, backward=1, model=subject.model) as recording:
        loss = loss_of(subject.model(**subject.inputs))
        if loss.requires_grad:  # not if an edit has cut it off
            loss.backward()  # type: ignore[no-untyped-call]
    return recording


def _recorded_with_an_edit(family: Family, number: int, generator: random.Random) -> tuple[Edit, gradviz.Recording]:
    edits: list[Edit] = []
    recording = recorded(family, number, lambda subject: edits.append(random_edit(subject.model, generator)))
    return edits[0], recording


if __name__ == "__main__":
    main()
