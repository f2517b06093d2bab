"""Decides for each torch function under which name its calls are logged, and whether they get a row at all."""

from __future__ import annotations

from enum import Enum, auto
from typing import Any

from gradviz.recording.forward.function_names import public_name
from gradviz.recording.torch_access.modes import GRAD_SWITCH
from gradviz.recording.torch_access.tensors import PLAIN_ATTRIBUTES


class FunctionKind(Enum):
    """What a call of the function can mean for the dataflow."""

    ORDINARY = auto()
    GETTER = auto()
    """Reads an attribute: gets a row only if the value is a tensor."""
    ALWAYS_LOGGED = auto()
    """Changes how a tensor is treated, without returning or changing one: always gets a row."""
    GRAD_SWITCH = auto()
    NEVER_LOGGED = auto()
    """Asks for sizes and the like: never gets a row."""


_EXITS = frozenset(
    {"item", "tolist", "__float__", "__int__", "__bool__", "__index__", "__complex__", "numpy", "__array__"}
    | {"equal", "allclose", "is_nonzero"}
)
"""Their results are Python or NumPy values."""

_ALWAYS_LOGGED = frozenset(
    {"torch.Tensor.grad.__set__", "torch.Tensor.data.__set__", "torch.Tensor.requires_grad.__set__"}
    | {"torch.Tensor.requires_grad_", "torch.Tensor.register_hook", "torch.Tensor.retain_grad"}
    | {"torch.Tensor.register_post_accumulate_grad_hook"}
)

_NEVER_LOGGED = frozenset(
    {"size", "dim", "numel", "stride", "nelement", "ndimension", "element_size", "storage_offset", "data_ptr"}
    | {"is_floating_point", "is_complex", "is_contiguous", "is_signed", "is_same_size", "is_set_to", "get_device"}
    | {"storage", "untyped_storage", "__len__", "__hash__", "__repr__", "__dir__", "__reduce_ex__"}
    | {"_parse_to", "_has_compatible_shallow_copy_type", "result_type", "__setstate__", "_typed_storage"}
    | {"_record_function_enter_new", "_record_function_exit"}
)

_UNINITIALIZED = frozenset({"empty", "empty_like", "new_empty", "empty_strided", "new_empty_strided"})
"""Their results hold whatever was in that memory before."""


_DRAWS = frozenset(
    {"dropout", "dropout1d", "dropout2d", "dropout3d", "feature_dropout", "alpha_dropout", "feature_alpha_dropout"}
    | {"rand", "randn", "rand_like", "randn_like", "randint", "randint_like", "randperm", "normal", "normal_"}
    | {"uniform_", "bernoulli", "bernoulli_", "multinomial", "exponential_", "gumbel_softmax", "rrelu", "poisson"}
)


class FunctionTable:
    """Caches what is known about each function."""

    def __init__(self) -> None:
        self._names: dict[Any, str] = {}
        self._kinds: dict[Any, FunctionKind] = {}
        self._writing: dict[Any, bool] = {}

    def name(self, function: Any) -> str:
        """The name as the user would write it; a setter of an attribute ends in ``.__set__``."""
        name = self._names.get(function)
        if name is None:
            ending = ".__set__" if getattr(function, "__name__", "") == "__set__" else ""
            name = self._names[function] = public_name(function) + ending
        return name

    def kind(self, function: Any) -> FunctionKind:
        """What its calls can mean."""
        kind = self._kinds.get(function)
        if kind is None:
            kind = self._kinds[function] = self._classify(function)
        return kind

    def is_exit(self, function: Any) -> bool:
        """True if the function turns a tensor into a value that is not a tensor."""
        return getattr(function, "__name__", None) in _EXITS

    def may_draw(self, function: Any) -> bool:
        """True if the function may draw random numbers."""
        return getattr(function, "__name__", None) in _DRAWS

    def leaves_uninitialized(self, function: Any) -> bool:
        """True if the function allocates memory without writing to it."""
        return getattr(function, "__name__", None) in _UNINITIALIZED

    def may_write(self, function: Any, kind: FunctionKind, kwargs: dict[str, Any]) -> bool:
        """False if a call only computes something new from what it takes."""
        if kind is not FunctionKind.ORDINARY or "out" in kwargs:
            return True
        known = self._writing.get(function)
        if known is None:
            name = getattr(function, "__name__", "_")
            is_in_place = name.endswith("_") and not name.endswith("__")
            known = self._writing[function] = is_in_place or name.startswith(("__i", "__set"))
        return known

    def _classify(self, function: Any) -> FunctionKind:
        name = getattr(function, "__name__", "")
        if function is GRAD_SWITCH:
            return FunctionKind.GRAD_SWITCH
        if name == "__get__":
            return FunctionKind.NEVER_LOGGED if function in PLAIN_ATTRIBUTES else FunctionKind.GETTER
        if self.name(function) in _ALWAYS_LOGGED:
            return FunctionKind.ALWAYS_LOGGED
        is_plain = name in _NEVER_LOGGED or name.partition(".")[0] in _NEVER_LOGGED
        return FunctionKind.NEVER_LOGGED if is_plain else FunctionKind.ORDINARY
