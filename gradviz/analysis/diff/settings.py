"""Settings of torch that differ between two runs, and which of them can be why an operation gives another result."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.diff.runs import Operation
from gradviz.capture.capture import Settings
from gradviz.graph.number_words import counted


def settings_that_differ(a: Settings | None, b: Settings | None) -> dict[str, str]:
    """By the name of the setting, a sentence about both runs; settings that one of them does not know are left out."""
    if a is None or b is None:
        return {}
    found: dict[str, str] = {}
    if a.threads != b.threads and a.threads and b.threads:
        found["threads"] = f"{counted(a.threads, 'thread')} in A, {b.threads:,} in B"
    for name, what in _SWITCHES.items():
        x, y = getattr(a, name), getattr(b, name)
        if x is not None and y is not None and x != y:
            found[name] = f"{what} only in {'A' if x else 'B'}"
    if a.processor != b.processor and a.processor and b.processor:
        found["processor"] = f"the processor's kernels are for {a.processor} in A, {b.processor} in B"
    return found


_SWITCHES = {
    "is_deterministic": "deterministic algorithms are asked for",
    "matmul_tf32": "matrix products may use TF32",
    "convolution_tf32": "convolutions may use TF32",
    "cudnn_benchmark": "cuDNN may choose the fastest algorithm",
}


def reasons_for(operation: Operation, differing: dict[str, str]) -> Iterator[str]:
    """The differing settings that this operation depends on."""
    is_on_gpu = any(result.facts is not None and result.facts.device.startswith("cuda") for result in operation.results)
    is_convolution = operation.word.lstrip("_").startswith("conv")
    depends_on = ["is_deterministic"]
    if not is_on_gpu:
        depends_on += ["threads", "processor"]
    elif is_convolution:
        depends_on += ["convolution_tf32", "cudnn_benchmark"]
    else:
        depends_on += ["matmul_tf32"]
    yield from (differing[name] for name in depends_on if name in differing)
