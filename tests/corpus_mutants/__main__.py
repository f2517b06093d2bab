"""``python -m tests.corpus_mutants``: plants faults in healthy programs, and scores what is said.

Prints a table by operator: how many first findings of ``gradviz check`` name a right cause, a line that one would
edit, and both; in how many nothing was found, and in how many of these at least a note tells cause and line. README.md
beside this file tells more.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TypeVar

from tests.corpus_mutants.mutants import in_turns, is_program_set_aside, is_set_aside, mutants, programs
from tests.corpus_mutants.planting import Mutant, Program
from tests.corpus_mutants.running import Runner, Trace, has_history, is_fault

BUILD = Path(__file__).parents[2] / "build" / "corpus_mutants"

Asked = TypeVar("Asked")
Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Score:
    """One mutant, and what was said of its fault."""

    name: str
    program: str
    operator: str
    raised: bool
    cause: bool
    line: bool
    silent: bool
    noted: bool
    """Whether nothing above a note was found, but a note has a right cause and line."""
    failure: str | None
    lines: list[int]
    said: list[list[Any]]


@dataclass(frozen=True)
class _Limits:
    """When to stop."""

    size: int
    """Mutants to score; 0 for all."""
    end: float
    """On the clock of `time.monotonic`."""

    def are_reached(self, scored: int) -> bool:
        return (self.size > 0 and scored >= self.size) or time.monotonic() > self.end


class _Traces:
    """The runs of the healthy programs, each made when it is first needed."""

    def __init__(self, runner: Callable[[], Runner], healthy: Iterable[Program]) -> None:
        self._runner = runner
        self._programs = {program.name: program for program in healthy}
        self._known: dict[str, Trace] = {}

    def of(self, name: str) -> Trace:
        """The run of one; two workers may make it at once, which gives the same twice."""
        if name not in self._known:
            trace = self._runner().trace(self._programs[name].text)
            if trace is None or trace.raised:
                raise RuntimeError(f"the healthy program {name} does not run: {trace and trace.raised}")
            self._known[name] = trace
        return self._known[name]


def main() -> int:
    """Score a sample, and print the tables."""
    options = _options()
    threads = threading.local()
    runners: SimpleQueue[Runner] = SimpleQueue()

    def runner() -> Runner:
        if not hasattr(threads, "runner"):
            threads.runner = Runner()
            runners.put(threads.runner)
        return threads.runner  # type: ignore[no-any-return]

    with ThreadPoolExecutor(options.jobs) as pool:
        try:
            return _scored(options, pool, runner)
        finally:
            while not runners.empty():
                runners.get().close()


def _scored(options: argparse.Namespace, pool: ThreadPoolExecutor, runner: Callable[[], Runner]) -> int:
    healthy = [each for each in programs() if is_program_set_aside(each.name) <= options.set_aside]
    traces = _Traces(runner, healthy)
    alarms: dict[str, list[Any]] = {}
    if not options.only or "healthy" in options.only:
        asked = [each for each in healthy if is_program_set_aside(each.name) == options.set_aside]
        for program, said in zip(asked, pool.map(lambda p: runner().check(p.text), asked), strict=True):
            if said.findings or said.failure:
                alarms[program.name] = [_row(each) for each in said.findings] or [said.failure]
        print(f"healthy programs: {len(asked)}, with an alarm: {len(alarms)}")
        for name, rows in alarms.items():
            print(f"  {name}: {rows}")
    found = [
        mutant
        for program in healthy
        for mutant in mutants(program)
        if is_set_aside(mutant) == options.set_aside
        and (not options.only or any(word in mutant.name for word in options.only))
    ]
    end = time.monotonic() + 60 * options.minutes if options.minutes else math.inf
    scores = _score_all(in_turns(found), traces, _Limits(options.sample, end), pool, runner)
    BUILD.mkdir(parents=True, exist_ok=True)
    report = {"alarms": alarms, "scores": [asdict(score) for score in scores]}
    options.json.write_text(json.dumps(report, indent=1) + "\n")
    _print_table(scores)
    return 0


def _score_all(
    found: list[Mutant],
    traces: _Traces,
    limits: _Limits,
    pool: ThreadPoolExecutor,
    runner: Callable[[], Runner],
) -> list[Score]:
    scores: list[Score] = []

    def score(mutant: Mutant) -> Score | None:
        if limits.are_reached(len(scores)):
            return None
        healthy = traces.of(mutant.program)
        trace = runner().trace(mutant.source)
        if not is_fault(mutant, healthy, trace) or not has_history(mutant, runner()):
            return None
        assert trace is not None
        (BUILD / "scripts").mkdir(parents=True, exist_ok=True)
        (BUILD / "scripts" / f"{mutant.name}.py").write_text(mutant.source, encoding="utf-8")
        said = runner().check(mutant.source)
        first = said.findings[:1]
        scored = Score(
            mutant.name,
            mutant.program,
            mutant.operator.name,
            trace.raised is not None,
            any(each["cause"] in mutant.operator.causes for each in first),
            any(each.get("line") in mutant.lines for each in first),
            not said.findings,
            not said.findings
            and any(
                each["cause"] in mutant.operator.causes and each.get("line") in mutant.lines for each in said.notes
            ),
            said.failure,
            sorted(mutant.lines),
            [_row(each) for each in said.findings[:3]],
        )
        scores.append(scored)
        return scored

    done = list(pool.map(score, found))
    return [each for each in done if each is not None]


def _row(finding: dict[str, Any]) -> list[Any]:
    return [finding["code"], finding["cause"], finding.get("line")]


def _print_table(scores: list[Score]) -> None:
    groups: dict[str, list[Score]] = defaultdict(list)
    for score in scores:
        groups[score.operator].append(score)
    titles = ("cause", "line", "both", "nothing found", "of it, a note")
    print(f"\n{'operator':<36}{'n':>5}{''.join(f'{title:>15}' for title in titles)}")
    raising, quiet = ([s for s in scores if s.raised == raised] for raised in (True, False))
    rows = [*sorted(groups.items()), ("that raise", raising), ("that do not raise", quiet), ("all", scores)]
    for name, group in rows:
        shares = (
            _share(s.cause for s in group),
            _share(s.line for s in group),
            _share(s.cause and s.line for s in group),
            _share(s.silent for s in group),
            _share(s.noted for s in group),
        )
        print(f"{name:<36}{len(group):>5}{''.join(f'{share:>15}' for share in shares)}")
    failures = [score for score in scores if score.failure]
    print(f"operators: {len(groups)}; failures of gradviz: {len(failures)}")
    for score in failures:
        print(f"  {score.name}: {score.failure}")


def _share(values: Iterable[bool]) -> str:
    listed = list(values)
    return f"{100 * sum(listed) / len(listed):.0f} %" if listed else "-"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("only", nargs="*", help="parts of names: of programs, operators or mutants; or 'healthy'")
    parser.add_argument("--sample", type=int, default=0, help="this many mutants, each operator in turn (default: all)")
    parser.add_argument("--set-aside", action="store_true", help="those on which rules are not developed")
    parser.add_argument("--minutes", type=float, default=0, help="start no further mutant after so many minutes")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", type=Path, default=BUILD / "scores.json")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
