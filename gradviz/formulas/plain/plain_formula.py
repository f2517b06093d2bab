"""What an operation does to gradients, in plain mathematics: one entry for each kind of node.

An entry has *expressions*: Python over torch tensors, which can be pasted into a prompt and which a test compares with
autograd. The mathematics for users is printed from them (`gradviz.formulas.plain.mathematics`), so that the two cannot
disagree.

An expression may use

- the names of the operation's inputs and attributes, as in the schema of the function: ``self``, ``other``, ``dim``;
- the operation's results: ``result``, or the names in `PlainFormula.outputs`;
- ``grad``, the gradient of the loss with respect to the result, and ``grads``, the gradients of all results, in order;
- the keys of `PlainFormula.where`, ``torch``, and the functions of `gradviz.formulas.plain.expression_functions`.

It leaves out what autograd's engine does after every backward (`evaluation.as_the_engine_hands_it_on`): the gradient of
a broadcast input is summed to the shape of that input, and that of a real input is real.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct


class Trap(Struct, frozen=True, gc=False):
    """A case in which a gradient surprises, with a program that shows it."""

    sentence: str
    program: str
    """Python that only needs ``import torch``; its last line is an expression."""
    shows: str
    """The value of that expression, as a Python literal that may contain ``inf`` and ``nan``."""


class PlainFormula(Struct, frozen=True, omit_defaults=True):
    """One kind of node: what the operation computes, and the gradient of each of its inputs."""

    node: str
    """``grad_fn.name()``: ``SoftmaxBackward0``."""
    sentence: str
    """What the operation does and who uses it, in one sentence."""
    call: str
    """Python that makes such a node: ``torch.softmax(self, dim)``."""
    gradients: Mapping[str, str]
    """The gradient of the loss with respect to each input, as expressions by the name of the input."""
    forward: str = ""
    """The expression of the result; `call` where empty."""
    where: Mapping[str, str] = {}
    """Abbreviations in `gradients` and `forward`; each may use those before it: ``{"n": "self.numel()"}``."""
    outputs: tuple[str, ...] = ("result",)
    """Names of the results. A function that returns a list has one, ``result``, for the whole list."""
    symbols: Mapping[str, str] = {}
    """Symbols for names that are not in `notation.SYMBOLS`: ``{"self": "A"}``."""
    usual: Mapping[str, bool | int | str | None] = {}
    """Settings that are assumed if no node is given: ``{"alpha": 1}``."""
    holds_for_complex: bool = False
    """True where the expressions were also compared with autograd on complex numbers."""
    always_complex: bool = False
    """True where inputs or results are always complex, as for a Fourier transform."""
    note: str = ""
    """What popular articles get wrong, or what the formula leaves out."""
    traps: tuple[Trap, ...] = ()
    same_as: str = ""
    """For a kernel for another device, the CPU's node to which `call` belongs and which was compared with autograd."""
