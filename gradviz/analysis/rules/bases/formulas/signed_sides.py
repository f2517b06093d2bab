"""What a short sum adds and takes away: ``a - b``, ``a + (-b)``, ``torch.stack([a, -b]).sum(0)``.

>>> from gradviz.graph.call_log import Call, CallLog, LoggedTensor, TensorUse
>>> from gradviz.graph.tensor_facts import TensorFacts
>>> def use(tensor, place="0"): return TensorUse(tensor, place, 0, True, False)
>>> def call(name, given, made): return Call(f"torch.{name}", inputs=given, outputs=(use(made, "return"),))
>>> calls = [call("sqrt", (use(0),), 1), call("sqrt", (use(0),), 2), call("neg", (use(2),), 3),
...          call("stack", (use(1, "0[0]"), use(3, "0[1]")), 4), call("sum", (use(4),), 5)]
>>> flow = Dataflow(CallLog(tuple(calls), tuple(LoggedTensor(TensorFacts((3,), "float32")) for _ in range(6))))
>>> sorted(signed_sides(flow, 4))
[(0, 1), (1, -1)]
"""

from __future__ import annotations

from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.losses.loss_arguments import PARTS, SHAPE_ONLY
from gradviz.analysis.rules.bases.losses.signed_terms import operands
from gradviz.graph.call_log import Call

_SUMS = frozenset({"add", "sub", "neg"})
_JOINS = frozenset({"stack", "cat", "hstack", "vstack", "concat"})
_MOST_CALLS = 12


def signed_sides(flow: Dataflow, row: int) -> list[tuple[int, int]]:
    """The calls that made what a sum is of, each with its sign; a call that is no sum is its own only side."""
    sides = list[tuple[int, int]]()
    waiting, count = [(row, 1)], 0
    while waiting and count < _MOST_CALLS:
        count += 1
        at, sign = waiting.pop()
        call = flow.log.calls[at]
        if not _is_passed(flow, at, call):
            sides.append((at, sign))
            continue
        for use, own, *_ in operands(flow, at):
            made = flow.newest_producer(use.tensor, at)
            if made is not None:
                waiting.append((made, sign * own))
    return sides


def _is_passed(flow: Dataflow, row: int, call: Call) -> bool:
    """Whether a call only adds, turns signs or shapes, or multiplies by a number."""
    name = plain_name(call.function)
    if name in ("mul", "div"):
        return len(call.inputs) == 1
    if name in ("sum", "mean"):  # of a stack of summands
        made = flow.newest_producer(call.inputs[0].tensor, row) if call.inputs else None
        return made is not None and plain_name(flow.log.calls[made].function) in _JOINS
    return name in _SUMS | _JOINS | (SHAPE_ONLY - PARTS)
