"""What ``gradviz doctor`` looks at: versions, files, programs and packages here, and torch if there is one."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING

from gradviz.errors import MissingDependency
from gradviz.rendering.reports.doctor_document import CapabilityResult, DoctorDocument, Part, State, doctor_document

if TYPE_CHECKING:
    from gradviz.recording.doctor import TriedTorch
    from gradviz.recording.torch_access.capabilities import Capability

DISTRIBUTION = "gradviz-inspector"

PACKAGES = {
    "msgspec": "recordings and JSON",
    "click": "the command line",
    "rich": "text in the terminal",
    "graphviz": ".dot files",
    "graphlay": "short wires in pictures",
    "resvg-py": ".png files",
    "squarify": "maps of memory",
    "PyYAML": "reading torch's formulas",
    **({"tomli": "[tool.gradviz] in pyproject.toml"} if sys.version_info < (3, 11) else {}),
}
"""What gradviz needs besides torch, and for what."""


def examined() -> DoctorDocument:
    """Look at everything. Nothing is left behind, in files or in torch."""
    tried, torch = _examined_torch()
    return doctor_document(
        (_python(), _gradviz(), torch, *map(_package, PACKAGES)),
        (_font(), _formulas(), _cache(), _browser(), _dot(), _pdf(), _networkx(), _gpu(tried)),
        () if tried is None else tuple(_capability(*each) for each in tried.capabilities),
    )


def _python() -> Part:
    found = f"{platform.python_version()} ({platform.python_implementation()}), {platform.platform()}"
    return Part("Python", "works", found, "everything")


def _gradviz() -> Part:
    import gradviz

    folder = Path(str(gradviz.__file__)).parent
    return Part("gradviz", "works", f"{gradviz.__version__}, in {folder}", "everything")


def _examined_torch() -> tuple[TriedTorch | None, Part]:
    used_for, lost = "recording", "nothing can be recorded, recordings made elsewhere can be shown"
    if find_spec("torch") is None:
        return None, Part("torch", "absent", "not installed", used_for, lost, "pip install torch")
    from gradviz.recording.doctor import try_torch

    try:
        tried = try_torch()
    except MissingDependency as error:
        return None, Part("torch", "problem", error.message, used_for, lost, "install torch again")
    if tried.refusal:
        return tried, Part("torch", "problem", tried.refusal, used_for, lost, f"install torch {tried.tried_releases}")
    built = f"{tried.version}, built for {tried.built_for}"
    if tried.is_newer_than_tried:
        found = f"{built}: newer than any that gradviz was tried with ({tried.tried_releases})"
        return tried, Part("torch", "limited", found, used_for)
    return tried, Part("torch", "works", f"{built}; gradviz was tried with {tried.tried_releases}", used_for)


def _capability(capability: Capability, works: bool) -> CapabilityResult:
    return CapabilityResult(
        capability.name,
        "works" if works else "problem" if capability.is_essential else "limited",
        capability.used_for,
        capability.lost,
        capability.instead,
        capability.seen,
        capability.names,
    )


def _package(name: str) -> Part:
    used_for = PACKAGES[name]
    version = installed_version(name)
    remedy = f"pip install --upgrade {DISTRIBUTION}"
    if version is None:
        return Part(name, "problem", "not installed", used_for, f"no {used_for}", remedy)
    asked = asked_versions(name)
    if is_within(version, asked):
        return Part(name, "works", version, used_for)
    return Part(name, "limited", f"{version}; gradviz asks for {asked}", used_for, remedy=remedy)


def installed_version(distribution: str) -> str | None:
    """The version that is installed; None if there is none."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def asked_versions(distribution: str) -> str:
    """The versions that gradviz asks for: ``<4,>=3.5``; empty where gradviz runs without having been installed."""
    try:
        requirements = metadata.requires(DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        return ""
    for requirement in requirements:
        name, versions = re.match(r"([\w.-]+)\s*\(?([^;)]*)", requirement).groups()  # type: ignore[union-attr]
        if name.lower() == distribution.lower() and "extra ==" not in requirement:
            return str(versions).strip()
    return ""


def is_within(version: str, asked: str) -> bool:
    """Whether a version is one of those, as far as its numbers tell: ``3.6`` is within ``<4,>=3.5``."""
    number = _numbers(version)
    tests = re.findall(r"(>=|<)\s*([\d.]+)", asked)
    return all(number >= _numbers(limit) if sign == ">=" else number < _numbers(limit) for sign, limit in tests)


def _numbers(version: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", version.partition("+")[0])[:3]]


def _font() -> Part:
    from gradviz.rendering.look.text_metrics import FONT_FAMILY, FONT_FOLDER, text_width

    try:
        sizes = [path.stat().st_size for path in FONT_FOLDER.glob("*.otf")]
        text_width("gradviz", 12)
    except (OSError, ValueError) as error:
        return _without_font(str(error))
    if not sizes or not all(sizes):
        return _without_font(f"files are missing in {FONT_FOLDER}")
    return Part("font", "works", FONT_FAMILY, "pictures")


def _without_font(why: str) -> Part:
    return Part("font", "problem", why, "pictures", "no pictures", f"pip install --force-reinstall {DISTRIBUTION}")


def _formulas() -> Part:
    from gradviz.formulas.torch_formulas import find_formula_files

    used_for = "formulas of torch itself in 'explain'"
    try:
        files = find_formula_files()
    except MissingDependency as error:
        state: State = "absent" if find_spec("torch") is None else "limited"
        return Part("formulas of torch", state, error.message, used_for, f"no {used_for}")
    return Part("formulas of torch", "works", f"those of torch {files.torch_version}", used_for)


def _cache() -> Part:
    from gradviz.formulas.available_formulas import cache_folder

    used_for, lost = "keeping torch's formulas", "they are read anew each time, which takes 2 s"
    remedy = "set GRADVIZ_CACHE_DIR to a folder that you may write to"
    try:
        folder = cache_folder()
        _try_to_write(folder)
    except (OSError, RuntimeError) as error:
        return Part("formula cache", "limited", f"cannot be written: {error}", used_for, lost, remedy)
    return Part("formula cache", "works", f"{folder}, writable", used_for)


def _try_to_write(folder: Path) -> None:
    """Raise `OSError` if no file can be written there; nothing is left behind."""
    if folder.is_dir():
        with NamedTemporaryFile(dir=folder, prefix="doctor-"):
            return
    existing = next(parent for parent in folder.parents if parent.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK):
        raise OSError(f"{folder} cannot be made, because {existing} is not a folder that you may write to")


def _browser() -> Part:
    from gradviz.browser import found_browser

    name, used_for = found_browser(), "opening pages by itself"
    if name is None:
        return Part("browser", "absent", "none with a display", used_for, "pages are written, not opened")
    return Part("browser", "works", name, used_for)


def _dot() -> Part:
    path, used_for, lost = shutil.which("dot"), "--engine dot", "no --engine dot"
    if path is None:
        return Part("Graphviz's dot", "absent", "not installed", used_for, lost, "apt install graphviz")
    try:
        done = subprocess.run([path, "-V"], capture_output=True, text=True, errors="replace", timeout=20)
    except (OSError, subprocess.TimeoutExpired) as error:
        return Part("Graphviz's dot", "limited", f"{path} does not run: {error}", used_for, lost)
    said = (done.stderr or done.stdout).strip().splitlines()
    if done.returncode or not said:
        return Part("Graphviz's dot", "limited", f"{path} fails: exit code {done.returncode}", used_for, lost)
    return Part("Graphviz's dot", "works", f"{said[0].removeprefix('dot - graphviz version ')}, {path}", used_for)


def _pdf() -> Part:
    remedy = f"pip install '{DISTRIBUTION}[pdf]'"
    return _optional("PDF", "typst", "typst", ".pdf files", remedy)


def _networkx() -> Part:
    return _optional("networkx", "networkx", "networkx", ".graphml files and to_networkx()", "pip install networkx")


def _optional(name: str, distribution: str, module: str, used_for: str, remedy: str) -> Part:
    if find_spec(module) is None:
        return Part(name, "absent", "not installed", used_for, f"no {used_for}", remedy)
    version = installed_version(distribution) or "of unknown version"
    return Part(name, "works", version if name == distribution else f"{distribution} {version}", used_for)


def _gpu(tried: TriedTorch | None) -> Part:
    used_for = "programs that use one"
    if tried is None:
        return Part("GPU", "absent", "not looked for without torch", used_for)
    if not tried.gpus:
        return Part("GPU", "absent", "none that torch can use", used_for)
    found = f"{', '.join(_counted(tried.gpus))}; gradviz was never tried on a GPU"
    return Part("GPU", "limited", found, used_for)


def _counted(names: tuple[str, ...]) -> Iterator[str]:
    for name in dict.fromkeys(names):
        count = names.count(name)
        yield name if count == 1 else f"{count} × {name}"
