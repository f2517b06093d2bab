"""The arguments that decide what an operation does, in a few quiet words: ``softmax dim=-1``, ``pow 2``.

Only these: a stride of 1, a mean over everything or an epsilon tell a user nothing; they are in the tooltip.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from gradviz.graph.model import Attribute, Node
from gradviz.graph.query.operation_names import stem_of

_Settings = Mapping[str, Attribute]
_Words = Callable[[_Settings], str]

_NO_LIMIT = 1e30
"""A minimum or maximum beyond this is that of the dtype: nothing is clamped to it."""
_MAX_DIMENSIONS = 64
"""torch allows no more. Other numbers are no dimension, or one that torch reports unsigned."""
_OPEN_END = 2**62
"""A slice that runs to the end has a stop larger than any size."""


def setting_words(node: Node) -> str:
    """The words for `node`; empty if it has no such argument or if torch does not report it."""
    stem, call = stem_of(node.name), (node.forward_call or "").rpartition(".")[2]
    words = _AS_CALLED.get((call, stem)) or _TABLE.get(stem)
    settings = words(node.attributes) if words and node.attributes else ""
    if node.number is None or (stem == "Pow" and settings):
        return settings
    return ", ".join(filter(None, (_REVERSED.get(call, "{}").format(_value(node.number)), settings)))


def _value(value: Attribute) -> str:
    if isinstance(value, list):
        return _value(value[0]) if len(value) == 1 else f"({', '.join(map(_value, value))})"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _is_told(value: Attribute) -> bool:
    is_no_limit = isinstance(value, float) and abs(value) > _NO_LIMIT
    return value is not None and value != [] and not is_no_limit


def _bare(name: str, settings: _Settings) -> str:
    """The value alone: ``pow 2``."""
    return _value(settings[name]) if _is_told(settings.get(name)) else ""


def _named(name: str, settings: _Settings) -> str:
    """``dim=1``."""
    return f"{name}={_value(settings[name])}" if _is_told(settings.get(name)) else ""


def _unless(usual: Attribute, name: str, settings: _Settings) -> str:
    """``dim=1``, unless the value is the usual one; one number if all are equal."""
    value = settings.get(name)
    values = value if isinstance(value, list) else [value]
    if any(each != values[0] for each in values):
        return _named(name, settings)
    return _named(name, {name: values[0]}) if values and values[0] != usual else ""


def _joined(*parts: _Words) -> _Words:
    return lambda settings: ", ".join(filter(None, (part(settings) for part in parts)))


def _pair(first: str, second: str, settings: _Settings) -> str:
    """``1, 2``, if both are known."""
    values = [_bare(name, settings) for name in (first, second)]
    return ", ".join(values) if all(values) else ""


def _square(name: str, settings: _Settings) -> str:
    """``3×3``."""
    value = settings.get(name)
    return "×".join(map(_value, value)) if isinstance(value, list) else _bare(name, settings)


def _reduction(settings: _Settings) -> str:
    return {"0": "none", "2": "sum"}.get(str(settings.get("reduction")), "")


def _flag(name: str, words: str, settings: _Settings) -> str:
    return words if settings.get(name) is True else ""


def _frozen_statistics(settings: _Settings) -> str:
    return "eval" if settings.get("training") is False else ""


def _stride(settings: _Settings) -> str:
    """The stride of a pooling; its default is the size of the window."""
    stride = settings.get("stride")
    return "" if stride in ([], settings.get("kernel_size")) else _unless(None, "stride", settings)


def _place(dim: Attribute, index: str) -> str:
    """An index as Python writes it: ``[:, 1]``."""
    if not isinstance(dim, int) or not -_MAX_DIMENSIONS <= dim < _MAX_DIMENSIONS:
        return f"[{index}]"
    return f"[{':, ' * dim}{index}]" if dim >= 0 else f"[..., {index}{', :' * (-dim - 1)}]"


def _select_index(settings: _Settings) -> str:
    return _place(settings.get("dim"), _bare("index", settings))


def _slice_index(settings: _Settings) -> str:
    start, end, step = (settings.get(name) for name in ("start", "end", "step"))
    first = "" if start in (None, 0) else _value(start)
    last = "" if end is None or (isinstance(end, int) and end > _OPEN_END) else _value(end)
    by = "" if step in (None, 1) else f":{_value(step)}"
    return _place(settings.get("dim"), f"{first}:{last}{by}")


def _moved(settings: _Settings) -> str:
    """How a distributed tensor lies on the mesh of its ranks, before and after: ``Shard(0) → Replicate()``."""
    return f"{settings.get('from', '')} → {settings.get('to', '')}" if "to" in settings else ""


def _nothing(_: _Settings) -> str:
    return ""


_dim = partial(_named, "dim")
_stride_of_one = partial(_unless, 1, "stride")
_dilation = partial(_unless, 1, "dilation")
_kernel = partial(_square, "kernel_size")

_AS_CALLED: dict[tuple[str, str], _Words] = {
    ("__getitem__", "Select"): _select_index,
    ("__getitem__", "Slice"): _slice_index,
    ("__getitem__", "Unsqueeze"): lambda settings: _place(settings.get("dim"), "None"),
    ("chunk", "Split"): _dim,
    **dict.fromkeys(
        (("square", "Pow"), ("einsum", "Sum"), ("einsum", "Permute"), ("adaptive_avg_pool2d", "Mean")), _nothing
    ),
}
"""Calls whose arguments are written differently from those of the node that they make, or are other ones."""

_REVERSED = {"__rsub__": "{} - …", "rsub": "{} - …", "__rpow__": "{} ** …"}
"""Calls whose number is not the second operand."""

_ROWS: tuple[tuple[str, _Words], ...] = (
    ("Softmax LogSoftmax SafeSoftmax Glu CosineSimilarity LinalgCross FftC2C FftR2C FftC2R", _dim),
    ("Sum Mean Prod Amax Amin Aminmax Max Min Median Nanmedian Mode Nansum Logsumexp", _dim),
    ("Cumsum Cumprod Cummax Cummin Logcumsumexp Sort Topk Kthvalue", _dim),
    ("Cat Stack Unbind SplitWithSizes Squeeze Unsqueeze", _dim),
    ("Gather Scatter ScatterAdd ScatterReduce IndexSelect IndexAdd IndexCopy IndexFill", _dim),
    ("Std Var StdMean VarMean", _dim),
    ("Norm Dist Cdist", _joined(partial(_unless, 2, "p"), _dim)),
    ("LinalgVectorNorm", _joined(partial(_unless, 2, "ord"), _dim)),
    ("Split UnsafeSplit", _joined(partial(_bare, "split_size"), _dim)),
    ("Select", _joined(_dim, partial(_named, "index"))),
    ("Slice", _joined(_dim, lambda settings: _slice_index({**settings, "dim": None}))),
    ("Transpose SwapAxes", partial(_pair, "dim0", "dim1")),
    ("Permute Flip", partial(_bare, "dims")),
    ("Roll", _joined(partial(_bare, "shifts"), partial(_named, "dims"))),
    ("Repeat", partial(_bare, "repeats")),
    ("ConstantPadNd", partial(_bare, "pad")),
    ("Diagonal", partial(_unless, 0, "offset")),
    ("Tril Triu", partial(_unless, 0, "diagonal")),
    ("Unfold", _joined(partial(_bare, "size"), partial(_named, "step"))),
    ("Convolution", _joined(_stride_of_one, _dilation, partial(_unless, 1, "groups"))),
    ("Im2Col Col2Im", _joined(_kernel, _stride_of_one, _dilation)),
    ("MaxPool2DWithIndices MaxPool3DWithIndices AvgPool2D AvgPool3D", _joined(_kernel, _stride, _dilation)),
    ("UpsampleNearest2D UpsampleBilinear2D UpsampleBicubic2D", partial(_square, "output_size")),
    ("NativeBatchNorm CudnnBatchNorm MiopenBatchNorm", _frozen_statistics),
    (
        "MkldnnRnnLayer CudnnRnn",
        _joined(partial(_unless, 1, "num_layers"), partial(_flag, "bidirectional", "bidirectional")),
    ),
    (
        "ScaledDotProductFlashAttentionForCpu ScaledDotProductFlashAttention",
        _joined(partial(_flag, "is_causal", "causal"), partial(_unless, 0, "dropout_p")),
    ),
    ("Add Sub Addmm Baddbmm", _joined(partial(_unless, 1, "alpha"), partial(_unless, 1, "beta"))),
    ("Redistribute _ToTorchTensor _FromTorchTensor", _moved),
    ("Mul", partial(_bare, "other")),
    ("Div", partial(_bare, "rounding_mode")),
    ("Pow", partial(_bare, "exponent")),
    ("Clamp ClampMin ClampMax", _joined(partial(_named, "min"), partial(_named, "max"))),
    ("Hardtanh", partial(_pair, "min_val", "max_val")),
    ("LeakyRelu", partial(_bare, "negative_slope")),
    ("Elu", partial(_unless, 1, "alpha")),
    ("Softplus", partial(_unless, 1, "beta")),
    ("Threshold", partial(_named, "threshold")),
    ("Gelu", partial(_unless, "none", "approximate")),
    ("MseLoss SmoothL1Loss HuberLoss BinaryCrossEntropy BinaryCrossEntropyWithLogits KlDiv", _reduction),
    ("NllLoss NllLoss2D", _joined(_reduction, partial(_unless, -100, "ignore_index"))),
)
"""Torch's names of nodes, without ``Backward0``, and the words for their arguments."""

_TABLE = {stem: words for stems, words in _ROWS for stem in stems.split()}
