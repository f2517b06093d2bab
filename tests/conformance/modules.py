"""Every module of torch's own ``module_db``, made as torch's tests make it, in training and in evaluation."""

from __future__ import annotations

from tests.conformance.module_samples import module_names, samples_of
from tests.conformance.order import Order
from tests.conformance.processes import spread
from tests.conformance.tally import Tally

NOUN = "modules"


def examine(order: Order) -> Tally:
    """Examine the modules that the order wants."""
    names = [name for name in module_names() if order.wants(name)]
    return spread(samples_of, names, order)
