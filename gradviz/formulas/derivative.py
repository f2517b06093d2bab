"""What torch does in the backward of one operation: its formulas, and what they need from forward.

The terms are those of torch's own file of derivatives. In a formula, ``grad`` is the gradient of the loss with respect
to the operation's result (``grads[i]`` where it has several), ``result`` the result, and every other name an argument
of the function. In a forward-mode formula ``self_t`` is the tangent of ``self``, and ``self_p`` its value.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct


class SavedValue(Struct, frozen=True, omit_defaults=True, gc=False):
    """A value that a node saves in forward, because a formula needs it."""

    slot: str
    """The node's attribute without ``_saved_``: ``self``, ``result``, ``self_sym_sizes``."""
    expression: str
    """How it is computed from the operation's inputs or results: ``self.sym_sizes()``."""
    of: Literal["input", "result"] = "input"


class InputFormula(Struct, frozen=True, omit_defaults=True, gc=False):
    """The gradient of one input, or of several that one formula computes together."""

    inputs: tuple[str, ...]
    formula: str
    """C++, as torch compiles it: ``grad / (2 * result.conj())``."""
    uses: tuple[str, ...] = ()
    """`SavedValue.slot` of every saved value that it needs."""


class ForwardFormula(Struct, frozen=True, omit_defaults=True, gc=False):
    """The tangent of one result, or of several, in forward mode."""

    outputs: tuple[str, ...]
    formula: str


class SecondDerivative(Struct, frozen=True, omit_defaults=True, gc=False):
    """Whether the backward can itself be differentiated, as ``create_graph=True`` requires."""

    is_possible: bool = True
    functions: tuple[str, ...] = ()
    """Functions in the formulas whose own derivative torch knows; if it is not possible, those whose derivative torch
    lacks."""


class Derivative(Struct, frozen=True, omit_defaults=True, gc=False):
    """Everything that the installed torch knows about the backward of one kind of node."""

    node: str
    """``grad_fn.name()``: ``MulBackward0``."""
    function: str
    """The operator as dispatched, without overload: ``mul``, ``_softmax``."""
    schema: str
    """``mul.Tensor(Tensor self, Tensor other) -> Tensor``."""
    inputs: tuple[InputFormula, ...] = ()
    """In the order of the function's arguments, one entry for each formula."""
    forward: tuple[ForwardFormula, ...] = ()
    """Empty where torch has no forward mode for it."""
    saved: tuple[SavedValue, ...] = ()
    without_gradient: tuple[str, ...] = ()
    """Tensor arguments that get no gradient: an index, a mask, a target."""
    differentiable_outputs: tuple[bool, ...] = ()
    """For each result; empty where torch does not tell: then all results of floating-point or complex type are."""
    other_schemas: tuple[str, ...] = ()
    """Variants with the same formulas: ``mul_.Tensor(...)``, ``mul.out(...)``."""
    second: SecondDerivative = SecondDerivative()

    @property
    def input_names(self) -> tuple[str, ...]:
        """Every argument that can get a gradient, in the function's order."""
        return tuple(name for each in self.inputs for name in each.inputs)

    @property
    def formulas(self) -> tuple[str, ...]:
        """All formulas, backward and forward."""
        return (*(each.formula for each in self.inputs), *(each.formula for each in self.forward))

    def inputs_that_need(self, slot: str) -> tuple[str, ...]:
        """The arguments whose gradient needs the saved value."""
        return tuple(name for each in self.inputs if slot in each.uses for name in each.inputs)


class FormulaTable(Struct, frozen=True, omit_defaults=True):
    """The formulas of one release of torch."""

    torch_version: str
    derivatives: tuple[Derivative, ...] = ()
    composed: tuple[str, ...] = ()
    """Functions without a backward of their own: autograd records the operations that they call."""
    undifferentiable: tuple[str, ...] = ()
    """Functions without any derivative: their result has no ``grad_fn`` (``argmax``, ``isnan``), or backward raises."""
