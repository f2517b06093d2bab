"""Gradients that are too small for their dtype: they become exactly zero where they are converted to it."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.graph.gradients import TensorFigures
from gradviz.graph.model import Node
from gradviz.graph.query.operation_names import stem_of

SMALLEST = {"float16": 6e-8, "bfloat16": 9.2e-41}
"""The smallest number above 0 of the dtypes of 16 bits."""
_SMALLEST_IN_FULL_PRECISION = 6.1e-5
"""Of float16: smaller numbers have fewer digits, and times another small number they are 0."""


def is_converted_to_zero(node: Node) -> bool:
    """Whether a node between two dtypes sends only zeros, because all that arrived is too small for the other one."""
    if stem_of(node.name) != "ToCopy":
        return False
    largest = largest_arrived(node)
    return any(largest is not None and largest < SMALLEST[sent.dtype] for sent in _zeros_sent(node))


def is_rounded_to_zero(node: Node) -> bool:
    """Whether a node that computes in float16 got gradients that are small for it, and sends only zeros."""
    largest = largest_arrived(node)
    is_small = largest is not None and largest < _SMALLEST_IN_FULL_PRECISION
    return is_small and any(sent.dtype == "float16" for sent in _zeros_sent(node))


def dtype_rounded_to_zero(node: Node) -> str:
    """The dtype of 16 bits in which a node sends zeros; empty if there is none."""
    return next((sent.dtype for sent in _zeros_sent(node)), "")


def largest_arrived(node: Node) -> float | None:
    """The largest absolute value of the gradients that arrived at a node."""
    known = [figures.largest for figures in node.arrived if figures is not None and figures.largest is not None]
    return max(known, default=None)


def _zeros_sent(node: Node) -> Iterator[TensorFigures]:
    return (sent for sent in node.gradients if sent is not None and sent.is_zero and sent.dtype in SMALLEST)
