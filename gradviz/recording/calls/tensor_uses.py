"""Reads the tensors that a call took and returned, as they were at that moment.

The results of custom functions and of compiled code are not seen. They are assigned to their call when another call
takes them: by the sequence number of their node, or because a call inside made them.
"""

from __future__ import annotations

import weakref
from math import isfinite
from typing import Any

import torch

from gradviz.graph.call_log import Padding, ValueFacts
from gradviz.recording.calls.call_arguments import tensors_with_positions
from gradviz.recording.calls.known_tensors import KnownTensor, KnownTensors, is_leaf, requires_grad
from gradviz.recording.calls.rows import Row, RowUse
from gradviz.recording.fingerprints.elements import can_read_values, has_readable_elements
from gradviz.recording.fingerprints.fingerprint_meter import FingerprintMeter
from gradviz.recording.fingerprints.padding import MIN_SIZE, padding_of
from gradviz.recording.torch_access.nodes import sequence_nr_of
from gradviz.recording.torch_access.tensor_facts import FactsTable
from gradviz.recording.torch_access.tensors import grad_fn_of, inside_derivative, version_of

_MAX_UNCLAIMED = 1_000


class TensorUses:
    """Reads tensors for the rows of the call log. Call its methods inside `measuring`."""

    def __init__(self, facts: FactsTable, fingerprints: FingerprintMeter | None = None) -> None:
        self.tensors = KnownTensors(facts)
        self.values = ValueReader()
        self.fingerprints = fingerprints
        """Takes fingerprints, if they are wanted."""
        self.arrays = NumpyArrays()
        self.wrapped = WrappedArrays()
        self._unclaimed: dict[int, Row] = {}
        """Calls whose results are not known yet, by the sequence number of a node that they made."""

    def use(self, tensor: torch.Tensor, position: str, row: Row, *, is_input: bool) -> RowUse:
        """The tensor as it is now."""
        return self._use(self.tensors.find(tensor), tensor, position, row, is_input=is_input)

    def _use(
        self, known: KnownTensor | None, tensor: torch.Tensor, position: str, row: Row, *, is_input: bool
    ) -> RowUse:
        if known is None:
            known = self.tensors.add(tensor)
            if is_input:
                self._claim_unseen(known, tensor, row)
        elif known.is_lazy:
            self.tensors.renew(known, tensor)
        if known.first_row is None:  # it may have got a name before its first use
            known.first_row = row
        flag = requires_grad(tensor)
        if flag != known.status[0]:
            known.status = flag, is_leaf(tensor, flag)
        if is_input and known.producer is not None and known.producer.inside is not None:
            self._claim_inner(known, tensor, row)
        version = version_of(tensor)
        use = RowUse(known, position, version, None)
        if known.storage is not None and known.storage.is_uninitialized and is_input:
            return use
        if version != known.values_of_version or not is_input:
            known.values_of_version = version
            if row.reads_values:
                use.values = self.values.facts(tensor)
                use.fingerprint = self.fingerprints.take(tensor) if self.fingerprints is not None else None
        return use

    def given(self, tensor: torch.Tensor, position: str, row: Row) -> RowUse:
        """The tensor as the call of the row has returned it, or changed it."""
        found = self.tensors.find(tensor)
        inner = inside_derivative(tensor) if row.function == "torch.autograd.grad" else None
        if inner is not None and found is None:
            self.tensors.join(tensor, inner)
        known = found if inner is None else self.tensors.find(tensor)
        use = self._use(known, tensor, position, row, is_input=False)
        known = use.known
        if inner is not None:
            known.values_of_version = -1  # those of the outer tensor cannot be read
        if row.node_count and use.requires_grad and known.status[1]:
            # A leaf is no longer one after an in-place change by something that requires grad.
            known.status = True, is_leaf(tensor, True)
            use.is_leaf = known.status[1]
        if known.storage is not None and not use.is_leaf:
            known.storage.computed = known
        if found is None:
            known.producer = row
            if row.function in _WRAP:
                self.wrapped.note(tensor, known)
        if known.storage is not None:
            known.storage.is_uninitialized = not row.reads_values
        return use

    def _claim_unseen(self, known: KnownTensor, tensor: torch.Tensor, row: Row) -> None:
        """Find the origin of a tensor that no call returned: a custom function, compiled code, or NumPy."""
        if known.is_leaf:
            known.from_numpy_of = self.arrays.origin_of(tensor)
            self.wrapped.note(tensor, known)
        elif self._unclaimed:
            # Such a call has a node written in Python, or only one node.
            node = grad_fn_of(tensor)
            maker = self._unclaimed.get(sequence_nr_of(node)) if node is not None else None
            if maker is not None and maker is not row:
                self._give_to(maker, known)

    def _claim_inner(self, known: KnownTensor, tensor: torch.Tensor, row: Row) -> None:
        """A tensor made inside a custom function and used outside it was returned by it."""
        producer = known.producer
        while producer is not None and (maker := producer.inside) is not None and maker.kind == "custom":
            if maker.is_open or row.inside is maker or (row.inside is not None and row.inside.kind == "backward"):
                return
            # Inside it was a leaf, even if a view that required grad: torch sets its node when the function returns.
            flag = requires_grad(tensor)
            known.status = flag, is_leaf(tensor, flag)
            self._give_to(maker, known)
            producer = maker

    def _give_to(self, maker: Row, known: KnownTensor) -> None:
        if not any(use.known is known for use in maker.outputs):
            maker.outputs.append(RowUse(known, "return", 0, None))
        known.producer = maker

    def await_results(self, row: Row) -> None:
        """The row's results will be identified by the nodes that it made."""
        for number in range(row.sequence_nr or 0, (row.sequence_nr or 0) + min(row.node_count, _MAX_UNCLAIMED)):
            self._unclaimed[number] = row
        while len(self._unclaimed) > _MAX_UNCLAIMED:
            del self._unclaimed[next(iter(self._unclaimed))]

    def note_gradient(self, gradient: torch.Tensor, leaf: torch.Tensor) -> None:
        """`gradient` was read from the ``.grad`` of `leaf`. If several leaves have it, it belongs to the first."""
        known = self.tensors.known(gradient)
        if known.producer is None and known.gradient_of is None:
            known.gradient_of = self.tensors.known(leaf)

    def of_arguments(self, row: Row, args: Any, kwargs: Any) -> list[RowUse]:
        """Every tensor among the arguments."""
        return [
            self.use(tensor, position, row, is_input=True) for position, tensor in tensors_with_positions(args, kwargs)
        ]


