"""Reads tensors without side effects on them."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch

from gradviz.recording.torch_access.capabilities import works
from gradviz.recording.torch_access.name_lookup import attribute, find, method, tensor_attribute
from gradviz.recording.torch_access.own_thread import result_of_own_thread


@contextmanager
def _without_modes() -> Iterator[None]:
    """Does what `DisableTorchFunction` does, by removing every function mode of this thread."""
    depth = find("torch._C._len_torch_function_stack")
    pop, push = find("torch._C._pop_torch_function_stack"), find("torch._C._push_on_torch_function_stack")
    modes = [pop() for _ in range(depth())]
    try:
        with torch._C.DisableTorchFunctionSubclass():
            yield
    finally:
        for mode in reversed(modes):
            push(mode)


DISABLE_TORCH_FUNCTION: Callable[[], Any] = (
    find("torch._C.DisableTorchFunction") if works("unseen reading") else _without_modes
)
"""While entered, reading a tensor's attributes calls no mode and no subclass of the user."""

requires_grad_of = tensor_attribute("requires_grad")
is_leaf_of = tensor_attribute("is_leaf")


class _PythonReference:
    """Replaces torch's own weak reference. The Python object of a tensor may be gone before the tensor is."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self._reference = weakref.ref(tensor)

    def expired(self) -> bool:
        """Whether the object is gone."""
        return self._reference() is None


_tells_identity = works("identity of tensors")
ADDRESSES_STAY_TAKEN = _tells_identity
"""Whether no other tensor gets the address of a tensor while a weak reference to it exists."""

address_of: Callable[[torch.Tensor], int] = tensor_attribute("_cdata") if _tells_identity else id
"""The address of a tensor's C++ object."""

weak_tensor: Callable[[torch.Tensor], Any] = find("torch._C._WeakTensorRef") if _tells_identity else _PythonReference
"""torch's own weak reference: it has ``expired()``, and keeps the address of the C++ object reserved."""


class _LivingStorage:
    """Replaces a weak reference to a storage if torch has none."""

    def __init__(self, storage: Any) -> None:
        pass

    def expired(self) -> bool:
        """Always False, because it is not known."""
        return False


_tells_storages = works("identity of storages")
storage_address: Callable[[Any], int] = attribute("Storage._cdata") if _tells_storages else method("Storage.data_ptr")
"""The address of a storage's C++ object. Reading the address of its *data* would make torch do a lazy copy."""

weak_storage: Callable[[Any], Any] = (
    find("torch.multiprocessing.reductions.StorageWeakRef") if _tells_storages else _LivingStorage
)
"""A weak reference that has ``expired()`` and keeps the address reserved."""

_read_version: Callable[[Any], Any] = tensor_attribute("_version") if works("versions of tensors") else lambda _: None


def version_of(tensor: torch.Tensor) -> int | None:
    """How often the tensor was changed in place; None for inference tensors, and if torch does not report it."""
    try:
        return _read_version(tensor)  # type: ignore[no-any-return]
    except (RuntimeError, NotImplementedError):
        return None


_tells_views = works("views")
_is_view: Callable[[Any], bool] = method("Tensor._is_view") if _tells_views else lambda _: True
base_of: Callable[[torch.Tensor], Any] = attribute("Tensor._base") if _tells_views else lambda _: None
"""The tensor that a view is part of, else None."""


def is_view(tensor: torch.Tensor) -> bool:
    """Whether it is a view of another tensor; False if this torch does not report it."""
    return _tells_views and _is_view(tensor)


def may_be_asked(tensor: torch.Tensor) -> bool:
    """Whether ``grad_fn`` and ``is_leaf`` of a tensor that requires grad can be read without side effects.

    For a view whose base was changed in place, torch then makes a new node or refuses, unless the base needs no
    gradient. A new node changes the sequence numbers of later nodes, and the engine sums gradients in their order.
    """
    if not _is_view(tensor):
        return True
    if version_of(tensor) == 0:
        return True
    base = base_of(tensor)
    return base is not None and not base.requires_grad


def grad_fn_of(tensor: torch.Tensor) -> Any:
    """The tensor's ``grad_fn``; None for leaves, and if torch refuses to return it.

    It refuses for a view made by ``unbind`` or ``split`` whose base was changed in place since.
    """
    try:
        return tensor.grad_fn if tensor.requires_grad else None
    except RuntimeError:
        return None


def grad_fn_there_already(tensor: torch.Tensor) -> Any:
    """The same as `grad_fn_of`, but None where torch might first have to make that node."""
    return tensor.grad_fn if tensor.requires_grad and may_be_asked(tensor) else None


