"""Other shapes, orders and types of the same numbers: the gradient takes the same path back."""

from __future__ import annotations

from gradviz.formulas.plain.plain_formula import PlainFormula, Trap

_SAME_NUMBERS = "grad.reshape(self.shape)"


def _reshaping(node: str, sentence: str, call: str, *traps: Trap) -> PlainFormula:
    gradients = {"self": _SAME_NUMBERS}
    forward = "self.reshape(result.shape)"
    return PlainFormula(node, sentence, call, gradients, forward=forward, holds_for_complex=True, traps=traps)


def _handing_on(node: str, sentence: str, call: str, *traps: Trap) -> PlainFormula:
    return PlainFormula(node, sentence, call, {"self": "grad"}, holds_for_complex=True, forward="self", traps=traps)


SHAPES = (
    _reshaping(
        "ViewBackward0",
        "The same numbers in another shape, without a copy: view, reshape and flatten.",
        "self.view(size)",
        Trap(
            "A view shares the memory of its base: after a change in place of a view, the base has a new grad_fn.",
            "x = torch.ones(4, requires_grad=True) * 1\nx.view(2, 2).mul_(2)\nx.grad_fn.name()",
            "'torch::autograd::CopySlices'",
        ),
    ),
    _reshaping(
        "UnsafeViewBackward0",
        "The same numbers in another shape, inside of matmul.",
        "torch.ops.aten._unsafe_view(self, size)",
    ),
    _reshaping(
        "ReshapeAliasBackward0",
        "The same numbers in another shape, by reshape or flatten of a tensor that is not in order in memory.",
        "torch.ops.aten._reshape_alias(self, size, stride)",
    ),
    _reshaping("UnsqueezeBackward0", "A dimension of size 1 put in.", "self.unsqueeze(dim)"),
    _reshaping(
        "UnsqueezeBackward1",
        "A dimension of size 1 put in, in place.",
        "self.clone().unsqueeze_(dim)",
    ),
    _reshaping("SqueezeBackward0", "All dimensions of size 1 left out.", "self.squeeze()"),
    _reshaping("SqueezeBackward1", "A dimension of size 1 left out.", "self.squeeze(dim)"),
    _reshaping("SqueezeBackward2", "Several dimensions of size 1 left out.", "self.squeeze(dim)"),
    _reshaping("SqueezeBackward3", "All dimensions of size 1 left out in place.", "self.clone().squeeze_()"),
    _reshaping("SqueezeBackward4", "A dimension of size 1 left out in place.", "self.clone().squeeze_(dim)"),
    _handing_on("AliasBackward0", "The same tensor again, as x[...] gives it.", "torch.ops.aten.alias(self)"),
    _handing_on(
        "CloneBackward0", "A copy: clone, contiguous, and reshape where memory is in another order.", "self.clone()"
    ),
    PlainFormula(
        "ToCopyBackward0",
        "Another dtype or device: to(), float(), half(), as autocast does.",
        "self.to(dtype)",
        {"self": "grad.to(self.dtype)"},
        forward="self.to(dtype)",
        note="The gradient comes back in the dtype and on the device of the input.",
        traps=(
            Trap(
                "An integer type cuts off the gradient.",
                "torch.ones(2, requires_grad=True).long().requires_grad",
                "False",
            ),
            Trap(
                "A gradient too small for half precision becomes 0, which is why losses are scaled.",
                "x = torch.tensor([1.0], requires_grad=True)\n(x.half() * 1e-4).mul(1e-5).backward()\nx.grad",
                "[0.0]",
            ),
        ),
    ),
    PlainFormula(
        "TBackward0",
        "A matrix transposed, as nn.Linear does with its weight.",
        "self.t()",
        {"self": "grad.t()"},
        holds_for_complex=True,
    ),
    PlainFormula(
        "TransposeBackward0",
        "Two dimensions exchanged.",
        "self.transpose(dim0, dim1)",
        {"self": "grad.transpose(dim0, dim1)"},
        holds_for_complex=True,
    ),
    PlainFormula(
        "TBackward1",
        "A matrix transposed in place.",
        "self.clone().t_()",
        {"self": "grad.t()"},
        forward="self.t()",
        holds_for_complex=True,
    ),
    PlainFormula(
        "TransposeBackward1",
        "Two dimensions exchanged in place.",
        "self.clone().transpose_(dim0, dim1)",
        {"self": "grad.transpose(dim0, dim1)"},
        forward="self.transpose(dim0, dim1)",
        holds_for_complex=True,
    ),
    PlainFormula(
        "PermuteBackward0",
        "Dimensions in another order.",
        "self.permute(dims)",
        {"self": "grad.permute(torch.argsort(torch.tensor(dims) % self.ndim).tolist())"},
        holds_for_complex=True,
    ),
    PlainFormula(
        "FlipBackward0",
        "Dimensions read backwards.",
        "torch.flip(self, dims)",
        {"self": "torch.flip(grad, dims)"},
        holds_for_complex=True,
    ),
    PlainFormula(
        "Rot90Backward0",
        "A quarter turn, k times.",
        "torch.rot90(self, k, dims)",
        {"self": "torch.rot90(grad, -k, dims)"},
        holds_for_complex=True,
    ),
    PlainFormula(
        "RollBackward0",
        "Shifted along dimensions; what leaves at one end comes in at the other.",
        "torch.roll(self, shifts, dims)",
        {"self": "torch.roll(grad, [-shift for shift in shifts], dims)"},
        holds_for_complex=True,
    ),
)
