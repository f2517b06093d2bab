"""Describes the objects of a program as lines of text that are equal exactly where the objects are, bit for bit.

Identity is described too: every tensor, storage and module has a number in the order in which it was met, so that a
``.grad`` that was replaced where it should have been added to, or a view that became a copy, gives other text.

Describing changes nothing itself: it runs outside every mode, and unpacks and computes nothing that the program would
see.
"""

# Much of torch has no types.
# mypy: allow-untyped-calls, no-warn-return-any
from __future__ import annotations

import hashlib
import sys
import types
import weakref
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from tests.harmless.own_code import is_written_by_the_program

DEEPEST = 8
MAX_ELEMENTS = 400
"""Of a list or a dict; what comes after them is not looked at."""

_SIMPLE = (bool, int, str, bytes, type(None), complex, torch.dtype, torch.device, torch.layout, torch.Size)

Description = dict[str, str]
"""What is at each place: ``model.fc.weight`` to text."""


def describe(objects: Mapping[str, Any]) -> Description:
    """Every object by its name, and what it consists of by a dotted path."""
    describer = _Describer()
    with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch(), torch.no_grad():
        for name, value in objects.items():
            describer.visit(name, value, 0)
    return describer.lines


class _Describer:
    def __init__(self) -> None:
        self.lines: Description = {}
        self._numbers: dict[int, str] = {}
        self._alive: list[Any] = []
        """So that no ``id()`` is used twice."""
        self._storages: dict[int, int] = {}

    def visit(self, path: str, value: Any, depth: int) -> None:
        """Describe `value`, which is found at `path`."""
        kind = type(value)
        if issubclass(kind, _SIMPLE):
            self.lines[path] = _shortened(f"{kind.__name__} {value!r}")
        elif issubclass(kind, float):
            self.lines[path] = f"float {float(value).hex()}"
        elif id(value) in self._numbers:
            self.lines[path] = f"the {kind.__name__} at {self._numbers[id(value)]}"
        elif depth > DEEPEST:
            self.lines[path] = f"{kind.__name__}, too deep"
        else:
            self._numbers[id(value)] = path
            self._alive.append(value)
            self._visit_new(path, value, depth)

    def _visit_new(self, path: str, value: Any, depth: int) -> None:
        kind = type(value)
        if issubclass(kind, torch.Tensor):
            self._visit_tensor(path, value, depth)
        elif issubclass(kind, torch.nn.Module):
            self._visit_module(path, value, depth)
        elif issubclass(kind, torch.optim.Optimizer):
            self._visit_parts(path, "optimizer", _items_of_optimizer(value), depth)
        elif issubclass(kind, torch.Generator):
            self.lines[path] = f"generator {_digest(value.get_state().numpy().tobytes())}"
        elif issubclass(kind, weakref.ref):
            self.lines[path] = "weak reference to nothing" if value() is None else "weak reference to something alive"
        elif kind.__module__ == "numpy" and hasattr(value, "tobytes"):
            self.lines[path] = f"numpy {value.dtype} {value.shape} {_digest(value.tobytes())}"
        elif issubclass(kind, (dict, types.MappingProxyType)):
            self._visit_parts(path, f"{kind.__name__} of {len(value)}", _named(value.items()), depth)
        elif issubclass(kind, (list, tuple)):
            self._visit_parts(path, f"{kind.__name__} of {len(value)}", _named(enumerate(value)), depth)
        elif issubclass(kind, (set, frozenset)):
            self.lines[path] = f"{kind.__name__} of {len(value)}: {_shortened(str(sorted(map(_word, value))))}"
        elif isinstance(value, (types.FunctionType, types.MethodType, type)):
            self.lines[path] = f"{kind.__name__} {value.__module__}.{value.__qualname__}"
        elif is_written_by_the_program(sys.modules.get(kind.__module__)) and hasattr(value, "__dict__"):
            self._visit_parts(path, kind.__qualname__, _named(vars(value).items()), depth)
        else:
            self.lines[path] = f"a {kind.__qualname__}"

    def _visit_parts(self, path: str, text: str, parts: Iterator[tuple[str, Any]], depth: int) -> None:
        self.lines[path] = text
        for name, part in parts:
            self.visit(f"{path}{name}", part, depth + 1)

    def _visit_module(self, path: str, module: torch.nn.Module, depth: int) -> None:
        hooks = {name: len(value) for name, value in vars(module).items() if name.endswith("_hooks") and value}
        text = f"{type(module).__qualname__} training={module.training} hooks={hooks}"
        # Attributes of torch's own modules begin with an underscore; tensors and modules are described by themselves.
        own = {name: value for name, value in vars(module).items() if not name.startswith("_") and name != "training"}
        parts = {**module._parameters, **module._buffers, **module._modules, **own}
        self._visit_parts(path, text, _named(parts.items()), depth)

    def _visit_tensor(self, path: str, tensor: torch.Tensor, depth: int) -> None:
        self.lines[path] = f"{_look_of(tensor)} {self._storage_of(tensor)} {_bits_of(tensor)}"
        if _answers_itself(tensor):
            self._visit_parts(path, self.lines[path], _named(vars(tensor).items()), depth)
        if (tensor.is_leaf or tensor.retains_grad) and not torch._is_functional_tensor(tensor):
            gradient = tensor.grad
            if gradient is not None:
                self.visit(f"{path}.grad", gradient, depth)

    def _storage_of(self, tensor: torch.Tensor) -> str:
        try:
            address = tensor.untyped_storage().data_ptr()
        except (NotImplementedError, RuntimeError):
            return "without storage"
        if not address:
            return "empty storage"
        number = self._storages.setdefault(address, len(self._storages))
        return f"storage {number}+{tensor.storage_offset()}"


