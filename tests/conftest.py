"""Fixtures of every test. See `tests.leftovers` for what is compared."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import hypothesis
import pytest

from tests.leftovers import changes, snapshot
from tests.shared_runs import SharedFolders, shared_folders

# For torch, which reads it when it is loaded, here and in the programs that are started: the processes of the tests
# share the cores, and a second thread in each of them waits for the first. Tests of threads say how many they want.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Python would look through all that was ever imported, again and again: an eighth of the time.
gc.set_threshold(700, 10, 1000)

# The same examples in every run, and no time limit, as machines differ.
hypothesis.settings.register_profile("gradviz", deadline=None, derandomize=True, database=None)
hypothesis.settings.load_profile("gradviz")

RULES = Path(__file__).parent / "integration" / "rules"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Have each worker run its share of the other tests first, and then of those of the rules.

    These are short, and most of all: who is done takes some of the others' at the end, and nobody waits for a long
    test. And thousands of them leave so many free blocks of memory behind that to ask the C library for the memory in
    use takes ten times as long: what records a backward for a picture asks at each.
    """
    # xdist gives each worker a part of the list, in this order.
    workers = getattr(config, "workerinput", {}).get("workercount", 1)
    of_rules = [item for item in items if RULES in item.path.parents]
    others = [item for item in items if RULES not in item.path.parents]
    items[:] = [
        item
        for parts in zip(_parts(others, workers), _parts(of_rules, workers), strict=True)
        for each in parts
        for item in each
    ]


def _parts(items: list[pytest.Item], count: int) -> Iterator[list[pytest.Item]]:
    """As many parts of equal size."""
    bounds = [len(items) * number // count for number in range(count + 1)]
    for first, end in pairwise(bounds):
        yield items[first:end]


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Use one cache folder for this test run, not that of the user."""
    os.environ["GRADVIZ_CACHE_DIR"] = str(tmp_path_factory.getbasetemp().parent / "cache")


@pytest.fixture(scope="session", autouse=True)
def no_processes_that_compile() -> None:
    """Let inductor compile in the process that asks for it.

    Each program would start processes that load torch. Torch 2.6 does so before it is asked to compile anything, and
    waits for them when the program ends: up to 300 s where one of them hangs.
    """
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")


@pytest.fixture(scope="session", autouse=True)
def vector_units_that_are_not_tried() -> None:
    """Let inductor believe what the processor says of its vector units.

    With an empty cache it would compile and run a small program for each of them first: as long as its kernels take.
    """
    os.environ.setdefault("TORCHINDUCTOR_VEC_ISA_OK", "1")


@pytest.fixture(autouse=True)
def nothing_is_left_behind() -> Iterator[None]:
    """Fail a test after which Python or torch has a hook, a mode, a patch or a setting that was not there before."""
    before = snapshot()
    yield
    left = changes(before, snapshot())
    if left:
        pytest.fail("the test left something behind:\n  " + "\n  ".join(left), pytrace=False)


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> SharedFolders:
    """Folders that are filled once for all tests and all workers."""
    return shared_folders(tmp_path_factory, os.environ.get("PYTEST_XDIST_WORKER"))
