"""Every operator of torch's own ``op_db`` with the inputs that torch tests it with, and where there is one in place."""

from __future__ import annotations

from functools import partial

from tests.conformance.operator_samples import op_db_subjects, samples_of
from tests.conformance.order import Order
from tests.conformance.processes import spread
from tests.conformance.tally import Tally

NOUN = "operators"


def examine(order: Order) -> Tally:
    """Examine the operators that the order wants."""
    names = [name for name in op_db_subjects() if order.wants(name)]
    return spread(partial(samples_of, op_db_subjects), names, order)