# -- NumPy arrays made from tensors, so that a tensor made from the same memory is recognized --------------------------

_MAX_ARRAYS = 1_000


def _address_of(tensor: torch.Tensor) -> int | None:
    """Where the elements of a tensor begin in the memory of the CPU; None where they are elsewhere, or where it has no
    memory of its own, as inside of ``vmap()``."""
    if tensor.device.type != "cpu" or tensor.layout is not torch.strided:
        return None
    try:
        return tensor.data_ptr()
    except RuntimeError:
        return None


class NumpyArrays:
    """The newest arrays that are still alive, by the memory that they use."""

    def __init__(self) -> None:
        self._arrays: dict[int, tuple[Any, int, KnownTensor]] = {}

    def note(self, array: Any, tensor: KnownTensor) -> None:
        """`array` is what ``tensor.numpy()`` returned."""
        interface = getattr(array, "__array_interface__", None)
        if type(interface) is not dict or not getattr(array, "nbytes", 0):
            return
        start = interface["data"][0]
        self._arrays.pop(start, None)
        self._arrays[start] = weakref.ref(array), start + array.nbytes, tensor
        if len(self._arrays) > _MAX_ARRAYS:
            del self._arrays[next(iter(self._arrays))]

    def origin_of(self, tensor: torch.Tensor) -> KnownTensor | None:
        """The tensor whose array contains the memory of this one."""
        address = _address_of(tensor) if self._arrays else None
        if address is None:
            return None
        gone = [start for start, (array, _, _) in self._arrays.items() if array() is None]
        for start in gone:
            del self._arrays[start]
        return next(
            (origin for start, (_, end, origin) in reversed(self._arrays.items()) if start <= address < end), None
        )


# -- Tensors that were made of one array, without a copy ---------------------------------------------------------------

_MAX_OWNERS = 32
_WRAP = frozenset({"torch.as_tensor", "torch.asarray", "torch.frombuffer", "torch.from_dlpack"})


