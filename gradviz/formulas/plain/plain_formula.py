"""What an operation does to gradients, in plain mathematics: one entry for each kind of node.

An entry holds *expressions*: Python over torch tensors, that can be pasted into a prompt and that a test compares with
autograd. The mathematics that readers see is printed from them (`gradviz.formulas.plain.mathematics`), so that the two
cannot disagree.

An expression may use

- the names of the operation's inputs and attributes, as in the schema of the function: ``self``, ``other``, ``dim``;
- the operation's results: ``result``, or what `PlainFormula.outputs` calls them;
- ``grad``, the gradient of the loss with respect to the result, and ``grads``, the gradients of all results, in order;
- the keys of `PlainFormula.where`, ``torch``, and the few words of `gradviz.formulas.plain.words`.

What it leaves out is what autograd's engine does after every backward (`evaluation.as_the_engine_hands_it_on`): the
gradient of an input that was broadcast is summed to the shape of that input, and that of a real input is real.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct


class Trap(Struct, frozen=True, gc=False):
    """Where a gradient surprises, with a program that shows it."""

    sentence: str
    program: str
    """Python that needs nothing but ``import torch``; its last line is an expression."""
    shows: str
    """The value of that expression, as a Python literal that may name ``inf`` and ``nan``."""


class PlainFormula(Struct, frozen=True, omit_defaults=True):
    """One kind of node: what the operation computes, and the gradient of each of its inputs."""

    node: str
    """``grad_fn.name()``: ``SoftmaxBackward0``."""
    sentence: str
    """What the operation does and who runs it, in one sentence."""
    call: str
    """Python that makes such a node: ``torch.softmax(self, dim)``."""
    gradients: Mapping[str, str]
    """By the name of the input, the expression of the gradient of the loss with respect to it."""
    forward: str = ""
    """The expression of the result; `call` where empty."""
    where: Mapping[str, str] = {}
    """What `gradients` and `forward` abbreviate, each of what stands above it: ``{"n": "self.numel()"}``."""
    outputs: tuple[str, ...] = ("result",)
    """What the results are called. A function that gives a list has one, ``result``, that is the whole list."""
    symbols: Mapping[str, str] = {}
    """How names are written where `notation.SYMBOLS` does not say: ``{"self": "A"}``."""
    usual: Mapping[str, bool | int | str | None] = {}
    """Settings that a page on the operation in general assumes: ``{"alpha": 1}``."""
    holds_for_complex: bool = False
    """True where the expressions were also compared with autograd on complex numbers."""
    always_complex: bool = False
    """True where inputs or results are complex by nature, as those of a Fourier transform."""
    note: str = ""
    """What popular articles get wrong, or what the formula leaves out."""
    traps: tuple[Trap, ...] = ()
    same_as: str = ""
    """Of a kernel for another device the node of the CPU's, for which `call` is and that was compared with autograd."""