def node_of_leaf(leaf: torch.Tensor) -> Any:
    """The ``AccumulateGrad`` of a leaf, which is made if nothing was computed from it yet.

    torch reads it from a temporary node that is computed from the leaf. That node is made on a separate thread, which
    counts its own sequence numbers, so that it takes none of the program's.
    """

    def ask() -> Any:
        with DISABLE_TORCH_FUNCTION():
            return torch.autograd.graph.get_gradient_edge(leaf).node

    return result_of_own_thread(ask)


_tells_hooks = works("hooks of leaves")
_Hooks = Mapping[int, Any]
_NO_HOOKS: _Hooks = {}
_read_hooks: Callable[[Any], _Hooks | None] = attribute("Tensor._backward_hooks") if _tells_hooks else lambda _: None
_read_late_hooks: Callable[[Any], _Hooks | None] = (
    attribute("Tensor._post_accumulate_grad_hooks") if _tells_hooks else lambda _: None
)
_read_table: Callable[[Any], Any] = attribute("RemovableHandle.hooks_dict_ref") if _tells_hooks else lambda _: None


def hooks_before_accumulation(tensor: torch.Tensor) -> _Hooks:
    """The hooks that were put on a leaf with ``register_hook``, by number."""
    return _read_hooks(tensor) or _NO_HOOKS


def post_accumulate_hooks(tensor: torch.Tensor) -> _Hooks:
    """The hooks that were put on a leaf with ``register_post_accumulate_grad_hook``, by number."""
    return _read_late_hooks(tensor) or _NO_HOOKS


def hook_table_of(handle: Any) -> Any:
    """The table that contains a handle's hook; None if it is gone or unknown."""
    try:
        reference = _read_table(handle)
    except AttributeError:  # a handle of another kind
        return None
    return None if reference is None else reference()


_functorch = works("transforms")
_is_wrapped = find("torch._C._functorch.is_functorch_wrapped_tensor")
_unwrap = find("torch._C._functorch.get_unwrapped")

has_storage: Callable[[torch.Tensor], bool] = find("torch._C._has_storage") if _functorch else lambda _: True
"""Whether the tensor has its own memory: a tensor that vmap wraps around another one has none."""


def unwrapped(tensor: torch.Tensor) -> torch.Tensor:
    """The program's own tensor, inside the tensors that a transform of ``torch.func`` wraps around it."""
    while _functorch and _is_wrapped(tensor):
        tensor = _unwrap(tensor)
    return tensor


def inside_derivative(tensor: torch.Tensor) -> torch.Tensor | None:
    """The tensor that ``torch.func.grad`` takes out of this one, which it had wrapped; None for other tensors.

    What vmap wraps has one axis more inside.
    """
    if not _functorch or not _is_wrapped(tensor):
        return None
    inner: torch.Tensor = _unwrap(tensor)
    return inner if inner.ndim == tensor.ndim else None


def sparse_parts(tensor: torch.Tensor) -> list[tuple[str, torch.Tensor]] | None:
    """The tensors that a sparse tensor consists of, by name; None for other layouts."""
    names = _SPARSE_PARTS.get(tensor.layout)
    if names is None:
        return None
    return [(name.strip("_"), getattr(tensor, name)()) for name in names]


_SPARSE_PARTS = {
    torch.sparse_coo: ("_indices", "_values"),  # without the underscore they refuse what is not coalesced
    torch.sparse_csr: ("crow_indices", "col_indices", "values"),
    torch.sparse_bsr: ("crow_indices", "col_indices", "values"),
    torch.sparse_csc: ("ccol_indices", "row_indices", "values"),
    torch.sparse_bsc: ("ccol_indices", "row_indices", "values"),
}

MAKE_NO_NODES = frozenset(
    getattr(getattr(torch.Tensor, name), access)
    for name in ("grad", "grad_fn", "requires_grad", "is_leaf", "shape", "dtype", "device", "layout", "data")
    for access in ("__get__", "__set__")
    if hasattr(getattr(torch.Tensor, name, None), access)
)
"""Attributes of tensors that programs read or set very often, as ``zero_grad`` does, and that compute nothing."""

PLAIN_ATTRIBUTES = frozenset(
    getattr(torch.Tensor, name).__get__
    for name in ("shape", "dtype", "device", "layout", "ndim", "is_cuda", "is_sparse", "is_mps")
)
"""Getters of attributes that are no tensors: they are called very often, and warn of nothing."""
