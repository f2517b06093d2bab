"""What reading compiled regions adds to a whole run of a compiled GPT-2, as processor time, with cold and warm caches.

What Dynamo and its caches count is compared with the run without gradviz, and a difference ends the benchmark.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.benchmarks.measuring import Row, cost_of_python, times_as_long

PROGRAM = Path(__file__).parent / "programs" / "compiled_training.py"
_RECORD = ("-m", "gradviz", "record", PROGRAM, "-o", "{folder}/out.gradviz")
WAYS: dict[str, tuple[str | Path, ...]] = {
    "plain": (PROGRAM,),
    "one step read": (*_RECORD, "--keep-going", "--"),
    "every step read": (*_RECORD, "--backward", "all", "--"),
    "every step read, a second run of each (--inside)": (*_RECORD, "--backward", "all", "--inside", "--"),
}
BACKENDS = ("aot_eager", "inductor")


def measure() -> Iterator[Row]:
    for backend in BACKENDS:
        for cache in ("cold", "warm") if backend == "inductor" else ("no cache",):
            yield from _ways(backend, cache)


def _ways(backend: str, cache: str) -> Iterator[Row]:
    plain, counted = 0.0, ""
    with TemporaryDirectory() as filled:
        if cache == "warm":
            _run(WAYS["plain"], backend, filled)
        for way, arguments in WAYS.items():
            with TemporaryDirectory() as empty:
                seconds, counts = _run(arguments, backend, filled if cache == "warm" else empty)
            if way == "plain":
                plain, counted = seconds, counts
            elif counts != counted:
                sys.exit(f"{backend}, {cache}, {way}: Dynamo counts {counts}, and without gradviz {counted}")
            yield Row(f"{backend}, {cache}: {way}", seconds, times_as_long(seconds, plain))
    yield Row(f"{backend}, {cache}: counted alike", float("nan"), counted)


def _run(arguments: Iterable[str | Path], backend: str, folder: str) -> tuple[float, str]:
    """Seconds, and what was counted, with caches in this folder."""
    file = Path(folder) / "counts.json"
    with _cache_in(folder):
        command: list[str | Path] = [*(str(each).format(folder=folder) for each in arguments), backend, file]
        return cost_of_python(command).seconds, file.read_text()


@contextmanager
def _cache_in(folder: str) -> Iterator[None]:
    """The caches of inductor are in this folder; the repository can be imported from."""
    before = dict(os.environ)
    repository = str(Path(__file__).parents[2])
    os.environ.update(TORCHINDUCTOR_CACHE_DIR=f"{folder}/cache", PYTHONPATH=repository)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
