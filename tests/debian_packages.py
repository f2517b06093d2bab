"""Installs the programs that some tests drive: ``python -m tests.debian_packages``.

It works only for root on Debian, as on build servers. Elsewhere, tests without their program are skipped, and say so.
"""

from __future__ import annotations

import os
import shutil
import subprocess

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
"""Browsers for pages; the first one that is installed is used."""

_PROGRAMS = {"chromium": BROWSERS, "graphviz": ("dot",)}


def missing_packages() -> list[str]:
    """The packages whose programs are not installed."""
    return [package for package, programs in _PROGRAMS.items() if not any(map(shutil.which, programs))]


def _install(packages: list[str]) -> None:
    """Install packages; ``apt-get`` prints errors, which are not fatal as the other tests do not need them."""
    print("installing", *packages, flush=True)
    apt = ["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-qq"]
    for command in (["update"], ["install", "--yes", *packages]):
        subprocess.run([*apt, *command], check=False, stdout=subprocess.DEVNULL)


def main() -> None:
    """Install what is missing, and print what is still missing."""
    missing = missing_packages()
    if missing and os.geteuid() == 0 and shutil.which("apt-get"):
        _install(missing)
        missing = missing_packages()
    if missing:
        print("not on this machine, so that tests which need them are skipped:", *missing, flush=True)


if __name__ == "__main__":
    main()
