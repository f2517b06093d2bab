"""Convolutions, pooling and resizing."""

from __future__ import annotations

from gradviz.formulas.plain.plain_formula import PlainFormula, Trap


def _linear(node: str, sentence: str, call: str, *traps: Trap, note: str = "") -> PlainFormula:
    """Linear, and the same for each channel of each sample: a matrix, made of what becomes of single pixels."""
    return PlainFormula(
        node,
        sentence,
        call,
        {"self": "(grad.flatten(2) @ matrix.mT).reshape(self.shape)"},
        forward="(self.flatten(2) @ matrix).reshape(result.shape)",
        where={
            "units": "torch.eye(self[0, 0].numel(), dtype=self.dtype).reshape((-1, 1, *self.shape[2:]))",
            "matrix": call.replace("self", "units") + ".flatten(1)",
        },
        symbols={"matrix": "M", "units": "e"},
        note=note or "M holds what becomes of each single pixel, e.",
        traps=traps,
    )


def _maximum(node: str, sentence: str, call: str, *traps: Trap) -> PlainFormula:
    return PlainFormula(
        node,
        sentence,
        call,
        {
            "self": "torch.zeros_like(self).flatten(2).scatter_add(2, result1.flatten(2), grad.flatten(2))"
            ".reshape(self.shape)"
        },
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
            "input": "torch.nn.functional.fold((kernels.mT @ arriving).flatten(1, 2), "
            "input.shape[2:], weight.shape[2:], dilation, padding, stride)",
            "weight": "(arriving @ patches.mT).sum(0).reshape(weight.shape)",
            "bias": "grad.sum((0, 2, 3))",
        },
        forward="(kernels @ patches).reshape(result.shape) + unreduced(bias, result, (0, 2, 3))",
        where={
            "patches": "grouped("
            "torch.nn.functional.unfold(input, weight.shape[2:], dilation, padding, stride), groups)",
            "kernels": "grouped_kernels(weight, groups)",
            "arriving": "grouped(grad, groups)",
        },
        symbols={"patches": "P", "kernels": "K", "arriving": "Ḡ"},
        note="P holds all patches as columns, K the weight as a matrix, Ḡ is ȳ as a matrix; fold adds patches where "
        "they overlap. Written for images; a transposed convolution exchanges x and y.",
    ),
    _maximum(
        "MaxPool2DWithIndicesBackward0",
        "The largest of each window: the gradient goes to the place where it was found.",
        "torch.nn.functional.max_pool2d(self, kernel_size, stride, padding, dilation, return_indices=True)",
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
    ),
    _linear(
        "AvgPool2DBackward0",
        "The mean of each window.",
        "torch.nn.functional.avg_pool2d(self, kernel_size, stride, padding)",
    ),
    _linear(
        "AdaptiveAvgPool2DBackward0",
        "The mean of each window, the windows following from the size of the result.",
        "torch.nn.functional.adaptive_avg_pool2d(self, output_size)",
    ),
    _linear(
        "UpsampleNearest1DBackward0",
        "A longer signal: each element repeated.",
        "torch.nn.functional.interpolate(self, output_size)",
    ),
    _linear(
        "UpsampleNearest2DBackward0",
        "A larger image: each pixel repeated.",
        "torch.nn.functional.interpolate(self, output_size)",
    ),
    _linear(
        "UpsampleLinear1DBackward0",
        "A longer signal, with straight lines in between.",
        "torch.nn.functional.interpolate(self, output_size, mode='linear', align_corners=align_corners)",
    ),
    _linear(
        "UpsampleBilinear2DBackward0",
        "A larger image, with mixtures of neighbours in between.",
        "torch.nn.functional.interpolate(self, output_size, mode='bilinear', align_corners=align_corners)",
    ),
    _linear(
        "UpsampleBicubic2DBackward0",
        "A larger image, with smooth curves in between.",
        "torch.nn.functional.interpolate(self, output_size, mode='bicubic', align_corners=align_corners)",
    ),
    _linear(
        "UpsampleNearestExact2DBackward0",
        "A larger or smaller image: each pixel from the nearest centre.",
        "torch.nn.functional.interpolate(self, output_size, mode='nearest-exact')",
    ),
    _linear(
        "UpsampleBilinear2DAaBackward0",
        "A smaller image without jagged lines: means over larger neighbourhoods.",
        "torch.nn.functional.interpolate("
        "self, output_size, mode='bilinear', align_corners=align_corners, antialias=True)",
    ),
    _linear(
        "UpsampleNearest3DBackward0",
        "A larger volume: each element repeated.",
        "torch.nn.functional.interpolate(self, output_size)",
    ),
    _linear(
        "UpsampleTrilinear3DBackward0",
        "A larger volume, with mixtures of neighbours in between.",
        "torch.nn.functional.interpolate(self, output_size, mode='trilinear', align_corners=align_corners)",
    ),
    _linear(
        "AvgPool3DBackward0",
        "The mean of each window of a volume.",
        "torch.nn.functional.avg_pool3d(self, kernel_size, stride, padding)",
    ),
    _linear(
        "AdaptiveAvgPool3DBackward0",
        "The mean of each window of a volume, the windows following from the size of the result.",
        "torch.nn.functional.adaptive_avg_pool3d(self, output_size)",
    ),
    _maximum(
        "MaxPool3DWithIndicesBackward0",
        "The largest of each window of a volume.",
        "torch.nn.functional.max_pool3d(self, kernel_size, stride, padding, dilation, return_indices=True)",
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
