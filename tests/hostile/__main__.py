"""``make hostile``: many captures and run logs that lie, each through load, every command and every format.

The original of each mutant is the capture in ``gradviz demo``, one written by hand in which every field is used, a file
given with ``--original``, or a run log. A fault is printed with the seed that makes it again.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import tempfile
from collections import Counter
from functools import partial
from pathlib import Path
from random import Random

from tests.hostile.driving import memory_limit
from tests.hostile.mutants import Examined, examined, originals

MEMORY = 2 << 30


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.hostile", description=__doc__)
    parser.add_argument("--mutants", type=int, default=100_000)
    parser.add_argument("--first", type=int, default=0, help="the seed of the first")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--commands", type=int, default=4, help="on each mutant that is loaded; 0: all of them")
    parser.add_argument("--original", type=Path, action="append", default=[])
    options = parser.parse_args()
    seeds = range(options.first, options.first + options.mutants)
    kinds, faults, slowest = Counter[str](), Counter[str](), 0.0
    examine = partial(_examined, commands=options.commands, more=tuple(options.original))
    with multiprocessing.Pool(options.processes, memory_limit, (MEMORY,)) as pool:
        for number, result in enumerate(pool.imap_unordered(examine, seeds, chunksize=8), 1):
            kinds["refused" if result.refusal else "loaded"] += 1
            slowest = max(slowest, result.seconds)
            for fault, command in result.faults:
                faults[fault] += 1
                if faults[fault] == 1:
                    print(f"\nseed {result.seed}: {result.change}\n  {' '.join(command)}\n  {fault}", flush=True)
            if number % 1000 == 0:
                print(f"{number:,}: {dict(kinds)}, {sum(faults.values())} faults, slowest {slowest:.1f} s", flush=True)
    print(f"{len(seeds):,} mutants: {dict(kinds)}; {len(faults)} kinds of faults; slowest command: {slowest:.1f} s")
    return 1 if faults else 0


def _examined(seed: int, *, commands: int, more: tuple[Path, ...]) -> Examined:
    with tempfile.TemporaryDirectory() as folder:
        return examined(seed, originals(more), Path(folder), commands, Random(seed))


if __name__ == "__main__":
    sys.exit(main())
