"""Everything that is required of one sample."""

from __future__ import annotations

import json
import re
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from xml.etree import ElementTree

import torch

from gradviz.capture.capture import Capture
from gradviz.capture.capture_file import read_capture, write_capture
from gradviz.graph.invariants import check_graph
from gradviz.inspection import Inspection
from tests.conformance.bits import difference
from tests.conformance.comparison import differences
from tests.conformance.runs import NoTest, Run, first_line, plain_runs_elsewhere, run_plain, run_recorded, run_watched
from tests.conformance.sample import Sample
from tests.conformance.tally import Tally

EVERY_NTH_IS_DRAWN = 10
"""Pictures and tables take longer than all the rest."""


def examine(sample: Sample, tally: Tally, before_recording: Callable[[], object]) -> None:
    """Run the sample and count what came of it."""
    tally.subjects[sample.subject] += 0
    try:
        plain = run_plain(sample)
        problems = list(_problems(sample, plain, tally, before_recording))
    except NoTest as reason:
        tally.skipped[f"samples: {reason}"] += 1
        return
    except Exception as error:  # of gradviz while it reads, writes or draws, or of what looks for faults
        last = traceback.extract_tb(error.__traceback__)[-1]
        problems = [f"{first_line(error)} ({Path(last.filename).name}:{last.lineno})"]
    tally.subjects[sample.subject] += 1
    if problems:
        tally.failures.append(f"{sample.name}: {'; '.join(problems[:3])}")
    else:
        tally.passed += 1


def _problems(sample: Sample, plain: Run, tally: Tally, before_recording: Callable[[], object]) -> Iterator[str]:
    watched, known = run_watched(sample)
    if any(_changes(plain, watched)):
        raise NoTest(_UNSTEADY)
    before_recording()
    try:
        recorded, capture = run_recorded(sample)
    except Exception as error:
        yield f"recording raised {first_line(error)}"
        return
    changes = list(_changes(plain, recorded))
    if changes and _is_unsteady(sample, plain):
        raise NoTest(_UNSTEADY)
    yield from (f"recorded, {change}" for change in changes)
    yield from (sentence for sentence in capture.disclosures if "defect of gradviz" in sentence)
    tally.told.update({re.sub(r"\b\d[\d,]*\b", "N", sentence) for sentence in capture.disclosures})
    if len(capture.graphs) != 1:
        yield f"{len(capture.graphs)} graphs"
        return
    (graph,) = capture.graphs
    tally.nodes += len(graph.nodes)
    check_graph(graph)
    yield from differences(graph, known, plain)
    yield from _wrong_forms(capture, pictures=tally.subjects.total() % EVERY_NTH_IS_DRAWN == 0)


_UNSTEADY = "torch itself gives other numbers, gradients or errors when the same is run again"


def _is_unsteady(sample: Sample, plain: Run) -> bool:
    """Whether plain runs differ among themselves: some results depend on where in memory the inputs happen to lie."""
    return any(any(_changes(plain, again)) for again in plain_runs_elsewhere(sample))


def _changes(plain: Run, other: Run) -> Iterator[str]:
    """What is not as in the plain run."""
    if plain.error != other.error:
        yield f"backward ended with {other.error} instead of {plain.error}"
    for what in ("outputs", "gradients"):
        for place, (one, two) in enumerate(zip(getattr(plain, what), getattr(other, what), strict=True)):
            told = difference(one, two) if plain.error is None or what == "outputs" else None
            if told is not None:
                yield f"{what}[{place}]: {told}"
    if not torch.equal(plain.random_state, other.random_state):
        yield "the state of the random generator differs"


def _wrong_forms(capture: Capture, *, pictures: bool) -> Iterator[str]:
    """The capture's file, and what is drawn and printed of it."""
    content = write_capture(capture)
    again = read_capture(content, "capture")
    if write_capture(again) != content:
        yield "written, read and written again, its file differs"
    inspection = Inspection(again)
    yield from _too_short(inspection.tree(width=100), "tree")
    yield from _too_short(inspection.dot(show_all=True), "dot")
    if pictures:
        ElementTree.fromstring(inspection.svg())
        ElementTree.fromstring(inspection.render("graphml"))
        json.loads(inspection.render("json"), parse_constant=_refuse)
        yield from _too_short(inspection.memory(), "memory")
        yield from _too_short(str(inspection.render("mermaid")), "mermaid")


def _too_short(text: str, form: str) -> Iterator[str]:
    """One line is at most a heading."""
    if text.count("\n") < 2:
        yield f"{form} shows nothing"


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")
