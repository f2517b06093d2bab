"""Prints, as JSON, everything by which a script could notice gradviz."""

names_at_the_start = sorted(globals())

import gc  # noqa: E402
import inspect  # noqa: E402
import json  # noqa: E402
import os  # noqa: E402
import pickle  # noqa: E402
import random  # noqa: E402
import signal  # noqa: E402
import sys  # noqa: E402
import threading  # noqa: E402
import typing  # noqa: E402
import warnings  # noqa: E402
from pathlib import Path  # noqa: E402

import neighbour  # noqa: E402
import torch  # noqa: E402

import __main__  # noqa: E402

annotated: int = 3


class Config:
    """Something to pickle and to read the source of."""

    width: int = 4


torch.manual_seed(7)
weight = torch.randn(3, requires_grad=True)
loss = (weight * torch.randn(3)).sum()
loss.backward()
warnings.warn("a warning of the script", DeprecationWarning, stacklevel=1)

facts = {
    "names at the start": names_at_the_start,
    "__name__": __name__,
    "__file__": __file__,
    "__doc__": __doc__,
    "__spec__": repr(__spec__),
    "__package__": __package__,
    "__cached__": globals().get("__cached__", "none"),
    "__builtins__": type(__builtins__).__name__,
    "__loader__": type(__loader__).__name__,
    "__annotations__": sorted(__annotations__),
    "is __main__": vars(__main__) is globals(),
    "argv": sys.argv,
    "orig_argv of the script": sys.orig_argv[-2:],
    "sys.path": sys.path,
    "cwd": str(Path.cwd()),
    "environment": {name: value for name, value in os.environ.items() if name != "_"},
    "standard input": sys.stdin.read(),
    "neighbour": [neighbour.VALUE, neighbour.__file__],
    "pickled class": pickle.dumps(Config).hex(),
    "source of a class": inspect.getsource(Config),
    "type hints": str(typing.get_type_hints(Config)),
    "torch threads": torch.get_num_threads(),
    "gradient": weight.grad.tolist(),
    "next random numbers": [random.Random(0).random(), torch.rand(2).tolist()],
    "sequence number": (weight * 2).grad_fn._sequence_nr(),
    "finders": [getattr(finder, "__name__", type(finder).__name__) for finder in sys.meta_path],
    "thread": [threading.current_thread().name, threading.active_count()],
    "excepthook": sys.excepthook is sys.__excepthook__,
    "tracing": [sys.gettrace(), sys.getprofile()],
    "recursion limit": sys.getrecursionlimit(),
    "interrupt handler": signal.getsignal(signal.SIGINT) is signal.default_int_handler,
    "flags": list(sys.flags),
    "warning filters": [str(entry) for entry in warnings.filters],
    "garbage collector": [gc.isenabled(), gc.get_threshold()],
    "encodings": [sys.stdout.encoding, sys.stdout.errors, sys.stderr.encoding],
}
print(json.dumps(facts))
