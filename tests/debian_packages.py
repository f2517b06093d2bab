"""Installs the programs that some tests drive: ``python -m tests.debian_packages``.

Only for the superuser of a Debian, as build servers have it. Elsewhere tests that lack theirs are skipped, and say so.
"""

from __future__ import annotations

import os
import shutil
import subprocess

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
"""What pages are opened in: the first that the machine has."""

_PROGRAMS = {"chromium": BROWSERS, "graphviz": ("dot",)}


def missing_packages() -> list[str]:
    """The packages of which the machine has no program."""
    return [package for package, programs in _PROGRAMS.items() if not any(map(shutil.which, programs))]


def _install(packages: list[str]) -> None:
    """Leaves it to ``apt-get`` to say what does not work: the other tests need none of them."""
    print("installing", *packages, flush=True)
    apt = ["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-qq"]
    for command in (["update"], ["install", "--yes", *packages]):
        subprocess.run([*apt, *command], check=False, stdout=subprocess.DEVNULL)


def main() -> None:
    """Says what it installs, and what is missing still."""
    missing = missing_packages()
    if missing and os.geteuid() == 0 and shutil.which("apt-get"):
        _install(missing)
        missing = missing_packages()
    if missing:
        print("not on this machine, so that tests which need them are skipped:", *missing, flush=True)


if __name__ == "__main__":
    main()
