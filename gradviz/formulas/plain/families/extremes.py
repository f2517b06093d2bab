"""Largest, smallest and middle elements, and sorting: the gradient goes to the elements that were chosen."""

from __future__ import annotations

from gradviz.formulas.plain.plain_formula import PlainFormula, Trap

_OF_ONE_INDEX = "torch.zeros_like(self).scatter(dim, unreduced(indices, self, dim), unreduced(grad, self, dim))"


def _shared(gradient: str, extreme: str) -> str:
    """To all elements equal to the extreme, in equal parts."""
    winners = f"(self == unreduced({extreme}, self, dim))"
    return f"unreduced({gradient}, self, dim) * {winners} / {winners}.sum(dim, keepdim=True)"


def _whole_extreme(node: str, sentence: str, call: str, *traps: Trap) -> PlainFormula:
    return PlainFormula(
        node,
        sentence,
        call,
        {"self": "grad * (self == result) / (self == result).sum()"},
        note="Ties share evenly.",
        traps=traps,
    )


def _extremes(node: str, sentence: str, call: str, *traps: Trap) -> PlainFormula:
    return PlainFormula(
        node,
        sentence,
        call,
        {"self": _shared("grad", "result")},
        note="Ties share evenly, unlike in max(dim) and min(dim).",
        traps=traps,
    )


def _extreme_with_index(node: str, sentence: str, call: str, *traps: Trap) -> PlainFormula:
    return PlainFormula(
        node,
        sentence,
        call,
        {"self": _OF_ONE_INDEX},
        outputs=("values", "indices"),
        traps=traps,
    )


def _in_another_order(node: str, sentence: str, call: str, *traps: Trap) -> PlainFormula:
    return PlainFormula(
        node,
        sentence,
        call,
        {"self": "torch.zeros_like(self).scatter(dim, indices, grad)"},
        outputs=("values", "indices"),
        note="The indices have no gradient.",
        traps=traps,
    )


EXTREMES = (
    _extreme_with_index(
        "MaxBackward0",
        "The largest along a dimension, and its index: the gradient goes to that element alone.",
        "torch.max(self, dim, keepdim=keepdim)",
        Trap(
            "Of two equal ones, the one whose index is returned gets all; amax and max() share evenly.",
            "x = torch.tensor([1.0, 1.0], requires_grad=True)\ntorch.max(x, 0).values.backward()\nx.grad",
            "[1.0, 0.0]",
        ),
    ),
    _extreme_with_index(
        "MinBackward0",
        "The smallest along a dimension, and where it is.",
        "torch.min(self, dim, keepdim=keepdim)",
        Trap(
            "Of two equal ones, the one whose index is returned gets all; amin and min() share evenly.",
            "x = torch.tensor([1.0, 1.0], requires_grad=True)\ntorch.min(x, 0).values.backward()\nx.grad",
            "[1.0, 0.0]",
        ),
    ),
    _extreme_with_index(
        "MedianBackward1",
        "The median along a dimension, and where it is.",
        "torch.median(self, dim, keepdim=keepdim)",
        Trap(
            "Of an even number of elements it is the lower of the middle two, and no mean.",
            "x = torch.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)\ntorch.median(x, 0).values.backward()\nx.grad",
            "[0.0, 1.0, 0.0, 0.0]",
        ),
    ),
    _extreme_with_index(
        "KthvalueBackward0",
        "The k-th smallest along a dimension, and where it is.",
        "torch.kthvalue(self, k, dim, keepdim)",
    ),
    _extreme_with_index(
        "ModeBackward0", "The most frequent value along a dimension, and where it is.", "torch.mode(self, dim, keepdim)"
    ),
    _whole_extreme(
        "MaxBackward1",
        "The largest of all elements.",
        "self.max()",
        Trap(
            "Of two equal ones each gets half.",
            "x = torch.tensor([1.0, 1.0], requires_grad=True)\nx.max().backward()\nx.grad",
            "[0.5, 0.5]",
        ),
    ),
    _whole_extreme("MinBackward1", "The smallest of all elements.", "self.min()"),
    _whole_extreme("MedianBackward0", "The median of all elements.", "self.median()"),
    _whole_extreme("NanmedianBackward0", "The median of what is not NaN.", "self.nanmedian()"),
    _extremes(
        "AmaxBackward0",
        "The largest along dimensions.",
        "torch.amax(self, dim, keepdim)",
        Trap(
            "Of two equal ones each gets half.",
            "x = torch.tensor([1.0, 1.0], requires_grad=True)\ntorch.amax(x, 0).backward()\nx.grad",
            "[0.5, 0.5]",
        ),
    ),
    _extremes("AminBackward0", "The smallest along dimensions.", "torch.amin(self, dim, keepdim)"),
    _in_another_order(
        "SortBackward0",
        "Sorted along a dimension, and the order: each gradient goes back to where its value came from.",
        "torch.sort(self, dim)",
        Trap(
            "argsort, like the indices, cuts off the gradient.",
            "x = torch.ones(3, requires_grad=True)\ntorch.argsort(x).requires_grad",
            "False",
        ),
    ),
    _in_another_order(
        "TopkBackward0",
        "The k largest along a dimension, and where they are.",
        "torch.topk(self, k, dim)",
        Trap(
            "What was not chosen has the gradient 0: experts that no token is sent to learn nothing.",
            "x = torch.tensor([1.0, 3.0, 2.0], requires_grad=True)\ntorch.topk(x, 1).values.backward()\nx.grad",
            "[0.0, 1.0, 0.0]",
        ),
    ),
    PlainFormula(
        "AminmaxBackward0",
        "The smallest and the largest along a dimension.",
        "torch.aminmax(self, dim=dim, keepdim=keepdim)",
        {"self": f"{_shared('grads[0]', 'min')} + {_shared('grads[1]', 'max')}"},
        outputs=("min", "max"),
        symbols={"min": "y₁", "max": "y₂"},
        note="Ties share evenly.",
    ),
    PlainFormula(
        "CummaxBackward0",
        "The largest so far along a dimension, and where it was.",
        "torch.cummax(self, dim)",
        {"self": "torch.zeros_like(self).scatter_add(dim, indices, grad)"},
        outputs=("values", "indices"),
    ),
    PlainFormula(
        "CumminBackward0",
        "The smallest so far along a dimension, and where it was.",
        "torch.cummin(self, dim)",
        {"self": "torch.zeros_like(self).scatter_add(dim, indices, grad)"},
        outputs=("values", "indices"),
    ),
)
