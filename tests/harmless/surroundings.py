"""What a program can see around itself: settings of Python and of torch, random generators, memory."""

# Much of torch has no types.
# mypy: allow-untyped-calls
from __future__ import annotations

import gc
import os
import random
import re
import signal
import sys
import threading
import warnings
from collections.abc import Iterator, Mapping
from hashlib import sha256
from types import CodeType
from typing import Any

Facts = dict[str, str]

_ADDRESS = re.compile("0x[0-9a-f]+")

OURS = (
    "gradviz",
    "click",
    "msgspec",
    "rich",
    "graphviz",
    "graphlay",
    "resvg_py",
    "squarify",
    "pygments",
    "markdown_it",
)
"""Packages that the recorder may load, besides the standard library."""


def python_facts() -> Facts:
    """Python as the program sees it."""
    facts = {
        "sys.meta_path": [
            getattr(finder, "__name__", type(finder).__name__) for finder in sys.meta_path if not _is_ours(finder)
        ],
        "sys.excepthook": _name(sys.excepthook),
        "sys.displayhook": _name(sys.displayhook),
        "sys.unraisablehook": _name(sys.unraisablehook),
        "sys.settrace": _name(sys.gettrace()),
        "threading.excepthook": _name(threading.excepthook),
        "threads": sorted(thread.name for thread in threading.enumerate()),
        "recursion limit": sys.getrecursionlimit(),
        "switch interval": sys.getswitchinterval(),
        "working directory": os.getcwd(),  # noqa: PTH109 - text compares and prints better
        "environment": sorted(f"{name}={value}" for name, value in os.environ.items() if name not in ("_", "SHLVL")),
        "warning filters": [str(entry) for entry in warnings.filters],
        "warnings.showwarning": _name(warnings.showwarning),
        "garbage collector": [gc.isenabled(), gc.get_threshold(), gc.get_debug()],
        "modules": sorted(name for name in sys.modules if _is_seen(name)),
        **{f"handler of {each.name}": _name(signal.getsignal(each)) for each in signal.Signals},
    }
    return {name: str(value) for name, value in facts.items()}


def main_program_facts() -> Facts:
    """What says which program is run."""
    main = sys.modules["__main__"]
    facts = {
        "sys.argv": sys.argv,
        "sys.path": sys.path,
        "__file__": getattr(main, "__file__", None),
        "__spec__": getattr(main, "__spec__", None),
    }
    return {name: str(value) for name, value in facts.items()}


def random_facts() -> Facts:
    """Where every random generator stands."""
    facts = {"random state of Python": _digest(repr(random.getstate()).encode())}
    if "numpy" in sys.modules:
        name, keys, *rest = sys.modules["numpy"].random.get_state()
        facts["random state of NumPy"] = _digest(keys.tobytes() + repr((name, rest)).encode())
    if "torch" in sys.modules:
        facts["random state of torch"] = _digest(sys.modules["torch"].get_rng_state().numpy().tobytes())
    return facts


def torch_facts(torch: Any) -> Facts:
    """Settings of torch that nobody but the program may change."""
    facts = {
        "grad mode": torch.is_grad_enabled(),
        "inference mode": torch.is_inference_mode_enabled(),
        "default dtype": torch.get_default_dtype(),
        "default device": torch.get_default_device(),
        "deterministic": [
            torch.are_deterministic_algorithms_enabled(),
            torch.is_deterministic_algorithms_warn_only_enabled(),
            torch.utils.deterministic.fill_uninitialized_memory,
            torch.backends.cudnn.deterministic,
            torch.backends.cudnn.benchmark,
        ],
        "matmul precision": torch.get_float32_matmul_precision(),
        "threads of torch": [torch.get_num_threads(), torch.get_num_interop_threads()],
        "anomaly mode": [torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()],
        "multithreaded backward": torch.autograd.is_multithreading_enabled(),
        "warn always": torch.is_warn_always_enabled(),
        "print options": vars(torch._tensor_str.PRINT_OPTS),
        "autocast": [
            torch.is_autocast_enabled("cpu"),
            torch.get_autocast_dtype("cpu"),
            torch.is_autocast_cache_enabled(),
        ],
        "view replay": torch._C._is_view_replay_enabled(),
        "saved tensors hooks": _name(_top_hooks(torch)),
        "sequence number": torch._C._autograd._get_sequence_nr(),
        "sharing strategy": torch.multiprocessing.get_sharing_strategy(),
        "engine's thread state": torch._C._current_graph_task_id(),
        **dict(_dynamo_facts()),
    }
    return {name: str(value) for name, value in facts.items()}


def _top_hooks(torch: Any) -> Any:
    """Those in force on saved tensors; None where this torch does not tell."""
    top = getattr(torch._C._autograd, "_top_saved_tensors_default_hooks", None)
    return top(False) if top is not None else None


def leftover_facts(torch: Any) -> Facts:
    """What a recorder has in torch while it runs, and must have taken out at the end."""
    module = torch.nn.modules.module
    tables = {name: value for name, value in vars(module).items() if name.startswith("_global_")}
    modes = torch.overrides._get_current_function_mode_stack()
    return {
        "gradviz's import finders": str([type(finder).__qualname__ for finder in sys.meta_path if _is_ours(finder)]),
        "torch function modes": str([type(mode).__qualname__ for mode in modes]),
        "torch dispatch modes": str(torch._C._len_torch_dispatch_stack()),
        "global module hooks": str({name: len(value) for name, value in tables.items() if isinstance(value, dict)}),
        "functions of torch": _digest(str(sorted(_functions(torch))).encode()),
    }


