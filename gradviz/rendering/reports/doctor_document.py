"""What ``gradviz doctor`` found, as data: JSON for programs, and what its text is made of."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import Struct

from gradviz.capture.encoding import json_text

DOCTOR_VERSION = 1
"""Increased when a program that reads the older form would misread the newer one.

1   first form
"""

State = Literal["works", "absent", "limited", "problem"]
"""absent: optional, and not there. limited: something is lost. problem: gradviz, or recording, does not work."""


class Part(Struct, frozen=True):
    """A package, a program, a file or a device."""

    name: str
    state: State
    found: str
    """What is there: a version, a path; what is wrong with it."""
    used_for: str
    lost: str = ""
    """What does not work without it."""
    remedy: str = ""


class CapabilityResult(Struct, frozen=True):
    """One thing that gradviz takes from torch's insides."""

    name: str
    state: State
    used_for: str
    lost: str
    """What is not told where it fails; empty if nothing is lost."""
    instead: str
    """What does the work where it fails; empty if nothing does."""
    seen: str
    """The releases of torch with which it was seen to work."""
    names: tuple[str, ...]
    """What is read or replaced of torch."""


class DoctorDocument(Struct, frozen=True):
    """What ``gradviz doctor --json`` prints."""

    schema: str
    version: int
    problems: int
    limits: int
    versions: tuple[Part, ...]
    """Of Python, gradviz, torch and the packages that gradviz needs."""
    machine: tuple[Part, ...]
    """What else is used: font, cache, browser, programs, optional packages, GPU."""
    capabilities: tuple[CapabilityResult, ...]
    """Empty where torch is missing or too old."""


def doctor_document(
    versions: tuple[Part, ...], machine: tuple[Part, ...], capabilities: tuple[CapabilityResult, ...]
) -> DoctorDocument:
    """The document, with problems and limits counted."""
    states = [*(each.state for each in (*versions, *machine)), *(each.state for each in capabilities)]
    return DoctorDocument(
        "gradviz doctor",
        DOCTOR_VERSION,
        states.count("problem"),
        states.count("limited"),
        versions,
        machine,
        capabilities,
    )


def doctor_json(document: DoctorDocument) -> str:
    """The document as JSON text."""
    return json_text(document)


def doctor_schema() -> dict[str, Any]:
    """The JSON Schema of the document."""
    return msgspec.json.schema(DoctorDocument)
