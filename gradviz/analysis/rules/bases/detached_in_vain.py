"""Calls of ``detach()`` on a state whose result nobody uses: the state keeps its history."""

from __future__ import annotations

import re
from collections.abc import Iterable

from gradviz.analysis.case import Case
from gradviz.graph.call_log import Call

_ASSIGNED = re.compile(r"^\s*([^=]*[^=!<>\s])\s*=(?!=)(.*)$")
_NAME = re.compile(r"[A-Za-z_]\w*")
_KEEPS = re.compile(r"\.(append|extend|add|insert|update|put|copy_)\(|\b(return|yield|lambda|print)\b")


def detached_in_vain(case: Case, tensors: Iterable[int], before: int) -> int | None:
    """The newest such call before another call, on one of these tensors or on one that shares memory with it."""
    flow = case.dataflow
    states = {shared for tensor in tensors for shared in (tensor, *flow.sharing_memory(tensor))}
    rows = (row for state in states for row in flow.users(state) if row < before)
    found = (row for row in rows if _is_unused_detach(case, flow.log.calls[row], row))
    return max((row for row in found if is_in_vain(case.source_line(case.location_of_call(row)) or "")), default=None)


def _is_unused_detach(case: Case, call: Call, row: int) -> bool:
    if call.function != "torch.Tensor.detach" or not call.inputs or not call.inputs[0].has_grad_fn:
        return False
    return not any(case.dataflow.users(use.tensor, row) for use in call.outputs)


def is_in_vain(line: str) -> bool:
    """Whether a line drops the result of ``detach()``, or only gives it the name of what was detached.

    >>> [is_in_vain(each) for each in ("h.detach()", "h = h.detach()", "h, c = h.detach(), c.detach()")]
    [True, True, True]
    >>> [is_in_vain(each) for each in ("last = h.detach()", "log.append(h.detach())", "self.h = h.detach()")]
    [False, False, False]
    """
    code = line.partition("#")[0]
    if ".detach()" not in code or _KEEPS.search(code):
        return False
    assigned = _ASSIGNED.match(code)
    if assigned is None:
        return "=" not in code
    target, value = assigned.groups()
    names = _NAME.findall(target)
    return not set(target) & set(".[") and set(names) <= set(_NAME.findall(value))