def memory_facts(torch: Any, *, with_fake: bool) -> Facts:
    """Tensors that Python holds, after a collection, and the bytes that they keep.

    Args:
        with_fake: count also the tensors without memory that the compiler computes with, and the numbers that their
            nodes saved. A recorder that opens compiled code holds some until it ends: they keep the autograd nodes
            alive that the code stands for.
    """
    gc.collect()
    held: list[Any] = [value for value in gc.get_objects() if issubclass(type(value), torch.Tensor)]
    if not with_fake:
        fake = [value for value in held if _is_fake(value)]
        numbers = {id(value) for value in _saved_by_graphs(torch, fake)}
        held = [value for value in held if not _is_fake(value) and id(value) not in numbers]
    tensors = {id(tensor): tensor for tensor in held}
    # Python knows a gradient, or what a node saved, only once somebody has asked for it.
    while held:
        found = [*_saved_by_graphs(torch, held), *_gradients(torch, held)]
        held = [tensor for tensor in {id(tensor): tensor for tensor in found}.values() if id(tensor) not in tensors]
        tensors.update((id(tensor), tensor) for tensor in held)
    return {
        "live tensors": str(len(tensors)),
        "bytes of live tensors": str(sum(_storages(list(tensors.values())).values())),
    }


def _is_fake(tensor: Any) -> bool:
    return type(tensor).__name__ == "FakeTensor"


def peak_memory() -> int:
    """The most memory that this process had at once, in bytes; 0 where the system does not tell."""
    try:
        with open("/proc/self/status", encoding="ascii") as file:  # noqa: PTH123 - no module is loaded for it
            return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM"))
    except (OSError, StopIteration):
        return 0


def _gradients(torch: Any, tensors: list[Any]) -> Iterator[Any]:
    for tensor in tensors:
        if not torch._is_functional_tensor(tensor) and tensor.is_leaf and tensor.grad is not None:
            yield tensor.grad


MAX_NODES = 4_000
"""So deep a graph can be walked without a crash when it is freed."""


def _saved_by_graphs(torch: Any, tensors: list[Any]) -> list[Any]:
    """What the nodes behind these tensors, up to `MAX_NODES` of them, hold in C++; nothing is unpacked."""
    waiting = [tensor.grad_fn for tensor in tensors if tensor.requires_grad and not tensor.is_leaf]
    nodes: set[Any] = set()
    saved: list[Any] = []
    while waiting and len(nodes) < MAX_NODES:
        node = waiting.pop()
        if node is None or node in nodes:
            continue
        nodes.add(node)
        waiting += [follower for follower, _ in node.next_functions]
        saved += [getattr(node, "variable", None), *_saved_by(node)]
    return [value for value in saved if issubclass(type(value), torch.Tensor)]


def _saved_by(node: Any) -> Iterator[Any]:
    for name in dir(node):
        if name.startswith("_raw_saved_"):
            try:
                raw = getattr(node, name)
            except RuntimeError:  # freed by backward
                continue
            yield from (each.data for each in (raw if isinstance(raw, tuple) else (raw,)))


def _storages(tensors: list[Any]) -> Mapping[int, int]:
    found = {}
    for tensor in tensors:
        if _is_fake(tensor):
            continue
        try:
            storage = tensor.untyped_storage()
            # Storages of meta tensors and of empty ones are nowhere, and would be taken for a single one.
            if storage.data_ptr():
                found[storage.data_ptr()] = storage.nbytes()
        except (NotImplementedError, RuntimeError, AttributeError):
            continue
    return found


def _dynamo_facts() -> Iterator[tuple[str, Any]]:
    """What the compiler did, where the program used it."""
    utils = sys.modules.get("torch._dynamo.utils")
    if utils is None:
        return
    for group in ("stats", "graph_break", "unimplemented", "recompiles", "aot_autograd", "frames", "inductor"):
        counts = sorted(utils.counters.get(group, {}).items())
        yield f"dynamo {group}", [(_ADDRESS.sub("0x", str(key)), count) for key, count in counts]


def _functions(torch: Any) -> Iterator[str]:
    """Where functions of torch were defined: elsewhere, if somebody has replaced them."""
    autograd, nn = torch.autograd, torch.nn
    for owner in (torch, torch.Tensor, torch.overrides, autograd, autograd.graph, autograd.function, nn.Module):
        yield from _functions_of(owner)
    for owner in (nn.functional, nn.modules.module, torch.utils.checkpoint, torch._C._autograd):
        yield from _functions_of(owner)


def _functions_of(owner: Any) -> Iterator[str]:
    for name, value in vars(owner).items():
        code = getattr(value, "__code__", None)
        if isinstance(code, CodeType):
            yield f"{owner.__name__}.{name} {code.co_filename.rpartition('/')[2]}:{code.co_firstlineno}"


def _is_ours(finder: Any) -> bool:
    """The recorder waits for the program to import torch's compiler. Whether that is gone at exit is told apart."""
    return type(finder).__module__.startswith("gradviz")


_LOADED_FOR_MODES = "torch._subclasses.schema_check_mode"
"""torch loads it where it looks through modes that are active, as one is while the recorder runs."""


def _is_seen(name: str) -> bool:
    if name == _LOADED_FOR_MODES:
        return False
    root = name.partition(".")[0]
    return root not in OURS and root not in sys.stdlib_module_names and root != "tests"


def _name(value: Any) -> str:
    if isinstance(value, tuple):
        return str([_name(part) for part in value])
    return str(getattr(value, "__qualname__", None if value is None else type(value).__name__))


def _digest(data: bytes) -> str:
    return sha256(data).hexdigest()[:16]
