"""The same operations by kernels for other devices: other nodes, the same mathematics."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from gradviz.formulas.plain.plain_formula import PlainFormula

OTHER_KERNELS: Mapping[str, str] = {
    "ScaledDotProductFlashAttentionBackward0": "ScaledDotProductFlashAttentionForCpuBackward0",
    "ScaledDotProductEfficientAttentionBackward0": "ScaledDotProductFlashAttentionForCpuBackward0",
    "ScaledDotProductCudnnAttentionBackward0": "ScaledDotProductFlashAttentionForCpuBackward0",
    "ScaledDotProductFusedAttentionOverrideableBackward0": "ScaledDotProductFlashAttentionForCpuBackward0",
    "CudnnBatchNormBackward0": "NativeBatchNormBackward0",
    "MiopenBatchNormBackward0": "NativeBatchNormBackward0",
    "ConvolutionOverrideableBackward0": "ConvolutionBackward0",
}
"""By the node of a kernel for another device, that of the CPU's: its formula was compared with autograd."""


def of_other_kernels(formulas: Mapping[str, PlainFormula]) -> dict[str, PlainFormula]:
    """Their formulas, which say for which kernel they were compared with autograd."""
    return {
        node: msgspec.structs.replace(
            formulas[same],
            node=node,
            same_as=same,
            note=f"{formulas[same].note} The same mathematics as of {same}, for which it was compared with autograd.",
        )
        for node, same in OTHER_KERNELS.items()
    }
