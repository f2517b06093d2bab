"""Powers, exponentials and logarithms."""

from __future__ import annotations

from gradviz.formulas.plain.plain_formula import PlainFormula, Trap

EXPONENTIALS = (
    PlainFormula(
        "ExpBackward0",
        "e to the power of each element: its own derivative.",
        "torch.exp(self)",
        {"self": "grad * result.conj()"},
        holds_for_complex=True,
    ),
    PlainFormula(
        "SoftmaxBackward0",
        "Exponentials divided by their sum along one dimension: weights between 0 and 1 that add up to 1.",
        "torch.softmax(self, dim)",
        {"self": "result * (grad - (grad * result).sum(dim, keepdim=True))"},
        forward="torch.exp(self) / torch.exp(self).sum(dim, keepdim=True)",
        note="Popular articles print y² − y or y ∘ (1 − y): the latter is the diagonal of the Jacobian only. Every y "
        "depends on every x of its row, which is the sum ⟨ȳ, y⟩; without it the formula is that of a sigmoid.",
        traps=(
            Trap(
                "The sum of a softmax is always 1, so its gradient is 0; y ∘ (1 − y) would say otherwise.",
                "x = torch.tensor([0.0, 0.0], requires_grad=True)\ntorch.softmax(x, 0).sum().backward()\nx.grad",
                "[0.0, 0.0]",
            ),
        ),
    ),
)
