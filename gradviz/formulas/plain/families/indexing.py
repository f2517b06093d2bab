"""Reading and writing at indices: a gradient goes back to the elements that were read."""

from __future__ import annotations

from gradviz.formulas.plain.plain_formula import PlainFormula, Trap

INDEXING = (
    PlainFormula(
        "SelectBackward0",
        "One index of a dimension: x[0].",
        "torch.select(self, dim, index)",
        {"self": "torch.zeros_like(self).select_scatter(grad, dim, index)"},
        symbols={"index": "index"},
        holds_for_complex=True,
        note="The gradient is as large as x though one index was read: a loop over x[i] costs its size each time.",
    ),
    PlainFormula(
        "SliceBackward0",
        "A range of a dimension: x[1:3], chunk and narrow.",
        "torch.ops.aten.slice(self, dim, start, end, step)",
        {"self": "torch.zeros_like(self).slice_scatter(grad, dim, start, end, step)"},
        holds_for_complex=True,
    ),
    PlainFormula(
        "IndexBackward0",
        "Any elements, by tensors of indices or a mask: x[[0, 2]], x[mask].",
        "torch.ops.aten.index(self, indices)",
        {"self": "torch.ops.aten.index_put(torch.zeros_like(self), indices, grad, accumulate=True)"},
        holds_for_complex=True,
        traps=(
            Trap(
                "What is read twice gets both gradients.",
                "x = torch.ones(2, requires_grad=True)\nx[[0, 0, 1]].sum().backward()\nx.grad",
                "[2.0, 1.0]",
            ),
        ),
    ),
    PlainFormula(
        "IndexSelectBackward0",
        "Several indices of one dimension.",
        "torch.index_select(self, dim, index)",
        {"self": "torch.zeros_like(self).index_add(dim, index, grad)"},
        holds_for_complex=True,
    ),
    PlainFormula(
        "GatherBackward0",
        "For each element its own index along a dimension, as for the log-probability of each target.",
        "torch.gather(self, dim, index)",
        {"self": "torch.zeros_like(self).scatter_add(dim, index, grad)"},
        holds_for_complex=True,
    ),
    PlainFormula(
        "TakeBackward0",
        "Elements of the flattened input, by index.",
        "torch.take(self, index)",
        {
            "self": "torch.zeros_like(self).flatten()"
            ".index_add(0, index.flatten() % self.numel(), grad.flatten()).reshape(self.shape)"
        },
        holds_for_complex=True,
    ),
    PlainFormula(
        "IndexPutBackward0",
        "Values written to elements, as x[mask] = v does, or added to them.",
        "torch.ops.aten.index_put(self, indices, values, accumulate)",
        {
            "self": "grad if accumulate else torch.ops.aten.index_put(grad, indices, torch.zeros_like(values))",
            "values": "torch.ops.aten.index(grad, indices)",
        },
        usual={"accumulate": False},
        symbols={"values": "v", "result": "y"},
        holds_for_complex=True,
        note="What was overwritten gets no gradient. With accumulate, v is added instead of put.",
    ),
    PlainFormula(
        "IndexAddBackward0",
        "Values added at indices of a dimension, as messages are in graph networks.",
        "torch.index_add(self, dim, index, source, alpha=alpha)",
        {"self": "grad", "source": "alpha * grad.index_select(dim, index)"},
        forward="self.index_add(dim, index, alpha * source)",
        usual={"alpha": 1},
        holds_for_complex=True,
    ),
    PlainFormula(
        "IndexCopyBackward0",
        "Values written at indices of a dimension.",
        "torch.index_copy(self, dim, index, source)",
        {"self": "grad.index_fill(dim, index, 0)", "source": "grad.index_select(dim, index)"},
        holds_for_complex=True,
    ),
    PlainFormula(
        "IndexFillBackward0",
        "A number written at indices of a dimension.",
        "torch.index_fill(self, dim, index, value)",
        {"self": "grad.index_fill(dim, index, 0)"},
        symbols={"value": "value"},
        holds_for_complex=True,
    ),
    PlainFormula(
        "ScatterBackward0",
        "Values written at given indices along a dimension.",
        "torch.scatter(self, dim, index, src)",
        {"self": "grad.scatter(dim, index, 0)", "src": "grad.gather(dim, index)"},
        holds_for_complex=True,
        traps=(
            Trap(
                "Where several values go to one element, one of them stays; yet torch gives all of them the gradient.",
                "s = torch.ones(2, requires_grad=True)\ntorch.zeros(1).scatter(0, torch.tensor([0, 0]), s).backward()\n"
                "s.grad",
                "[1.0, 1.0]",
            ),
        ),
    ),
    PlainFormula(
        "ScatterBackward1",
        "A number written at given indices along a dimension.",
        "torch.scatter(self, dim, index, value)",
        {"self": "grad.scatter(dim, index, 0)"},
        symbols={"value": "value"},
        holds_for_complex=True,
    ),
    PlainFormula(
        "ScatterAddBackward0",
        "Values added at given indices along a dimension.",
        "torch.scatter_add(self, dim, index, src)",
        {"self": "grad", "src": "grad.gather(dim, index)"},
        holds_for_complex=True,
    ),
    PlainFormula(
        "ScatterReduceBackward0",
        "Values summed, averaged or compared at given indices along a dimension, as messages are in graph networks.",
        "torch.scatter_reduce(self, dim, index, src, reduce)",
        {
            "self": "grad * (self == result) / winners if reduce in ('amax', 'amin') else grad / count",
            "src": "(src == result.gather(dim, index)) * (grad / winners).gather(dim, index) "
            "if reduce in ('amax', 'amin') else (grad / count).gather(dim, index)",
        },
        where={
            "count": "torch.ones_like(self).scatter_add(dim, index, torch.ones_like(src)) "
            "if reduce == 'mean' else torch.ones_like(self)",
            "winners": "(self == result).to(grad.dtype)"
            ".scatter_add(dim, index, (src == result.gather(dim, index)).to(grad.dtype))",
        },
        usual={"reduce": "mean"},
        symbols={"count": "n", "winners": "m"},
        note="n is how many values met at an index for a mean, and 1 for a sum; m is how many share the extreme. "
        "Written for self included, and not for products.",
    ),
    PlainFormula(
        "SelectScatterBackward0",
        "One index of a dimension replaced.",
        "torch.select_scatter(self, src, dim, index)",
        {
            "self": "grad.select_scatter(torch.zeros_like(src), dim, index)",
            "src": "grad.select(dim, index)",
        },
        symbols={"index": "index"},
    ),
    PlainFormula(
        "SliceScatterBackward0",
        "A range of a dimension replaced.",
        "torch.slice_scatter(self, src, dim, start, end, step)",
        {
            "self": "grad.slice_scatter(torch.zeros_like(src), dim, start, end, step)",
            "src": "torch.ops.aten.slice(grad, dim, start, end, step)",
        },
    ),
    PlainFormula(
        "EmbeddingBackward0",
        "Rows of a table by their numbers, as tokens are looked up.",
        "torch.nn.functional.embedding(indices, weight, padding_idx)",
        {
            "weight": "torch.zeros_like(weight).index_add(0, indices.flatten(), "
            "(grad * (indices != padding_idx).unsqueeze(-1)).flatten(0, indices.ndim - 1))"
        },
        forward="weight[indices]",
        note="A row that was looked up several times gets the sum of its gradients, the padding row none.",
        traps=(
            Trap(
                "A word that occurs three times in a batch gets the sum of three gradients.",
                "w = torch.zeros(2, 1, requires_grad=True)\n"
                "torch.nn.functional.embedding(torch.tensor([1, 1, 1]), w).sum().backward()\n"
                "w.grad",
                "[[0.0], [3.0]]",
            ),
        ),
    ),
    PlainFormula(
        "EmbeddingBagBackward0",
        "Sums or means of rows of a table.",
        "torch.nn.functional.embedding_bag(indices, weight, offsets, mode=('sum', 'mean')[mode])",
        {"weight": "torch.zeros_like(weight).index_add(0, indices, (grad / size)[bag])"},
        forward="torch.zeros_like(result0).index_add(0, bag, weight[indices]) / size",
        where={
            "bag": "(column(torch.arange(indices.numel())) >= offsets).sum(-1) - 1",
            "size": "torch.bincount(bag).unsqueeze(-1) if mode == 1 else 1",
        },
        usual={"mode": 0},
        outputs=("result0",),
        note="Without weights of samples. mode is 0 for sums and 1 for means; offsets are where bags begin.",
    ),
)
