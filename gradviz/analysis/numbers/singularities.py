"""Operations without a finite value or slope at some input: which input that is, and the usual remedy."""

from __future__ import annotations

from typing import NamedTuple

from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.graph.call_log import Call


class Singularity(NamedTuple):
    """Inputs at which an operation has no finite value or slope."""

    reason: str
    remedy: str
    is_elementwise: bool = True
    """Whether each result depends on one element only, so that a mask on the input keeps the rest as it is."""


_SQRT = Singularity(
    "the slope of a square root is infinite at 0", "add a small number under the root: (x + 1e-12).sqrt()"
)
_LOG = Singularity(
    "log(0) is -Inf with an infinite slope, and the log of a negative number is NaN",
    "keep its input above 0: x.clamp(min=1e-9).log(); or stay in logarithms, in which nothing rounds to 0 "
    "(torch.logsumexp of the exponents, log_softmax, logsigmoid)",
)
_DIVISION = Singularity("it divides by 0", "keep the divisor away from 0: x / y.clamp(min=1e-6)")
_POWER = Singularity(
    "a power below 1 has an infinite slope at 0, and a fractional power of a negative number is NaN",
    "keep the base above 0: x.clamp(min=1e-6).pow(...)",
)
_NORM = Singularity(
    "the slope of a distance is undefined at 0", "add a small number inside the root", is_elementwise=False
)
_ARC = Singularity(
    "its slope is infinite at -1 and 1, and NaN outside of them",
    "keep its input inside: x.clamp(-1 + 1e-6, 1 - 1e-6)",
)
_SPREAD = Singularity(
    "the spread of one value is 0/0, and a spread of 0 has an infinite slope",
    "use correction=0, or avoid batches of one (drop_last=True)",
    is_elementwise=False,
)
_SPECTRUM = Singularity(
    "the slope of eigenvectors and singular vectors is infinite where two values are equal",
    "use eigenvalues alone, or add a little noise to the diagonal to make them differ",
    is_elementwise=False,
)
_SOFTMAX = Singularity(
    "a row that contains only -Inf has no softmax",
    "leave at least one entry of each row unmasked, or fill with torch.finfo(x.dtype).min in place of -Inf",
    is_elementwise=False,
)
_SUM_OF_EXPONENTIALS = Singularity(
    "the slope of logsumexp() is NaN where all that it adds up is -Inf, also where its value is -Inf as it should be",
    "begin and mask with a large negative number, such as -1e9, in place of -Inf",
    is_elementwise=False,
)
_LIKELIHOOD = Singularity(
    "it computes a logarithm, which is infinite at 0 (and at 1 for its complement)", "use the form that takes logits"
)

_KINDS: tuple[tuple[Singularity, tuple[str, ...]], ...] = (
    (_SQRT, ("sqrt", "rsqrt")),
    (_LOG, ("log", "log2", "log10", "log1p", "xlogy", "lgamma", "digamma", "mvlgamma")),
    (_DIVISION, ("div", "true_divide", "reciprocal", "floor_divide", "remainder", "fmod", "addcdiv")),
    (_POWER, ("pow", "float_power")),
    (_NORM, ("norm", "hypot", "cdist", "pdist", "vector_norm", "dist", "normalize", "cosine_similarity", "atan2")),
    (_NORM, ("abs", "angle", "sgn", "pairwise_distance")),
    (_ARC, ("acos", "asin", "arccos", "arcsin", "acosh", "atanh", "arccosh", "arctanh", "erfinv", "logit")),
    (_SPREAD, ("std", "var", "std_mean", "var_mean", "batch_norm", "layer_norm", "instance_norm", "group_norm")),
    (_SPECTRUM, ("eigh", "eig", "svd", "symeig", "linalg_eigh", "linalg_svd", "linalg_eig", "pinv", "lstsq", "qr")),
    (_SPECTRUM, ("inv", "inverse", "solve", "cholesky", "det", "logdet", "slogdet")),
    (_SOFTMAX, ("softmax", "log_softmax", "scaled_dot_product_attention", "multi_head_attention_forward")),
    (_SUM_OF_EXPONENTIALS, ("logsumexp", "logaddexp", "logaddexp2", "logcumsumexp")),
    (_LIKELIHOOD, ("binary_cross_entropy", "kl_div", "nll_loss", "poisson_nll_loss", "gaussian_nll_loss")),
)
_BY_NAME = {name: kind for kind, names in _KINDS for name in names}


def singularity_of(call: Call) -> Singularity | None:
    """The singularity of the called function, if it has one."""
    name = plain_name(call.function)
    return _BY_NAME.get(name) or _BY_NAME.get(name.removeprefix("linalg_"))
