"""``python -m tests.mutants``: changes the code in one position at a time, and tells which changes no test notices.

Runs for hours over everything, so each module is sampled: with the same seed always at the same positions.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from queue import SimpleQueue

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

from tests.mutants.mutating import Mutant, sample
from tests.mutants.trees import ROOT, Tree
from tests.mutants.watched import tests_by_module

_BUILD = ROOT / "build" / "mutants"
_EQUIVALENT = Path(__file__).with_name("equivalent.toml")


@dataclass(frozen=True)
class Result:
    """What became of one mutant."""

    module: str
    line: int
    operator: str
    removed: str
    added: str
    outcome: str
    """killed, survived or equivalent"""
    told: str
    """The test that noticed, or why no test can."""


def main() -> int:
    """Try the sample, print the share killed of each module and all survivors; 1 where there is one."""
    options = _options()
    modules = {
        module: tests for module, tests in tests_by_module().items() if not options.only or _is_asked(module, options)
    }
    if not modules:
        sys.exit(f"no module of tests/mutants/watched.py begins with {' or '.join(options.only)}")
    trees: SimpleQueue[Tree] = SimpleQueue()
    for number in range(options.jobs):
        trees.put(Tree(_BUILD / f"tree-{number}"))
    report = _Report(_BUILD / "report.json")
    baselines = _Baselines()

    def try_module(module: str) -> None:
        tree = trees.get()
        try:
            _try_all(module, modules[module], tree, options, report, baselines)
        finally:
            trees.put(tree)

    with ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(try_module, modules))
    report.print_summary()
    return int(any(result.outcome == "survived" for result in report.results))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("only", nargs="*", help="modules, or folders of them; all of tests/mutants/watched.py")
    parser.add_argument("--sample", type=int, default=10, help="mutants of each module; 0: one for every position")
    parser.add_argument("--seed", default="1", help="another seed, another sample")
    parser.add_argument("--jobs", type=int, default=1, help="how many at the same time")
    return parser.parse_args()


def _is_asked(module: str, options: argparse.Namespace) -> bool:
    return any(module == only or module.startswith(only.rstrip("/") + "/") for only in options.only)


class _Baselines:
    """How long the tests take on right code, which must pass them: else everything would seem to be noticed."""

    def __init__(self) -> None:
        self._seconds: dict[tuple[str, ...], float] = {}
        self._lock = threading.Lock()

    def seconds(self, tree: Tree, tests: tuple[str, ...]) -> float:
        with self._lock:
            if tests not in self._seconds:
                run = tree.run(tests)
                if not run.has_passed:
                    sys.exit(f"the tests fail on the code as it is: {run.told}")
                self._seconds[tests] = run.seconds
            return self._seconds[tests]


def _try_all(
    module: str,
    tests: tuple[str, ...],
    tree: Tree,
    options: argparse.Namespace,
    report: _Report,
    baselines: _Baselines,
) -> None:
    source = (ROOT / module).read_text(encoding="utf-8")
    tree.write(module, source)
    limit = 120 + 4 * baselines.seconds(tree, tests)
    known = _known_equivalents()
    try:
        for mutant in sample(source, options.sample or sys.maxsize, f"{options.seed} {Path(module).name}"):
            reason = known.get((Path(module).name, mutant.removed, mutant.added))
            if reason is not None:
                outcome, told = "equivalent", reason
            else:
                tree.write(module, mutant.source)
                run = tree.run(tests, limit)
                outcome, told = ("survived" if run.has_passed else "killed"), run.told
            report.add(_result(module, mutant, outcome, told))
    finally:
        tree.write(module, source)


def _result(module: str, mutant: Mutant, outcome: str, told: str) -> Result:
    return Result(module, mutant.line, mutant.operator, mutant.removed, mutant.added, outcome, told)


def _known_equivalents() -> dict[tuple[str, str, str], str]:
    entries = tomllib.loads(_EQUIVALENT.read_text(encoding="utf-8")).get("mutant", [])
    return {(each["module"], each["removed"], each["added"]): each["why"] for each in entries}


class _Report:
    """All results, written after each: a run of hours may be interrupted."""

    def __init__(self, path: Path) -> None:
        self.results: list[Result] = []
        self._path = path
        self._lock = threading.Lock()

    def add(self, result: Result) -> None:
        with self._lock:
            self.results.append(result)
            self._path.write_text(json.dumps([asdict(each) for each in self.results], indent=1), encoding="utf-8")
            print(f"{result.outcome:10} {result.module}:{result.line}  {result.told}", flush=True)
            if result.outcome == "survived":
                print(f"    - {result.removed}\n    + {result.added}", flush=True)

    def print_summary(self) -> None:
        print()
        for module in sorted({result.module for result in self.results}):
            print(_share([result for result in self.results if result.module == module], module))
        print(_share(self.results, "all"))


def _share(results: Sequence[Result], name: str) -> str:
    outcomes = [result.outcome for result in results]
    killed, survived, equivalent = map(outcomes.count, ("killed", "survived", "equivalent"))
    share = f"{killed / (killed + survived):4.0%}" if killed + survived else "   –"
    left_out = f", {equivalent} equivalent left out" if equivalent else ""
    return f"{share}  {killed} of {killed + survived} killed{left_out}  {name}"


if __name__ == "__main__":
    sys.exit(main())
