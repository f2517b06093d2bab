"""Facts about a tensor other than its values."""

from __future__ import annotations

from math import prod

from msgspec import Struct

from gradviz.graph.bounded_types import Size


def elements_in(shape: tuple[int | str, ...]) -> int | None:
    """Number of elements; None where a size is not a number."""
    sizes = [size for size in shape if isinstance(size, int)]
    return prod(sizes) if len(sizes) == len(shape) else None


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
    def is_complex(self) -> bool:
        """True for complex numbers."""
        return self.dtype.startswith("complex")
