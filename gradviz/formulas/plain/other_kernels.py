"""Operations whose kernels for other devices make other nodes with the same mathematics."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from gradviz.formulas.plain.plain_formula import PlainFormula


class _Kernel(NamedTuple):
    same_as: str
    """The node of the CPU's kernel, whose formula was compared with autograd."""
    renamed: Mapping[str, str]
    """Names to replace, because arguments have other names or are missing."""


_ATTENTION = "ScaledDotProductFlashAttentionForCpuBackward0"
_OTHER_KERNELS = {
    "ScaledDotProductFlashAttentionBackward0": _Kernel(_ATTENTION, {"0 if attn_mask is None else attn_mask": "0"}),
    "ScaledDotProductEfficientAttentionBackward0": _Kernel(_ATTENTION, {"attn_mask": "attn_bias"}),
    "ScaledDotProductCudnnAttentionBackward0": _Kernel(_ATTENTION, {"attn_mask": "attn_bias"}),
    "ScaledDotProductFusedAttentionOverrideableBackward0": _Kernel(_ATTENTION, {"attn_mask": "attn_bias"}),
    "CudnnBatchNormBackward0": _Kernel("NativeBatchNormBackward0", {"eps": "epsilon"}),
    "MiopenBatchNormBackward0": _Kernel("NativeBatchNormBackward0", {"eps": "epsilon"}),
    "ConvolutionOverrideableBackward0": _Kernel("ConvolutionBackward0", {}),
}


def of_other_kernels(formulas: Mapping[str, PlainFormula]) -> dict[str, PlainFormula]:
    """The formulas of other kernels; each says with which kernel it was compared with autograd."""
    return {node: _for(node, kernel, formulas[kernel.same_as]) for node, kernel in _OTHER_KERNELS.items()}


def _for(node: str, kernel: _Kernel, formula: PlainFormula) -> PlainFormula:
    where = dict(formula.where)
    for old, new in kernel.renamed.items():
        where = {name: re.sub(rf"\b{old}\b", new, expression) for name, expression in where.items()}
    note = f"{formula.note} The same mathematics as of {formula.node}, for which it was compared with autograd."
    return msgspec.structs.replace(formula, node=node, where=where, same_as=formula.node, note=note)
