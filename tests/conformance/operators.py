"""Every operator of torch's own ``op_db`` with the inputs that torch tests it with."""

from __future__ import annotations

from tests.conformance.operator_samples import operator_names, samples_of
from tests.conformance.order import Order
from tests.conformance.processes import spread
from tests.conformance.tally import Tally

NOUN = "operators"


def examine(order: Order) -> Tally:
    """Examine the operators that the order wants."""
    names = [name for name in operator_names() if order.wants(name)]
    return spread(samples_of, names, order)
