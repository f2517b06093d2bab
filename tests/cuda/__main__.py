"""What needs a GPU: `make gpu` runs the tests of this folder and then prints what recording costs there.

GRADVIZ_GPU_DEVICE=cpu tries the tests' own logic on the processor, without those that ask CUDA for something.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from tests.cuda.device import DEVICE
from tests.cuda.overhead import lines

FILES = ("steps.py", "waiting.py", "memory.py", "checked_scripts.py")


def main() -> int:
    if DEVICE == "cuda" and not torch.cuda.is_available():
        print(f"make gpu: skipped, nothing was run: torch {torch.__version__} sees no CUDA GPU here")
        return 0
    folder = Path(__file__).parent
    result = pytest.main(["-n", "0", *(str(folder / name) for name in FILES)])
    for line in lines():
        print(line, flush=True)
    return int(result)


if __name__ == "__main__":
    sys.exit(main())
