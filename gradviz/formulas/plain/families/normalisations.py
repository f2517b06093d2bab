"""Normalization: subtract the mean, divide by the spread, then scale and shift."""

from __future__ import annotations

from gradviz.formulas.plain.plain_formula import PlainFormula, Trap

_SYMBOLS = {
    "weight": "w",
    "normalized": "x̂",
    "scaled": "g",
    "mean": "μ",
    "rstd": "r",
    "variance": "σ²",
}
_OF_NORMALIZED = (
    "rstd * (scaled - scaled.mean(dim, keepdim=True) - normalized * (scaled * normalized).mean(dim, keepdim=True))"
)

NORMALISATIONS = (
    PlainFormula(
        "NativeLayerNormBackward0",
        "nn.LayerNorm: each sample to mean 0 and variance 1, then scaled and shifted.",
        "torch.native_layer_norm(input, normalized_shape, weight, bias, eps)",
        {
            "input": _OF_NORMALIZED,
            "weight": "(grad * normalized).sum(batch)",
            "bias": "grad.sum(batch)",
        },
        forward="normalized * weight + bias",
        where={
            "dim": "tuple(range(-len(normalized_shape), 0))",
            "batch": "tuple(range(input.ndim - len(normalized_shape)))",
            "mean": "input.mean(dim, keepdim=True)",
            "rstd": "1 / torch.sqrt(torch.square(input - mean).mean(dim, keepdim=True) + eps)",
            "normalized": "(input - mean) * rstd",
            "scaled": "grad * weight",
        },
        outputs=("result0",),
        symbols=_SYMBOLS,
        note="Without weight and bias, w is 1 and b is 0. Means run over the normalized dimensions.",
        traps=(
            Trap(
                "The gradient has no part along 1: to add one number to all of x changes nothing.",
                "x = torch.tensor([1.0, 2.0, 4.0], requires_grad=True)\n"
                "torch.nn.functional.layer_norm(x, (3,))[0].backward()\n"
                "bool(x.grad.sum().abs() < 1e-6)",
                "True",
            ),
        ),
    ),
    PlainFormula(
        "NativeBatchNormBackward0",
        "nn.BatchNorm: each channel to mean 0 and variance 1 over the batch, then scaled and shifted.",
        "torch.native_batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps)",
        {
            "input": f"{_OF_NORMALIZED} if training else rstd * scaled",
            "weight": "(grad * normalized).sum(dim)",
            "bias": "grad.sum(dim)",
        },
        forward="normalized * unreduced(weight, input, dim) + unreduced(bias, input, dim)",
        where={
            "dim": "(0, *range(2, input.ndim))",
            "mean": "input.mean(dim, keepdim=True) if training else unreduced(running_mean, input, dim)",
            "variance": "torch.square(input - mean).mean(dim, keepdim=True) if training "
            "else unreduced(running_var, input, dim)",
            "rstd": "1 / torch.sqrt(variance + eps)",
            "normalized": "(input - mean) * rstd",
            "scaled": "grad * unreduced(weight, input, dim)",
        },
        usual={"training": True},
        outputs=("result0",),
        symbols=_SYMBOLS,
        note="Means and sums run over all dimensions but the channels. In evaluation, mean and variance are constants.",
        traps=(
            Trap(
                "In training, samples of a batch get gradients through each other.",
                "x = torch.tensor([[1.0], [2.0], [4.0]], requires_grad=True)\n"
                "torch.nn.functional.batch_norm(x, None, None, training=True)[0].sum().backward()\n"
                "[bool(g != 0) for g in x.grad]",
                "[True, True, True]",
            ),
        ),
    ),
    PlainFormula(
        "NativeGroupNormBackward0",
        "nn.GroupNorm: channels in groups, each group of each sample to mean 0 and variance 1.",
        "torch.native_group_norm(input, weight, bias, N, C, HxW, group, eps)",
        {
            "input": f"({_OF_NORMALIZED}).reshape(input.shape)".replace("(dim,", "(-1,"),
            "weight": "(grad * normalized.reshape(input.shape)).sum(channelwise)",
            "bias": "grad.sum(channelwise)",
        },
        forward="normalized.reshape(input.shape) * unreduced(weight, input, channelwise)"
        " + unreduced(bias, input, channelwise)",
        where={
            "channelwise": "(0, *range(2, input.ndim))",
            "grouped": "input.reshape((N, group, -1))",
            "mean": "grouped.mean(-1, keepdim=True)",
            "rstd": "1 / torch.sqrt(torch.square(grouped - mean).mean(-1, keepdim=True) + eps)",
            "normalized": "(grouped - mean) * rstd",
            "scaled": "(grad * unreduced(weight, input, channelwise)).reshape((N, group, -1))",
        },
        outputs=("result0",),
        symbols={**_SYMBOLS, "grouped": "z"},
        note="Means run over each group of each sample.",
    ),
    PlainFormula(
        "WeightNormInterfaceBackward0",
        "weight_norm: a direction v and a length g in place of a weight.",
        "torch._weight_norm_interface(v, g, dim)",
        {
            "v": "g / length * (grad - v * (grad * v).sum(others, keepdim=True) / length**2)",
            "g": "(grad * v).sum(others, keepdim=True) / length",
        },
        forward="g * v / length",
        where={
            "others": "[d for d in range(v.ndim) if d != dim]",
            "length": "torch.sqrt(torch.square(v).sum(others, keepdim=True))",
        },
        outputs=("result0",),
        symbols={"length": "l"},
    ),
)
