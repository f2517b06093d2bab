"""Facts about a tensor other than its values."""

from __future__ import annotations

import re
from math import prod

from msgspec import Struct

from gradviz.graph.bounded_types import Size


def elements_in(shape: tuple[int | str, ...]) -> int | None:
    """Number of elements; None where a size is not a number."""
    sizes = [size for size in shape if isinstance(size, int)]
    return prod(sizes) if len(sizes) == len(shape) else None


def bytes_of(dtype: str) -> int:
    """Bytes of one element, as the name of the dtype tells: ``float8_e4m3fn`` has 8 bits; one if it tells nothing."""
    bits = re.search(r"\d+", dtype)
    return max(int(bits[0]) // 8, 1) if bits is not None else 1


class TensorFacts(Struct, frozen=True, omit_defaults=True, gc=False, repr_omit_defaults=True):
    """Shape, dtype and device of a tensor, as far as autograd knows them without reading its values."""

    shape: tuple[Size, ...]
    """Sizes; a symbolic or ragged one is text (``"j1"``)."""
    dtype: str
    """torch's name without the prefix: ``float32``."""
    device: str = "cpu"
    layout: str = "strided"
    type_name: str = "Tensor"
    """The Python class, where it is a subclass of ``torch.Tensor``."""
    placements: tuple[str, ...] = ()
    """Of a distributed tensor, for each dimension of its mesh: ``Shard(0)``, ``Replicate()``. `shape` is the whole."""

    @property
    def elements(self) -> int | None:
        """Number of elements; None where a size is not a number."""
        return elements_in(self.shape)

    @property
    def bytes(self) -> int | None:
        """What its elements take; None where a size is not a number."""
        return None if self.elements is None else self.elements * bytes_of(self.dtype)

    @property
    def is_differentiable(self) -> bool:
        """True for a dtype whose tensors can have gradients: floating-point and complex numbers."""
        return self.dtype.startswith(("float", "bfloat", "complex"))

    @property
    def is_complex(self) -> bool:
        """True for complex numbers."""
        return self.dtype.startswith("complex")
