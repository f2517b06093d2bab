"""What the installed libraries make of ``samples/gpt2.py``: releases of torch and transformers compose it differently.

For what is compared with a committed text or picture; that a recording is the whole graph is tested elsewhere.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from tests.end_to_end.command import SAMPLES, SCRIPTS, python

COMMITTED_NODES = 858
"""As torch 2.13 and the pinned release of transformers make it."""


@cache
def nodes_of_gpt2() -> int:
    """How many nodes a naive walk finds, without any code of gradviz."""
    run = python(SCRIPTS / "naive_walk.py", "out.loss", SAMPLES / "gpt2.py", cwd=Path.cwd())
    assert run.exit_code == 0, run.stderr
    return int(json.loads(run.stdout.splitlines()[-1])["nodes"])
