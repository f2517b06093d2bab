"""Operators on lists of tensors, operators written in Python, and operators on sparse and on jagged tensors."""

from __future__ import annotations

from functools import partial

from tests.conformance.operator_samples import samples_of, unusual_subjects
from tests.conformance.order import Order
from tests.conformance.processes import spread
from tests.conformance.tally import Tally

NOUN = "pairs of operator and kind of tensor"


def examine(order: Order) -> Tally:
    """Examine those that the order wants."""
    names = [name for name in unusual_subjects() if order.wants(name)]
    return spread(partial(samples_of, unusual_subjects), names, order)
