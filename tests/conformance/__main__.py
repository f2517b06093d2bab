"""Examines gradviz on material that this project did not write, and prints one report.

``python -m tests.conformance [PART ...] [--share N] [--first] [--only PATTERN] [--jobs N] [--limit SECONDS]
[--backend NAME]``; exits with 1 if anything failed.
Each part is a module with ``NOUN``, what its subjects are called, and ``examine(order) -> Tally``.
"""

from __future__ import annotations

import argparse
import sys
import time
from importlib import import_module

from tests.conformance.order import Order

PARTS = {
    "operators": "tests.conformance.operators",
    "modules": "tests.conformance.modules",
    "unusual": "tests.conformance.unusual",
    "families": "tests.zoo.examination",
    "compiled": "tests.conformance.compiled",
}
"""By name, in the order in which they run."""


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"which of {', '.join(PARTS)}; without any, all")
    parser.add_argument("--share", type=int, default=1, metavar="N", help="only one in N samples")
    parser.add_argument("--first", action="store_true", help="only the first sample of each subject")
    parser.add_argument("--only", default="*", metavar="PATTERN", help="only subjects with such a name: 'linalg.*'")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="processes; 2 if not given")
    parser.add_argument("--limit", type=float, default=Order.limit, metavar="SECONDS", help="for a compiled family")
    parser.add_argument("--backend", default=Order.backend, metavar="NAME", help="of compiled families: inductor")
    given = parser.parse_args(arguments)
    for name in given.parts:
        if name not in PARTS:
            parser.error(f"there is no part {name!r}; there are {', '.join(PARTS)}")
    order = Order(given.share, given.only, given.jobs, given.first, given.limit, given.backend)
    reports = [_examine(name, order) for name in given.parts or PARTS]
    return 1 if any(reports) else 0


def _examine(name: str, order: Order) -> int:
    """Run one part and print what it found; how many samples failed."""
    module = import_module(PARTS[name])
    start = time.perf_counter()
    tally = module.examine(order)
    print(f"\n{name}: {time.perf_counter() - start:,.0f} s")
    for line in tally.report(module.NOUN):
        print(line, flush=True)
    return len(tally.failures)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
