"""What a snapshot of a run says, and how one is compared with the file that was kept."""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import unified_diff

from gradviz.analysis.case import Case
from gradviz.analysis.check.report import Report
from gradviz.analysis.diff.recorded_runs import runs_of
from gradviz.analysis.diff.runs import Run
from gradviz.analysis.memory.kept_memory import memory_of
from gradviz.analysis.parameters.parameter_outcomes import outcomes
from gradviz.analysis.snapshot.structure_lines import structure_lines
from gradviz.capture.capture import Capture
from gradviz.errors import BadInput
from gradviz.graph.number_words import byte_words, counted
from gradviz.safe_text import one_line, printable

HEADER = "gradviz snapshot 1"
_MEMORY = re.compile(r"^  (?P<bytes>\d{1,18}) bytes\b.*$", re.MULTILINE)
_NUMBER = re.compile(r"\.\d+(?=\.|$)")
_MAX_NAMES = 3
_CONTEXT = 2
"""Lines shown around each difference."""


def snapshot_of(capture: Capture, report: Report) -> str:
    """The text of a snapshot: structure and shapes, parameters, findings, and the memory kept for backward."""
    run = runs_of(capture)
    sections = (
        ("structure", structure_lines(run)),
        ("parameters", list(_parameter_lines(capture))),
        ("findings", sorted(_finding_lines(report))),
        ("memory kept for backward", list(_memory_lines(run, capture))),
    )
    lines = [HEADER]
    for title, content in sections:
        lines += ["", title, *(f"  {printable(line)}" for line in content or ["none"])]
    return "\n".join(lines) + "\n"


def _parameter_lines(capture: Capture) -> Iterator[str]:
    case = Case(capture)
    log = capture.calls
    if log is None:
        return
    groups: dict[tuple[str, str], list[str]] = {}
    for outcome in outcomes(case):
        tensor = log.tensors[outcome.tensor]
        name = tensor.names[0] if tensor.names else "a parameter without a name"
        facts = f"({', '.join(map(str, tensor.facts.shape))}) {tensor.facts.dtype}: {outcome.kind}"
        # Parameters of repeated layers, whose names differ by a number, have one line.
        groups.setdefault((_NUMBER.sub(".*", name), facts), []).append(name)
    for (pattern, facts), names in groups.items():
        yield f"{names[0]} {facts}" if len(names) == 1 else f"{pattern} {facts}  x {len(names)}"


def _finding_lines(report: Report) -> Iterator[str]:
    """Without line numbers, which every edit above changes."""
    for finding in report.findings:
        source = report.line_at(finding.location).strip()
        tensors = ", ".join(finding.tensors[:_MAX_NAMES])
        if len(finding.tensors) > _MAX_NAMES:
            tensors += f" and {len(finding.tensors) - _MAX_NAMES} more"
        tensors = f" of {tensors}" if tensors else ""
        yield f"{finding.severity} {finding.code} {finding.cause}{tensors}{f': {one_line(source)}' if source else ''}"


def _memory_lines(run: Run, capture: Capture) -> Iterator[str]:
    if run.graph is None:
        return
    size = memory_of(run.graph).saved_bytes
    yield f"{size} bytes ({byte_words(size)})"
    if len(capture.graphs) > 1:
        yield f"of the first of {len(capture.graphs)} recorded backward calls"


def difference_from(kept: str, now: str, name: str, *, tolerance: float) -> str:
    """What is different as text, empty if nothing is; raises `BadInput` if the file is no snapshot.

    Args:
        tolerance: how much more or less memory may be kept, as a part of it.
    """
    if not kept.startswith(f"{HEADER}\n"):
        raise BadInput(f"{name} is not a snapshot that this gradviz reads", hint="write it with --gradviz-update")
    memory = _memory_change(kept, now, tolerance)
    if memory == "":
        line = _MEMORY.search(kept)
        assert line is not None, "both have the line"
        now = _MEMORY.sub(lambda _: line.group(), now, count=1)
    if kept == now:
        return ""
    lines = unified_diff(kept.splitlines(), now.splitlines(), name, "now", lineterm="", n=_CONTEXT)
    shown = [line for line in lines if not line.startswith("@@ ")]
    return "\n".join([*_in_short(kept, now, memory), *shown])


def _memory_change(kept: str, now: str, tolerance: float) -> str | None:
    """Empty within the tolerance, None if one of them does not say how much it is."""
    before, after = (_MEMORY.search(text) for text in (kept, now))
    if before is None or after is None:
        return None
    one, other = int(before["bytes"]), int(after["bytes"])
    if abs(other - one) <= tolerance * one:
        return ""
    ratio = f", {other / one:.3g} times as much" if one else ""
    return f"memory kept for backward: {byte_words(one)} before, {byte_words(other)} now{ratio}"


def _in_short(kept: str, now: str, memory: str | None) -> Iterator[str]:
    """One line for each section that differs."""
    before, after = _sections(kept), _sections(now)
    for title in dict.fromkeys((*before, *after)):
        old, new = before.get(title, []), after.get(title, [])
        if old == new:
            continue
        if title.startswith("memory") and memory:
            yield memory
            continue
        gone, come = len(set(old) - set(new)), len(set(new) - set(old))
        yield (
            f"{title}: {counted(gone, 'line')} gone, {come} new"
            if gone or come
            else f"{title}: in another order or number"
        )


def _sections(text: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    title = ""
    for line in text.splitlines():
        if line and not line.startswith(" "):
            title = line
            found[title] = []
        elif line:
            found[title].append(line)
    return found
