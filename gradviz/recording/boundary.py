"""Where the program's part of a stack begins."""

from __future__ import annotations

from types import CodeType
from typing import Any


def run_users_code(code: CodeType, namespace: dict[str, Any]) -> None:
    """Whatever stands below this frame in a stack is the user's, whatever stands above is ours."""
    exec(code, namespace)


BOUNDARY = run_users_code.__code__
