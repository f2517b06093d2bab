"""Whether a program may write something to a file, which no call shows."""

from __future__ import annotations

import re

from gradviz.analysis.case import Case

_SAVES = re.compile(r"\b(save\w*|dump\w*|checkpoint\w*|export\w*)\s*\(")


def may_save(case: Case) -> bool:
    """Whether a line may do so."""
    return any(_SAVES.search(text) for lines in case.capture.sources.values() for text in lines.values())
