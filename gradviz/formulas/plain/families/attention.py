"""Attention in one operation."""

from __future__ import annotations

from gradviz.formulas.plain.plain_formula import PlainFormula, Trap

ATTENTION = (
    PlainFormula(
        "ScaledDotProductFlashAttentionForCpuBackward0",
        "Attention: mixtures of values V, by how well queries Q meet keys K.",
        "torch.ops.aten._scaled_dot_product_flash_attention_for_cpu("
        "query, key, value, 0.0, is_causal, attn_mask=attn_mask, scale=scale)",
        {
            "query": "factor * (at_scores @ key)",
            "key": "factor * (at_scores.mT @ query)",
            "value": "weights.mT @ grad",
        },
        forward="weights @ value",
        where={
            "factor": "1 / math.sqrt(query.size(-1)) if scale is None else scale",
            "mask": "causal_mask(query, key) if is_causal else 0 if attn_mask is None else attn_mask",
            "weights": "torch.softmax(factor * (query @ key.mT) + mask, -1)",
            "at_weights": "grad @ value.mT",
            "at_scores": "weights * (at_weights - (at_weights * weights).sum(-1, keepdim=True))",
        },
        usual={"is_causal": False, "scale": None},
        outputs=("output",),
        symbols={
            "factor": "s",
            "mask": "M",
            "weights": "P",
            "at_weights": "P̄",
            "at_scores": "S̄",
            "output": "Y",
        },
        note="P̄ and S̄ are the gradients of the weights P and of what the softmax is taken of, along rows. "
        "A mask M is −∞ where a query may not see a key; S̄ is its gradient, too. Without dropout.",
        traps=(
            Trap(
                "Where one key takes all the weight, P is 0 or 1, and queries and keys get no gradient.",
                "q = torch.full((1, 1, 1, 1), 200.0, requires_grad=True)\n"
                "k = torch.tensor([1.0, -1.0]).reshape(1, 1, 2, 1)\n"
                "torch.nn.functional.scaled_dot_product_attention(q, k, k).sum().backward()\n"
                "q.grad.item()",
                "0.0",
            ),
        ),
    ),
)
