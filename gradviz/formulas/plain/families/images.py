"""Convolutions, pooling and resizing."""

from __future__ import annotations

from gradviz.formulas.plain.plain_formula import PlainFormula, Trap


def _linear(node: str, sentence: str, call: str, rank: int) -> PlainFormula:
    """For a linear operation on each channel: its matrix is found by applying it to single elements."""
    shape = f"self.shape[-{rank}:]"
    matrix = call.replace("self", "units").replace("output_size", f"result.shape[-{rank}:]")
    return PlainFormula(
        node,
        sentence,
        call,
        {"self": f"(grad.flatten(-{rank}) @ matrix.mT).reshape(self.shape)"},
        forward=f"(self.flatten(-{rank}) @ matrix).reshape(result.shape)",
        where={
            "units": f"torch.eye(math.prod({shape}), dtype=self.dtype).reshape((-1, 1, *{shape}))",
            "matrix": f"{matrix}.flatten(1)",
        },
        symbols={"matrix": "M", "units": "e"},
        note="e holds an input for each element, 1 there and 0 elsewhere; a row of M is its result.",
    )


def _maximum(node: str, sentence: str, call: str, rank: int, *traps: Trap) -> PlainFormula:
    positions = f"scatter_add(-1, result1.flatten(-{rank}), grad.flatten(-{rank}))"
    return PlainFormula(
        node,
        sentence,
        call,
        {"self": f"torch.zeros_like(self).flatten(-{rank}).{positions}.reshape(self.shape)"},
        outputs=("result0", "result1"),
        symbols={"result1": "i"},
        traps=traps,
    )


def _rearranging(node: str, sentence: str, call: str, back: str) -> PlainFormula:
    return PlainFormula(node, sentence, call, {"self": back}, holds_for_complex=True)


