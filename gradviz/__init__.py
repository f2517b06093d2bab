"""gradviz: see and understand PyTorch's autograd graph.

`inspect` shows an existing tensor, `record` records a ``with`` block, `load` opens a file; each returns an
`Inspection`. `check` says why a gradient is missing, zero, NaN or wrong. `diff` says where two recordings begin to
differ. `watch` measures from time to time how large the gradients of a long training are. `callbacks` check steps of
Hugging Face's and Lightning's trainers. Every name is imported when it is first used: importing gradviz imports neither
torch nor anything else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradviz._version import __version__

if TYPE_CHECKING:
    from gradviz import callbacks
    from gradviz.api import Recording, Watch, check, diff, inspect, load, record, watch
    from gradviz.capture.capture import Capture
    from gradviz.check_result import Checked
    from gradviz.diff_result import Differed
    from gradviz.errors import BadCapture, BadInput, GradvizError, MissingDependency, NothingFound, NothingRecorded
    from gradviz.graph.model import Node
    from gradviz.inspection import Inspection
    from gradviz.public_graph import Graph
else:
    _MODULES = {
        "gradviz.api": ("Recording", "Watch", "check", "diff", "inspect", "load", "record", "watch"),
        "gradviz.capture.capture": ("Capture",),
        "gradviz.check_result": ("Checked",),
        "gradviz.diff_result": ("Differed",),
        "gradviz.errors": (
            "BadCapture",
            "BadInput",
            "GradvizError",
            "MissingDependency",
            "NothingFound",
            "NothingRecorded",
        ),
        "gradviz.graph.model": ("Node",),
        "gradviz.inspection": ("Inspection",),
        "gradviz.public_graph": ("Graph",),
    }

    def __getattr__(name):
        from importlib import import_module

        if name == "callbacks":
            return import_module("gradviz.callbacks")
        for module, names in _MODULES.items():
            if name in names:
                return getattr(import_module(module), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__():
        return sorted({*globals(), *__all__})


__all__ = [
    "BadCapture",
    "BadInput",
    "Capture",
    "Checked",
    "Differed",
    "GradvizError",
    "Graph",
    "Inspection",
    "MissingDependency",
    "Node",
    "NothingFound",
    "NothingRecorded",
    "Recording",
    "Watch",
    "__version__",
    "callbacks",
    "check",
    "diff",
    "inspect",
    "load",
    "record",
    "watch",
]
