"""What a forked process can become: a script or a text, run as ``python`` runs it."""

from __future__ import annotations

import sys
from pathlib import Path


def run_script() -> None:
    """The script that ``sys.argv`` names."""
    script = Path(sys.argv[0]).absolute()
    sys.modules["__main__"].__file__ = str(script)
    _run_as_main_program(script.read_bytes(), str(script))


def run_text() -> None:
    """The text in ``sys.argv``, as after ``python -c``."""
    text = sys.argv.pop(1)
    del sys.modules["__main__"].__file__
    _run_as_main_program(text, "<string>")


def _run_as_main_program(source: str | bytes, file: str) -> None:
    namespace = sys.modules["__main__"].__dict__
    namespace.update(__builtins__=sys.modules["builtins"], __cached__=None, __annotations__={})
    try:
        exec(compile(source, file, "exec", dont_inherit=True), namespace)
    except SystemExit:
        raise
    except BaseException as error:
        assert error.__traceback__ is not None
        own = error.__traceback__.tb_next
        sys.excepthook(type(error), error.with_traceback(own), own)
        raise SystemExit(1) from None