IMAGES = (
    PlainFormula(
        "ConvolutionBackward0",
        "A convolution, as all nn.Conv layers run it: each output is a weighted sum over a patch of the input.",
        "torch.convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups)",
        {
            "input": "(kernels @ patches).reshape(input.shape) if transposed "
            "else folded(kernels.mT @ positions, input, weight, stride, padding, dilation)",
            "weight": "(positions @ patches.mT).sum(0).reshape(weight.shape)",
            "bias": "grad.sum(dim)",
        },
        forward="(folded(kernels.mT @ positions, result, weight, stride, padding, dilation) if transposed "
        "else (kernels @ patches).reshape(result.shape)) "
        "+ (0 if bias is None else unreduced(bias, result, dim))",
        where={
            "patches": "grouped(unfolded(grad if transposed else input, weight, stride, padding, dilation), groups)",
            "kernels": "grouped_kernels(weight, groups)",
            "dim": "(0, *range(2, weight.ndim))",
            "positions": "grouped(input if transposed else grad, groups)",
        },
        usual={"transposed": False},
        symbols={"patches": "P", "kernels": "K", "positions": "G"},
        note="P holds all patches as columns, K is the weight and G is ȳ as a matrix; fold adds patches where they "
        "overlap. A transposed convolution exchanges input and result.",
    ),
    _maximum(
        "MaxPool2DWithIndicesBackward0",
        "The largest of each window: the gradient goes to the element that was largest.",
        "torch.nn.functional.max_pool2d(self, kernel_size, stride, padding, dilation, return_indices=True)",
        2,
        Trap(
            "Of equal ones, the first found gets all.",
            "x = torch.ones(1, 1, 2, 2, requires_grad=True)\n"
            "torch.nn.functional.max_pool2d(x, 2).sum().backward()\n"
            "x.grad",
            "[[[[1.0, 0.0], [0.0, 0.0]]]]",
        ),
    ),
    _maximum(
        "AdaptiveMaxPool2DBackward0",
        "The largest of each window, the windows following from the size of the result.",
        "torch.nn.functional.adaptive_max_pool2d(self, output_size, return_indices=True)",
        2,
    ),
    _linear(
        "AvgPool2DBackward0",
        "The mean of each window.",
        "torch.nn.functional.avg_pool2d("
        "self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)",
        2,
    ),
    _linear(
        "AdaptiveAvgPool2DBackward0",
        "The mean of each window, the windows following from the size of the result.",
        "torch.nn.functional.adaptive_avg_pool2d(self, output_size)",
        2,
    ),
    _linear(
        "UpsampleNearest1DBackward0",
        "A longer signal: each element repeated.",
        "torch.ops.aten.upsample_nearest1d(self, output_size, scales)",
        1,
    ),
    _linear(
        "UpsampleNearest2DBackward0",
        "A larger image: each pixel repeated.",
        "torch.ops.aten.upsample_nearest2d(self, output_size, scales_h, scales_w)",
        2,
    ),
    _linear(
        "UpsampleLinear1DBackward0",
        "A longer signal, with straight lines in between.",
        "torch.ops.aten.upsample_linear1d(self, output_size, align_corners, scales)",
        1,
    ),
    _linear(
        "UpsampleBilinear2DBackward0",
        "A larger image, with mixtures of neighbours in between.",
        "torch.ops.aten.upsample_bilinear2d(self, output_size, align_corners, scales_h, scales_w)",
        2,
    ),
    _linear(
        "UpsampleBicubic2DBackward0",
        "A larger image, with smooth curves in between.",
        "torch.ops.aten.upsample_bicubic2d(self, output_size, align_corners, scales_h, scales_w)",
        2,
    ),
    _linear(
        "UpsampleNearestExact2DBackward0",
        "A larger or smaller image: each pixel from the nearest centre.",
        "torch.ops.aten._upsample_nearest_exact2d(self, output_size, scales_h, scales_w)",
        2,
    ),
    _linear(
        "UpsampleBilinear2DAaBackward0",
        "A smaller image without jagged lines: means over larger neighbourhoods.",
        "torch.ops.aten._upsample_bilinear2d_aa(self, output_size, align_corners, scales_h, scales_w)",
        2,
    ),
    _linear(
        "UpsampleNearest3DBackward0",
        "A larger volume: each element repeated.",
        "torch.ops.aten.upsample_nearest3d(self, output_size, scales_d, scales_h, scales_w)",
        3,
    ),
    _linear(
        "UpsampleTrilinear3DBackward0",
        "A larger volume, with mixtures of neighbours in between.",
        "torch.ops.aten.upsample_trilinear3d(self, output_size, align_corners, scales_d, scales_h, scales_w)",
        3,
    ),
    _linear(
        "AvgPool3DBackward0",
        "The mean of each window of a volume.",
        "torch.nn.functional.avg_pool3d("
        "self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)",
        3,
    ),
    _linear(
        "AdaptiveAvgPool3DBackward0",
        "The mean of each window of a volume, the windows following from the size of the result.",
        "torch.nn.functional.adaptive_avg_pool3d(self, output_size)",
        3,
    ),
    _maximum(
        "MaxPool3DWithIndicesBackward0",
        "The largest of each window of a volume.",
        "torch.nn.functional.max_pool3d(self, kernel_size, stride, padding, dilation, return_indices=True)",
        3,
    ),
    PlainFormula(
        "MaxUnpool2DBackward0",
        "Maxima put back to where they were found, 0 elsewhere.",
        "torch.ops.aten.max_unpool2d(self, indices, output_size)",
        {"self": "grad.flatten(2).gather(2, indices.flatten(2)).reshape(self.shape)"},
    ),
    PlainFormula(
        "Im2ColBackward0",
        "All patches of an image as columns: nn.Unfold.",
        "torch.nn.functional.unfold(self, kernel_size, dilation, padding, stride)",
        {
            "self": "torch.nn.functional.fold(grad, self.shape[2:], kernel_size, dilation, padding, stride)",
        },
        note="fold adds the patches where they overlap.",
    ),
    PlainFormula(
        "Col2ImBackward0",
        "Patches put back and added where they overlap: nn.Fold.",
        "torch.nn.functional.fold(self, output_size, kernel_size, dilation, padding, stride)",
        {"self": "torch.nn.functional.unfold(grad, kernel_size, dilation, padding, stride)"},
    ),
    _rearranging(
        "PixelShuffleBackward0",
        "Channels laid out as pixels of a larger image.",
        "torch.pixel_shuffle(self, upscale_factor)",
        "torch.pixel_unshuffle(grad, upscale_factor)",
    ),
    _rearranging(
        "ChannelShuffleBackward0",
        "Channels of all groups interleaved.",
        "torch.channel_shuffle(self, groups)",
        "torch.channel_shuffle(grad, self.size(1) // groups)",
    ),
    _rearranging(
        "PixelUnshuffleBackward0",
        "Pixels laid out as channels of a smaller image.",
        "torch.pixel_unshuffle(self, downscale_factor)",
        "torch.pixel_shuffle(grad, downscale_factor)",
    ),
)
