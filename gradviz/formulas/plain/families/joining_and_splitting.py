"""Joining, splitting, padding, triangles and windows: each piece gets its part of the gradient."""

from __future__ import annotations

from gradviz.formulas.plain.plain_formula import PlainFormula, Trap

_LIST = {"result": "y₁, …, yₙ", "grads": "ȳ₁, …, ȳₙ"}


_GATHERED = "torch.zeros_like(self).flatten().index_add(0, positions, grad.flatten()).reshape(self.shape)"


def _choosing(node: str, sentence: str, call: str, note: str = "") -> PlainFormula:
    """Each result is one of the inputs; an operation on indices shows which."""
    return PlainFormula(
        node,
        sentence,
        call,
        {"self": _GATHERED},
        where={"positions": call.replace("self", "numbered(self)") + ".long().flatten()"},
        note=note,
    )


PIECES = (
    PlainFormula(
        "ExpandBackward0",
        "Repeated along dimensions of size 1 without a copy: the gradients of all copies are added.",
        "self.expand(size)",
        {"self": "grad.sum_to_size(self.shape)"},
        holds_for_complex=True,
        traps=(
            Trap(
                "What was repeated three times gets the sum of three gradients.",
                "x = torch.ones(1, requires_grad=True)\nx.expand(3).sum().backward()\nx.grad",
                "[3.0]",
            ),
        ),
    ),
    PlainFormula(
        "RepeatBackward0",
        "Copies beside each other: the gradients of all copies are added.",
        "self.repeat(repeats)",
        {"self": "sum_of_copies(grad, self)"},
        holds_for_complex=True,
    ),
    PlainFormula(
        "CatBackward0",
        "Tensors behind each other along a dimension: each gets its own piece of the gradient.",
        "torch.cat(tensors, dim)",
        {"tensors": "grad.split(sizes, dim)"},
        where={"sizes": "[tensor.size(dim) for tensor in tensors]"},
        symbols={"tensor": "xₖ"},
        holds_for_complex=True,
    ),
    PlainFormula(
        "StackBackward0",
        "Tensors behind each other along a new dimension.",
        "torch.stack(tensors, dim)",
        {"tensors": "grad.unbind(dim)"},
        holds_for_complex=True,
    ),
    PlainFormula(
        "UnbindBackward0",
        "A dimension taken apart, as when iterating over a tensor.",
        "self.unbind(dim)",
        {"self": "torch.stack(grads, dim)"},
        symbols=_LIST,
        holds_for_complex=True,
        note="A part that nothing used has the gradient 0.",
    ),
    PlainFormula(
        "SplitBackward0",
        "Pieces of one size along a dimension, as when queries, keys and values come from one layer.",
        "self.split(split_size, dim)",
        {"self": "torch.cat(grads, dim)"},
        symbols=_LIST,
        holds_for_complex=True,
        traps=(
            Trap(
                "A piece that nothing used has the gradient 0, not None.",
                "x = torch.tensor([1.0, 2.0], requires_grad=True)\nx.split(1)[0].backward()\nx.grad",
                "[1.0, 0.0]",
            ),
        ),
    ),
    PlainFormula(
        "SplitWithSizesBackward0",
        "Pieces of given sizes along a dimension.",
        "self.split(split_sizes, dim)",
        {"self": "torch.cat(grads, dim)"},
        symbols=_LIST,
        holds_for_complex=True,
        note="A piece that nothing used has the gradient 0.",
    ),
    PlainFormula(
        "TrilBackward0",
        "The lower triangle; what is above it becomes 0.",
        "torch.tril(self, diagonal)",
        {"self": "torch.tril(grad, diagonal)"},
        holds_for_complex=True,
    ),
    PlainFormula(
        "TriuBackward0",
        "The upper triangle; what is below it becomes 0.",
        "torch.triu(self, diagonal)",
        {"self": "torch.triu(grad, diagonal)"},
        holds_for_complex=True,
    ),
    PlainFormula(
        "DiagonalBackward0",
        "The diagonal.",
        "torch.diagonal(self, offset, dim1, dim2)",
        {"self": "torch.zeros_like(self).diagonal_scatter(grad, offset, dim1, dim2)"},
        holds_for_complex=True,
    ),
    PlainFormula(
        "DiagonalBackward0_copy",
        "A copy of the diagonal: torch.diag.",
        "torch.diagonal_copy(self, offset, dim1, dim2)",
        {"self": "torch.zeros_like(self).diagonal_scatter(grad, offset, dim1, dim2)"},
        forward="torch.diagonal(self, offset, dim1, dim2)",
        holds_for_complex=True,
    ),
    PlainFormula(
        "DiagEmbedBackward0",
        "A matrix with the input on its diagonal.",
        "torch.diag_embed(self, offset, dim1, dim2)",
        {"self": "torch.diagonal(grad, offset, dim1, dim2)"},
        holds_for_complex=True,
    ),
    PlainFormula(
        "ConstantPadNdBackward0",
        "A margin of one value: the gradient of the margin is dropped.",
        "torch.nn.functional.pad(self, pad, value=value)",
        {"self": "torch.nn.functional.pad(grad, [-width for width in pad])"},
        symbols={"value": "value"},
        holds_for_complex=True,
    ),
    _choosing(
        "ReflectionPad1DBackward0",
        "A margin that mirrors what is inside: what was mirrored gets the sum of both gradients.",
        "torch.nn.functional.pad(self, padding, 'reflect')",
    ),
    _choosing(
        "ReflectionPad2DBackward0",
        "A margin that mirrors what is inside an image.",
        "torch.nn.functional.pad(self, padding, 'reflect')",
    ),
    _choosing(
        "ReplicationPad1DBackward0",
        "A margin that repeats the outermost element.",
        "torch.nn.functional.pad(self, padding, 'replicate')",
    ),
    _choosing(
        "ReplicationPad2DBackward0",
        "A margin that repeats the outermost elements of an image.",
        "torch.nn.functional.pad(self, padding, 'replicate')",
    ),
    _choosing(
        "ReflectionPad3DBackward0",
        "A margin that mirrors what is inside a volume.",
        "torch.nn.functional.pad(self, padding, 'reflect')",
    ),
    _choosing(
        "ReplicationPad3DBackward0",
        "A margin that repeats the outermost elements of a volume.",
        "torch.nn.functional.pad(self, padding, 'replicate')",
    ),
    PlainFormula(
        "PackPaddedSequenceBackward0",
        "Sequences of different lengths, step by step without padding, for recurrent networks.",
        "torch._VF._pack_padded_sequence(input, lengths, batch_first)",
        {"input": _GATHERED.replace("self", "input")},
        where={
            "positions": "torch._VF._pack_padded_sequence(numbered(input), lengths, batch_first)[0].long().flatten()"
        },
        outputs=("result0",),
        note="Padding has the gradient 0.",
    ),
    _choosing(
        "AsStridedBackward0",
        "A view by sizes and strides, which also replaces the history of a base after one of its views was changed.",
        "self.as_strided(size, stride, storage_offset)",
        note="An element that is seen several times gets all its gradients. Written for an input in order in memory.",
    ),
    _choosing(
        "AsStridedBackward1",
        "Sizes and strides changed in place.",
        "self.clone().as_strided_(size, stride, storage_offset)",
        note="An element that is seen several times gets all its gradients.",
    ),
    _choosing(
        "UnfoldBackward0",
        "Windows that slide along a dimension; where they overlap, gradients are added.",
        "self.unfold(dimension, size, step)",
    ),
)
