"""The meaning of frequent names in torch's formulas, in plain words."""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import Struct


class Term(Struct, frozen=True, gc=False):
    """A name in a formula, and its meaning."""

    word: str
    meaning: str


def terms_in(formulas: Iterable[str]) -> tuple[Term, ...]:
    """The known names in some formulas, in a fixed order."""
    text = " ; ".join(formulas)
    return tuple(Term(shown, meaning) for pattern, shown, meaning in _TERMS if re.search(pattern, text))


def _name(word: str) -> str:
    return rf"(?<![\w.]){word}(_symint)?\b"


_TERMS: tuple[tuple[str, str, str], ...] = (
    (_name("grad"), "grad", "the gradient of the loss with respect to the result: what arrives"),
    (_name("grads"), "grads[i]", "the gradient of the loss with respect to result i"),
    (_name("result"), "result", "the result of forward"),
    (_name(r"result\d"), "result0, …", "the results of forward, in order"),
    (r"\.conj\(\)", ".conj()", "complex conjugate; real numbers stay as they are"),
    (_name("handle_r_to_c"), "handle_r_to_c", "drops the imaginary part where the input is real"),
    (_name("maybe_multiply"), "maybe_multiply", "(a, b): a · b; only a where b is 1"),
    (_name("mul_tensor_backward"), "mul_tensor_backward", "(g, b, type): g · conj(b), real where the input is"),
    (
        _name("div_tensor_self_backward"),
        "div_tensor_self_backward",
        "(g, b, type): g / conj(b), real where the input is",
    ),
    (_name("div_tensor_other_backward"), "div_tensor_other_backward", "(g, a, b): −g · conj((a / b) / b)"),
    (_name("pow_backward"), "pow_backward", "(g, a, p): g · conj(p · a^(p − 1)); 0 where p is 0"),
    (_name("pow_backward_self"), "pow_backward_self", "(g, a, p): g · conj(p · a^(p − 1)); 0 where p is 0"),
    (
        _name("pow_backward_exponent"),
        "pow_backward_exponent",
        "(g, a, p, y): g · conj(y · log a); 0 where a is 0 and p ≥ 0",
    ),
    (_name("_softmax_backward_data"), "_softmax_backward_data", "(g, y, …): y · (g − Σ g · y), the sum along dim"),
    (
        _name("_log_softmax_backward_data"),
        "_log_softmax_backward_data",
        "(g, y, …): g − exp(y) · Σ g, the sum along dim",
    ),
    (_name("threshold_backward"), "threshold_backward", "(g, y, t): g where y > t, else 0"),
    (_name("sigmoid_backward"), "sigmoid_backward", "(g, y): g · y · (1 − y)"),
    (_name("tanh_backward"), "tanh_backward", "(g, y): g · (1 − y²)"),
    (_name("mm_mat1_backward"), "mm_mat1_backward", "(g, B, …): g Bᴴ, times alpha where there is one"),
    (_name("mm_mat2_backward"), "mm_mat2_backward", "(g, A, …): Aᴴ g, times alpha where there is one"),
    (_name("evenly_distribute_backward"), "evenly_distribute_backward", "g, shared evenly among equal extrema"),
    (
        _name("scale_grad_by_count"),
        "scale_grad_by_count",
        "(g, mask, dims): g where mask holds, divided by how often that is: ties share evenly",
    ),
    (
        _name("value_selecting_reduction_backward"),
        "value_selecting_reduction_backward",
        "g at the index that was taken, 0 elsewhere",
    ),
    (_name("sum_backward"), "sum_backward", "(g, …): g, expanded to the shape of the input"),
    (
        _name("mean_backward"),
        "mean_backward",
        "(g, …): g, expanded to the shape of the input, divided by the number of averaged elements",
    ),
    (_name("cat_tensors_backward"), "cat_tensors_backward", "the part of g that belongs to each tensor"),
    (
        _name("index_backward"),
        "index_backward",
        "(zeros, i, g): g added into zeros at i: an element taken twice gets both",
    ),
    (_name("unsqueeze_to"), "unsqueeze_to", "puts back the dimensions that were squeezed"),
    (_name("restore_reduced_dims"), "restore_reduced_dims", "puts back reduced dimensions as 1, so that it broadcasts"),
    (r"\bat::sum_to|\bsum_to\b", "sum_to", "sums over the dimensions that were broadcast"),
    (r"\.(sym_)?sizes\(\)", ".sym_sizes()", "the shape"),
    (r"\.(sym_)?strides\(\)", ".sym_strides()", "the layout in memory, which the gradient has, too"),
    (r"\.scalar_type\(\)", ".scalar_type()", "the dtype"),
    (r"grad_input_mask", "grad_input_mask", "which of the inputs need a gradient"),
    (r"\.defined\(\)", ".defined()", "false for an undefined gradient, which counts as zero"),
    (r"GradMode::is_enabled\(\)", "GradMode::is_enabled()", "true under create_graph=True"),
    (_name("not_implemented"), "not_implemented", "torch raises here: it has no derivative for this"),
    (
        r"infinitely_differentiable_",
        "infinitely_differentiable_…",
        "the same in operations that can be differentiated again",
    ),
    (r"_t\b", "self_t", "in forward mode: the tangent of self; of every name with _t likewise"),
    (r"_p\b", "self_p", "in forward mode: the value of self"),
)
"""Pattern in a formula, the name to show, its meaning; the most important first."""
