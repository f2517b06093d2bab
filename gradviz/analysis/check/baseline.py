"""Findings that existed before, kept in a file, so that only new ones count."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import msgspec
from msgspec import Struct

from gradviz.analysis.finding import Finding, SourceText, text_at
from gradviz.capture.encoding import json_text, writable
from gradviz.errors import BadInput
from gradviz.graph.query.own_line import file_name, path_parts

BASELINE_VERSION = 1


class KnownFinding(Struct, frozen=True, omit_defaults=True):
    """The fields that identify a finding, without its line number, which every edit above changes."""

    code: str
    file: str = ""
    source: str = ""
    """The text of the line, without blanks around it."""
    tensors: tuple[str, ...] = ()


class Baseline(Struct, frozen=True):
    """The findings of one program at one time."""

    program: str
    findings: tuple[KnownFinding, ...]
    schema: str = "gradviz baseline"
    version: int = BASELINE_VERSION


def baseline_of(program: str, findings: Iterable[Finding], source: SourceText) -> bytes:
    """The content of a baseline file."""
    known = tuple(_known(finding, source) for finding in findings)
    return json_text(Baseline(program, known)).encode()


def read_baseline(content: bytes, name: str, program: str) -> Baseline:
    """Read a baseline; raises `BadInput` if the file is no baseline, or belongs to another program."""
    try:
        baseline = msgspec.json.decode(content, type=Baseline)
    except msgspec.DecodeError as error:
        raise BadInput(f"{name} is not a baseline: {error}", hint="write one with --write-baseline") from error
    if baseline.schema != "gradviz baseline" or baseline.version != BASELINE_VERSION:
        raise BadInput(f"{name} is not a baseline that this gradviz reads", hint="write one with --write-baseline")
    if not _is_same(baseline.program, writable(program)):
        raise BadInput(f"{name} is the baseline of {baseline.program}, not of {program}")
    return baseline


def _is_same(known: str, program: str) -> bool:
    """Whether both can name one program, as seen from two folders: ``train.py`` and ``src/train.py``."""
    one, other = path_parts(known), path_parts(program)
    shared = min(len(one), len(other))
    return one[-shared:] == other[-shared:]


def without_known(
    baseline: Baseline, findings: Iterable[Finding], source: SourceText
) -> tuple[list[Finding], list[Finding]]:
    """The new findings, and those that the baseline contains: each of its entries matches one finding."""
    known = Counter(baseline.findings)
    new: list[Finding] = []
    old: list[Finding] = []
    for finding in findings:
        key = _known(finding, source)
        if known[key]:
            known[key] -= 1
            old.append(finding)
        else:
            new.append(finding)
    return new, old


def _known(finding: Finding, source: SourceText) -> KnownFinding:
    file = "" if finding.location is None else file_name(writable(finding.location.file))
    text = writable(text_at(source, finding.location).strip())
    return KnownFinding(finding.code, file, text, tuple(map(writable, finding.tensors)))
