"""``gradviz`` in a Python without torch: what a forked process can become."""

from __future__ import annotations

import sys


def run_gradviz() -> None:
    """``gradviz`` with the arguments in ``sys.argv``; nothing of torch can be imported."""
    sys.modules.update(dict.fromkeys(("torch", "torchgen")))  # type: ignore[arg-type]
    from gradviz.cli import main

    main()
