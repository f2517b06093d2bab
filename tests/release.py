"""``make release-check``: builds the packages, and tries them as a new user would. Prints a line for each check."""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from gradviz._version import __version__

REPOSITORY = Path(__file__).parents[1]
MAX_WHEEL_BYTES = 2_000_000
_FORBIDDEN = ("tests/", "docs/", "samples/", "/assets/src/", "/node_modules/", "package.json", ".ts", ".map")
_SCRIPT = "import torch\nw = torch.ones(2, requires_grad=True)\n(3 * w).sum().backward()\n"


def main() -> int:
    """Run every check; the exit code is 1 if one fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--without-tests", action="store_true", help="do not run the tests of the source package")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        return _check_all(Path(folder), with_tests=not options.without_tests)


def _check_all(folder: Path, *, with_tests: bool) -> int:
    wheel, source = _build(folder / "first")
    again = _build(folder / "second")
    checks: list[tuple[str, Callable[[], str]]] = [
        ("two builds have the same bytes", lambda: _same_bytes((wheel, source), again)),
        ("twine accepts both", lambda: _run("-m", "twine", "check", "--strict", str(wheel), str(source), NO_COLOR="1")),
        ("check-wheel-contents accepts the wheel", lambda: _run("-m", "check_wheel_contents", str(wheel))),
        ("the wheel has only what is needed", lambda: _contents(wheel)),
        ("the wheel works in an empty environment", lambda: _tried(wheel, folder / "empty")),
    ]
    if with_tests:
        checks.append(("the tests of the source package pass", lambda: _own_tests(source, folder / "source")))
    failed = 0
    for name, check in checks:
        try:
            print(f"ok      {name}: {check()}", flush=True)
        except (AssertionError, subprocess.CalledProcessError) as error:
            failed += 1
            print(f"FAILED  {name}: {_reason(error)}", flush=True)
    return 1 if failed else 0


def _reason(error: Exception) -> str:
    if isinstance(error, subprocess.CalledProcessError):
        return f"{error.cmd} exited with {error.returncode}\n{error.stdout}\n{error.stderr}"
    return str(error)


def _run(*words: str, cwd: Path = REPOSITORY, python: str | Path = sys.executable, **more: str) -> str:
    """The last line that Python with these arguments prints."""
    run = subprocess.run(
        [str(python), *words], cwd=cwd, capture_output=True, text=True, check=True, env={**os.environ, **more}
    )
    lines = run.stdout.strip().splitlines()
    return lines[-1] if lines else "done"


def _build(folder: Path) -> tuple[Path, Path]:
    # The date of everything in the packages: that of the last commit would do, but there may be no repository.
    _run("-m", "build", "--outdir", str(folder), SOURCE_DATE_EPOCH="1577836800")
    (wheel,), (source,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return wheel, source


def _same_bytes(first: tuple[Path, Path], second: tuple[Path, Path]) -> str:
    digests = [[hashlib.sha256(file.read_bytes()).hexdigest() for file in files] for files in (first, second)]
    assert digests[0] == digests[1], digests
    return digests[0][0][:16]


def _contents(wheel: Path) -> str:
    size = wheel.stat().st_size
    assert size < MAX_WHEEL_BYTES, f"{size:,} bytes, more than {MAX_WHEEL_BYTES:,}"
    with zipfile.ZipFile(wheel) as files:
        names = files.namelist()
    wrong = [name for name in names if any(part in name or name.endswith(part) for part in _FORBIDDEN)]
    assert not wrong, wrong
    licences = [name for name in names if name.endswith(("LICENSE", "OFL.txt"))]
    assert len(licences) >= 2, f"licences: {licences}"
    return f"{size:,} bytes, {len(names)} files, with {', '.join(Path(name).name for name in licences)}"


@contextmanager
def _environment(folder: Path, package: Path) -> Iterator[Path]:
    """A new environment with the package and everything that it needs; torch is that of this environment."""
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    import torch

    _run("-m", "pip", "install", "--quiet", f"torch=={torch.__version__.partition('+')[0]}", "numpy", python=python)
    _run("-m", "pip", "install", "--quiet", str(package), python=python)
    yield python


def _tried(wheel: Path, folder: Path) -> str:
    with _environment(folder, wheel) as python:
        work = folder / "work"
        work.mkdir()
        (work / "train.py").write_text(_SCRIPT, encoding="utf-8")
        for words in (
            ["--version"],
            ["demo"],
            ["doctor"],
            ["render", "train.py", "-o", "net.svg", "-o", "net.html", "-o", "net.png"],
            ["check", "train.py"],
            ["record", "train.py", "-o", "run.gradviz"],
            ["view", "run.gradviz"],
        ):
            _run("-m", "gradviz", *words, cwd=work, python=python, BROWSER="true")
        made = sorted(path.name for path in work.iterdir())
        assert {"net.svg", "net.html", "net.png", "run.gradviz"} <= set(made), made
        version = _run("-c", "import gradviz; print(gradviz.__version__)", cwd=work, python=python)
        assert version == __version__, version
    return f"demo, doctor, render, check, record and view of version {version}"


def _own_tests(source: Path, folder: Path) -> str:
    with tarfile.open(source) as files:
        files.extractall(folder, filter="data")
    (unpacked,) = folder.iterdir()
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-n", "2", "-q", "-p", "no:cacheprovider", "tests/unit", "tests/integration"],
        cwd=unpacked,
        env={**os.environ, "PYTHONPATH": str(unpacked)},
        capture_output=True,
        text=True,
        check=True,
    )
    return run.stdout.strip().splitlines()[-1]


if __name__ == "__main__":
    sys.exit(main())