def _look_of(tensor: torch.Tensor) -> str:
    strides = tensor.stride() if tensor.layout == torch.strided and not tensor.is_nested else ""
    version = "inference" if tensor.is_inference() else f"version {tensor._version}"
    node = tensor.grad_fn.name() if tensor.requires_grad and tensor.grad_fn is not None else "leaf"
    hooks = [len(getattr(tensor, name, None) or ()) for name in ("_backward_hooks", "_post_accumulate_grad_hooks")]
    shape = "nested" if tensor.is_nested else tuple(tensor.shape)
    return (
        f"{type(tensor).__name__} {tensor.dtype} {shape} {strides} {tensor.device} {tensor.layout} {version} "
        f"requires_grad={tensor.requires_grad} {node} output {tensor.output_nr} "
        f"retains={tensor.retains_grad} hooks={hooks}"
    )


def _bits_of(tensor: torch.Tensor) -> str:
    if tensor.is_meta or torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        return "without values"
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter) and hasattr(tensor, "__tensor_flatten__"):
        names, _ = tensor.__tensor_flatten__()
        return " ".join(_bits_of(getattr(tensor, name)) for name in names)
    if _answers_itself(tensor):
        return "without values of its own"
    try:
        return _digest(_bytes_of(tensor.detach()))
    except (RuntimeError, NotImplementedError, TypeError) as why:
        return f"unreadable: {type(why).__name__}"


def _answers_itself(tensor: torch.Tensor) -> bool:
    """Whether its class is one of the program's that wraps other tensors: their values are described then."""
    kind = type(tensor)
    return not kind.__module__.startswith("torch.") and getattr(kind.__torch_dispatch__, "__func__", None) is not None


def _bytes_of(tensor: torch.Tensor) -> bytes:
    if tensor.layout == torch.sparse_coo:
        return _bytes_of(tensor._indices()) + _bytes_of(tensor._values())
    if tensor.layout != torch.strided:
        return _bytes_of(tensor.to_dense())
    if tensor.is_nested:
        return b"".join(_bytes_of(part) for part in tensor.unbind())
    if tensor.is_quantized:
        tensor = tensor.int_repr()
    plain = tensor.as_subclass(torch.Tensor).resolve_conj().resolve_neg().cpu().contiguous()
    return plain.view(-1).view(torch.uint8).numpy().tobytes() if plain.numel() else b""


def _items_of_optimizer(optimizer: torch.optim.Optimizer) -> Iterator[tuple[str, Any]]:
    for place, group in enumerate(optimizer.param_groups):
        yield from ((f".group[{place}].{name}", value) for name, value in group.items())
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    for place, parameter in enumerate(parameters):
        if parameter in optimizer.state:
            yield f".state[{place}]", optimizer.state[parameter]


def _named(items: Any) -> Iterator[tuple[str, Any]]:
    for place, (key, value) in enumerate(list(items)):
        if place == MAX_ELEMENTS:
            return
        yield (f".{key}" if isinstance(key, str) and key.isidentifier() else f"[{_word(key)}]"), value


def _word(value: Any) -> str:
    """Text without an address."""
    return repr(value) if isinstance(value, (str, int, float, tuple)) else f"a {type(value).__name__}"


def _shortened(text: str) -> str:
    return text if len(text) <= 400 else f"{text[:400]}... {_digest(text.encode('utf-8', 'backslashreplace'))}"


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]