class WrappedArrays:
    """The tensors from outside of torch whose memory is in use, by the elements in it that they have.

    Each ``from_numpy()`` of an array makes a storage of its own, so only the address tells that two have one memory. An
    address is only that of the same memory as long as something, such as a graph, holds the storage that had it.
    """

    def __init__(self) -> None:
        self._owners: dict[tuple[Any, ...], KnownTensor] = {}

    def note(self, tensor: torch.Tensor, known: KnownTensor) -> None:
        """A tensor that no call has made, or that a call has made of an array."""
        # A tensor of another class, as the compiler's, may have no memory.
        address = _address_of(tensor) if type(tensor) is torch.Tensor and known.storage is not None else None
        if address is None:
            return
        elements = address, tensor.dtype, tensor.shape, tensor.stride()
        owner = self._owners.get(elements)
        if owner is not None and _is_held(owner):
            known.array_of = owner if owner.storage is not known.storage else None
        elif address:
            self._owners.pop(elements, None)
            self._owners[elements] = known
            if len(self._owners) > _MAX_OWNERS:
                self._owners = {place: each for place, each in self._owners.items() if _is_held(each)}
            if len(self._owners) > _MAX_OWNERS:
                del self._owners[next(iter(self._owners))]


def _is_held(known: KnownTensor) -> bool:
    """Whether the memory of a tensor is still in use."""
    return known.storage is not None and known.storage.weak is not None and not known.storage.weak.expired()


# -- Figures of a tensor's values; reading them makes no graph, runs no mode and draws no random number ----------------

MAX_ELEMENTS = 1 << 24
"""Larger tensors are not read."""

_PLAIN = (torch.Tensor, torch.nn.Parameter)


class ValueReader:
    """Reads values inside `measuring`; `too_large` counts the tensors that were not read because of their size."""

    def __init__(self) -> None:
        self.too_large = 0

    def facts(self, tensor: torch.Tensor) -> ValueFacts | None:
        """Figures of the values; None if the tensor has no elements or torch cannot read it without side effects."""
        if type(tensor) not in _PLAIN or tensor.layout is not torch.strided or not can_read_values(tensor):
            return None
        if not (count := tensor.numel()):
            return None
        if count > MAX_ELEMENTS:
            self.too_large += 1
            return None
        try:
            return _read(tensor, count)
        except (RuntimeError, NotImplementedError):  # no kernel for this dtype: eight-bit floats, unsigned
            return None


def _read(tensor: torch.Tensor, count: int) -> ValueFacts:
    plain = torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor
    if not plain.is_cpu and plain.is_floating_point():
        return read_at_once(plain, count)
    if count == 1 and plain is tensor and plain.dtype in _HAVE_KERNELS:  # like most losses
        number = float(plain)
        if isfinite(number):
            return ValueFacts(count, number, number, int(number == 0))
    low, high = (float(extreme) for extreme in torch.aminmax(plain))
    zeros = 0 if low > 0 or high < 0 else _count_of_zeros(plain)
    if isfinite(low) and isfinite(high):
        return ValueFacts(count, low, high, zeros, equal_rows=low < high and _has_equal_rows(plain))
    nans, infs = int(torch.isnan(plain).sum()), int(torch.isinf(plain).sum())
    finite = plain[torch.isfinite(plain)]
    if not finite.numel():
        return ValueFacts(count, None, None, zeros, nans, infs)
    low, high = (float(extreme) for extreme in torch.aminmax(finite))
    return ValueFacts(count, low, high, zeros, nans, infs)


_HAVE_KERNELS = frozenset({
    torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.bool,
})  # fmt: skip
"""For others torch may refuse the figures, even of one number."""


def _has_equal_rows(plain: torch.Tensor) -> bool:
    """Whether all rows are the same. Those of most tensors are not, and then two of them are enough to tell."""
    return _may_have_equal_rows(plain) and torch.equal(plain[0], plain[-1]) and bool((plain == plain[:1]).all())


def _may_have_equal_rows(plain: torch.Tensor) -> bool:
    return (
        plain.dim() > 1
        and len(plain) >= _MIN_ROWS
        and plain.numel() > len(plain)
        and plain.is_floating_point()
        and not plain.requires_grad
    )


_MIN_ROWS = 4


