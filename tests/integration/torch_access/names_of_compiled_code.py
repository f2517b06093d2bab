"""``python -m tests.integration.torch_access.names_of_compiled_code PROGRAM FOLDER NAME...``: runs without those names.

For each name, and for ``-``, ``gradviz check --format json`` of the program on a torch that lacks it: in a fork of a
process that has compiled something already, because loading what compiles takes ten times as long as the rest. Files
with the name get the report, the graph (``.json``), and what the program and gradviz printed (``.err``).
"""

from __future__ import annotations

import gc
import os
import sys
from importlib import import_module
from pathlib import Path

import torch
import torch._dynamo

from tests.integration.torch_access.child import run_gradviz
from tests.prepared.forks import load_gradviz

LOADED_ONCE = ("torch._functorch.aot_autograd", "torch._inductor.compile_fx")
"""What each run would load, besides gradviz. Of that `run_gradviz` loads anew what asks torch for names."""


def main() -> None:
    program, folder, *names = sys.argv[1:]
    load_gradviz()
    for module in LOADED_ONCE:
        import_module(module)
    # Without a gradient: where autograd's engine has run, some builds of torch refuse to run it in a fork.
    torch.compile(torch.sin, backend="aot_eager")(torch.ones(2))
    torch._dynamo.reset()
    gc.collect()
    gc.freeze()  # no run needs to copy what it only looks through for garbage
    for name in names:
        child = os.fork()
        if child == 0:
            _run(program, Path(folder), name)
        os.waitpid(child, 0)


def _run(program: str, folder: Path, name: str) -> None:
    code = 1
    try:
        for stream, file in ((1, folder / name), (2, folder / f"{name}.err")):
            os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT), stream)
        # Without what keeps Dynamo away it traces the recorder, which takes a minute where other tests run beside it.
        words = ["check", "--seconds", "600", "--format", "json", "-o", str(folder / f"{name}.json"), program]
        sys.argv = ["gradviz", name, *words]
        run_gradviz()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    finally:
        sys.stdout.flush()
        os._exit(code)


if __name__ == "__main__":
    main()
