"""``gradviz`` on a torch that says it is another release: what a forked process can become."""

from __future__ import annotations

import sys

from gradviz.cli import main


def run_gradviz() -> None:
    """``gradviz`` with the arguments in ``sys.argv``; the first of them is the version that torch has."""
    import torch

    torch.__version__ = sys.argv.pop(1)  # type: ignore[assignment]
    main()
