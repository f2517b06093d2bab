"""Compares the state of Python and torch, so that tests notice whatever a recording leaves behind.

Torch is examined only if it is already imported: most tests run without it.
"""

from __future__ import annotations

import gc
import os
import random
import signal
import sys
import threading
from typing import Any

Snapshot = dict[str, Any]

OWNERS = (
    "torch",
    "torch.Tensor",
    "torch._C._autograd",
    "torch.autograd",
    "torch.autograd.Function",
    "torch.autograd.function",
    "torch.autograd.graph",
    "torch.nn.Module",
    "torch.nn.functional",
    "torch.nn.modules.module",
    "torch.nn.parameter",
    "torch.overrides",
    "torch.utils.checkpoint",
)
"""Modules and classes whose functions a tool like this one might replace. What gradviz does replace is in a table of
its own: see `_patches`."""


def snapshot() -> Snapshot:
    """Everything that must be the same after a test, by its name in the message."""
    state = _python_state()
    if "torch" in sys.modules:
        state.update(_torch_state(sys.modules["torch"]))
    else:
        state.update(_UNTOUCHED_TORCH)
    return state


def changes(before: Snapshot, after: Snapshot) -> list[str]:
    """A line for each difference. Names that are only in `after` belong to modules that were imported in between."""
    if before == after:
        return []
    before, after = _with_each_function(before), _with_each_function(after)
    return [
        f"{name}: was {_shown(value)}, is {_shown(after.get(name))}"
        for name, value in before.items()
        if value is not after.get(name) and value != after.get(name) and not _is_set_by_torch(after.get(name))
    ]


def random_state() -> tuple[object, ...]:
    """The state of every random generator in use."""
    states: list[object] = [random.getstate()]
    if "numpy" in sys.modules:
        name, keys, *rest = sys.modules["numpy"].random.get_state()
        states.append((name, keys.tobytes(), *rest))
    if "torch" in sys.modules:
        states.append(sys.modules["torch"].get_rng_state().numpy().tobytes())
    return tuple(states)


def _python_state() -> Snapshot:
    return {
        "sys.argv": list(sys.argv),
        "sys.path": [path for path in sys.path if path != _of_torchs_templates()],
        "sys.modules['__main__']": sys.modules["__main__"],
        "sys.excepthook": sys.excepthook,
        "sys.displayhook": sys.displayhook,
        "trace function": sys.gettrace(),
        "profile function": sys.getprofile(),
        "threading trace function": threading.gettrace(),
        "threading profile function": threading.getprofile(),
        "threading.excepthook": threading.excepthook,
        "garbage collector": gc.isenabled(),
        "recursion limit": sys.getrecursionlimit(),
        "SIGINT handler": signal.getsignal(signal.SIGINT),
        "SIGTERM handler": signal.getsignal(signal.SIGTERM),
        "working directory": os.getcwd(),  # noqa: PTH109 - text compares and prints better
        # Other libraries add finders when they are first imported; gradviz must remove its own.
        "gradviz's import finders": [f for f in sys.meta_path if type(f).__module__.startswith("gradviz")],
    }


def _of_torchs_templates() -> object:
    """A folder that some releases of torch put there when Dynamo is first loaded."""
    instantiator = sys.modules.get("torch.distributed.nn.jit.instantiator")
    return getattr(instantiator, "INSTANTIATED_TEMPLATE_DIR_PATH", None)


_UNTOUCHED_TORCH: Snapshot = {
    "torch function modes": 0,
    "torch dispatch modes": 0,
    "saved tensors hooks": None,
    "gradients enabled": True,
    "anomaly mode": False,
    "global module hooks": {},
}


def _torch_state(torch: Any) -> Snapshot:
    return {
        "torch function modes": torch._C._len_torch_function_stack(),
        "torch dispatch modes": torch._C._len_torch_dispatch_stack(),
        "saved tensors hooks": _saved_tensors_hooks(torch),
        "gradients enabled": torch.is_grad_enabled(),
        "anomaly mode": torch.is_anomaly_enabled(),
        "global module hooks": _global_module_hooks(torch.nn.modules.module),
        _FUNCTIONS: _functions(),
        **_patches(),
    }


def _saved_tensors_hooks(torch: Any) -> object:
    """Those in force; None where this torch does not tell."""
    top = getattr(torch._C._autograd, "_top_saved_tensors_default_hooks", None)
    return top(False) if top is not None else None


def _patches() -> Snapshot:
    """What stands now under every name that the table of patches allows a recording to replace."""
    from gradviz.recording.torch_access.name_lookup import owner_of
    from gradviz.recording.torch_access.patches import PATCHES

    found: Snapshot = {}
    for patch in PATCHES:
        owner, name = owner_of(patch.path)
        if owner is not None:
            found[patch.path] = vars(owner).get(name, "nothing of its own")
    return found


def _global_module_hooks(module: Any) -> dict[str, int]:
    found = {name: value for name, value in vars(module).items() if name.startswith("_global_")}
    return {name: len(value) for name, value in found.items() if isinstance(value, dict) and value}


_FUNCTIONS = "functions that could have been replaced"


def _functions() -> list[Snapshot]:
    """Those of each owner, with their full names: not in one table, which would take longer than most comparisons."""
    owners = ((name, _loaded(name)) for name in OWNERS)
    return [_functions_in(name, dict(vars(owner))) for name, owner in owners if owner is not None]


def _with_each_function(state: Snapshot) -> Snapshot:
    """The state with an entry for each function."""
    functions = {name: value for table in state.get(_FUNCTIONS, ()) for name, value in table.items()}
    return {**functions, **{name: value for name, value in state.items() if name != _FUNCTIONS}}


_seen_last: dict[str, tuple[Snapshot, Snapshot]] = {}
"""For each owner: its content at the last comparison, and the functions in it; few tests change it."""


def _functions_in(owner_name: str, content: Snapshot) -> Snapshot:
    if owner_name not in _seen_last or _seen_last[owner_name][0] != content:
        functions = {f"{owner_name}.{name}": value for name, value in content.items() if _is_code(value)}
        _seen_last[owner_name] = content, functions
    return _seen_last[owner_name][1]


def _is_code(value: object) -> bool:
    return callable(value) or isinstance(value, (classmethod, staticmethod, property))


def _loaded(name: str) -> object | None:
    module, _, attribute = name.rpartition(".")
    return sys.modules.get(name) or getattr(sys.modules.get(module), attribute, None)


def _is_set_by_torch(value: object) -> bool:
    """Whether torch itself put this function there: the first ``torch.compile`` replaces some, for good."""
    code = getattr(value, "__code__", None)
    return "torch" in sys.modules and code is not None and code.co_filename.startswith(sys.modules["torch"].__path__[0])


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 300 else text[:300] + "..."
