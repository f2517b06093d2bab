"""``python -m tests.harmless``: every program that is at hand, plain and recorded, and what differed."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from gradviz.errors import near_matches
from tests.harmless.forked_programs import environment
from tests.harmless.running import WAYS, Comparison, Runner, compare, forked, fresh
from tests.prepared.process import PreparedProcess

PROGRAMS = Path(__file__).with_name("programs")
SAMPLES = Path(__file__).parents[2] / "samples"
FAMILIES = PROGRAMS / "families_of_the_zoo.py"


def main() -> int:
    """Compare, and print a report; 1 where anything differed."""
    parser = argparse.ArgumentParser(prog="python -m tests.harmless", description=__doc__)
    parser.add_argument("paths", nargs="*", type=Path, help="scripts, or folders of them; the collection and samples/")
    parser.add_argument("--corpus", type=Path, action="append", default=[], help="a further folder of scripts")
    parser.add_argument(
        "--family", action="append", default=[], help="a family of the zoo, by name; all of them: every"
    )
    parser.add_argument("--fresh", action="store_true", help="start each run as from a shell, torch not yet loaded")
    parser.add_argument("--way", choices=WAYS, action="append", help="how to record: every")
    parser.add_argument("--filled-cache", action="store_true", help="each run finds what an earlier one compiled")
    parser.add_argument("--verbose", action="store_true", help="say also what was disclosed")
    options = parser.parse_args()
    everything = [] if options.family else [PROGRAMS, SAMPLES]
    runs: list[tuple[Path, tuple[str, ...]]] = [
        *((script, ()) for script in _scripts([*(options.paths or everything), *options.corpus])),
        *((FAMILIES, (name,)) for name in _families(options.family)),
    ]
    began, found = time.monotonic(), []
    with tempfile.TemporaryDirectory() as folder, PreparedProcess(environment(Path(folder))) as process:
        runner: Runner = fresh if options.fresh else forked(process)
        for way in options.way or ["every"]:
            for script, arguments in runs:
                cached = options.filled_cache
                found.append(compare(script, Path(folder), runner, way, arguments, with_filled_cache=cached))
                _print(found[-1], way, verbose=options.verbose)
    _print_summary(found, time.monotonic() - began)
    return int(any(comparison.differences for comparison in found))


def _scripts(paths: list[Path]) -> Iterator[Path]:
    for path in paths:
        if path.is_dir():
            yield from sorted(each for each in path.resolve().rglob("*.py") if _is_script(each))
        elif path.is_file():
            yield path.resolve()
        else:
            sys.exit(f"no such script or folder: {path}")


def _families(names: list[str]) -> list[str]:
    if not names:
        return []
    from tests.zoo.families import families  # loads transformers

    known = [family.name for family in families()]
    for name in names:
        if name not in (*known, "every"):
            sys.exit(f"no such family: {name}; {near_matches(name, known)}")
    return known if "every" in names else names


def _is_script(path: Path) -> bool:
    """A folder that holds cases, each a folder with its own script, may hold tools of its own beside them."""
    return path.name == "script.py" or not any(path.parent.glob("*/*/script.py"))


def _print(comparison: Comparison, way: str, *, verbose: bool) -> None:
    verdict = "same" if not comparison.differences else "DIFFERS"
    print(f"{verdict:8}{way:10}{comparison.name}: {comparison.graphs} graphs, {comparison.nodes:,} nodes", flush=True)
    for difference in comparison.differences:
        print(f"    {difference}", flush=True)
    for place in comparison.varies:
        print(f"    not compared, it differs between plain runs: {place}")
    defects = [sentence for sentence in comparison.disclosures if "defect of gradviz" in sentence]
    for sentence in comparison.disclosures if verbose else defects:
        print(f"    disclosed: {sentence}")


def _print_summary(found: list[Comparison], seconds: float) -> None:
    differing = Counter(difference.place for comparison in found for difference in comparison.differences)
    graphs, nodes = (sum(getattr(each, name) for each in found) for name in ("graphs", "nodes"))
    same = sum(not comparison.differences for comparison in found)
    print(f"\n{same} of {len(found)} runs the same; {graphs:,} graphs, {nodes:,} nodes; {seconds:.0f} s")
    for place, times in differing.most_common(20):
        print(f"    {times:4} times: {place}")


if __name__ == "__main__":
    sys.exit(main())