def _count_of_zeros(plain: torch.Tensor) -> int:
    if plain.numel() <= _FEW_FOR_A_KERNEL or plain.dtype not in (torch.float32, torch.float64):
        return plain.numel() - int(torch.count_nonzero(plain))
    # 1 where an element is zero, as numbers: behind a ReLU ten times as fast as count_nonzero, which branches.
    pieces = torch.split(plain.reshape(-1), _PIECE)
    marks = torch.empty_like(pieces[0])
    return sum(int(torch.eq(piece, 0, out=marks[: len(piece)]).sum()) for piece in pieces)


_FEW_FOR_A_KERNEL = 1 << 12
_PIECE = 1 << 16
"""Elements that stay in the processor's cache, with their marks."""


def read_at_once(plain: torch.Tensor, count: int) -> ValueFacts:
    """The facts of real floating-point numbers, for which an accelerator is waited for once and not for each."""
    is_finite = plain.isfinite()
    figures = (
        torch.count_nonzero(plain),
        plain.isnan().sum(),
        plain.isinf().sum(),
        torch.where(is_finite, plain, torch.inf).amin(),
        torch.where(is_finite, plain, -torch.inf).amax(),
        (plain[0] != plain[-1]).any() if _may_have_equal_rows(plain) else torch.ones((), device=plain.device),
    )
    nonzero, nans, infs, low, high, differ = torch.stack([figure.double() for figure in figures]).tolist()
    zeros = plain.numel() - int(nonzero)
    if nans + infs == plain.numel():
        return ValueFacts(count, None, None, zeros, int(nans), int(infs))
    equal_rows = not differ and not infs and low < high and _has_equal_rows(plain)
    return ValueFacts(count, low, high, zeros, int(nans), int(infs), equal_rows)


# -- What pads the ids of sequences ------------------------------------------------------------------------------------


class PaddingReader:
    """Reads the ids that the first calls of each line look up or compare. Call it inside `measuring`."""

    def __init__(self) -> None:
        self._reads: dict[tuple[int, str], int] = {}
        """By stack and function, how many matrices were read."""

    def read(self, row: Row, taken: list[tuple[RowUse, torch.Tensor]]) -> dict[str, Padding]:
        """By position, what pads the ids that a call takes."""
        found = {}
        for use, tensor in taken:
            shape = _shape_of_ids(use, tensor)
            line = row.stack, row.function
            if shape is None or self._reads.get(line, 0) >= _READS_OF_A_LINE or not has_readable_elements(tensor):
                continue
            self._reads[line] = self._reads.get(line, 0) + 1
            padding = padding_of(tensor.reshape(shape).cpu())
            if padding is not None:
                found[use.position] = padding
        return found


TAKE_IDS = frozenset(
    f"torch.nn.functional.{name}" for name in ("embedding", "embedding_bag", "cross_entropy", "nll_loss")
)
"""The functions whose ids it reads."""
_READS_OF_A_LINE = 3
_MAX_IDS = 1 << 18
_MATRIX = 2
_MAX_SHAPING = 4
_FLATTEN = frozenset({"view", "reshape", "flatten", "ravel"})
_KEEP = frozenset({"long", "to", "contiguous", "clone", "cuda", "int"})


def _shape_of_ids(use: RowUse, tensor: torch.Tensor) -> tuple[int, ...] | None:
    """The shape of a matrix of ids, also of one that was flattened; None for anything else."""
    is_of_ids = tensor.dtype in (torch.int64, torch.int32) and tensor.numel() <= _MAX_IDS
    shape: tuple[int, ...] | None = tuple(tensor.shape) if is_of_ids else None
    if shape is not None and len(shape) == 1:
        shape = _shape_before(use, tensor.numel())
    is_large_enough = shape is not None and len(shape) == _MATRIX and min(shape) >= MIN_SIZE
    return shape if is_large_enough else None


def _shape_before(use: RowUse, count: int) -> tuple[int, ...] | None:
    """The shape of a tensor before it was flattened."""
    known = use.known
    for _ in range(_MAX_SHAPING):
        made = known.producer
        name = "" if made is None else made.function.rpartition(".")[2]
        if made is None or not made.inputs or name not in _FLATTEN | _KEEP:
            return None
        known = made.inputs[0].known
        shape = tuple(size for size in known.facts.shape if isinstance(size, int))
        if name in _FLATTEN and len(shape) > 1:
            return shape if shape[0] * shape[1] == count else None
    return None
