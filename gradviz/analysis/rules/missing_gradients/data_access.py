"""GV104."""

from __future__ import annotations

import re

from gradviz.analysis.case import Case
from gradviz.analysis.cuts.missing_gradients import CutOff
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.cut_lines import BetterLine, line_that_uses
from gradviz.analysis.rules.bases.cut_rule import CutRule


class DataAccess(CutRule):
    """A tensor was read through .data before the loss, and the tensors that it was computed from get no gradient.

    What it finds
    -------------
    A read of ``.data`` whose values are used in the loss, where every path from some trained tensor to the loss goes
    through such a read.

    Why it matters
    --------------
    ``tensor.data`` has the same values without their history, like ``detach()``. In addition, autograd does not see
    writes through it, so a gradient can be wrong without an error.

    Example
    -------
    query, value = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)
    optimizer = torch.optim.SGD([*query.parameters(), *value.parameters()], lr=0.1)
    x = torch.randn(5, 8)
    weights = torch.softmax(query(x).data @ x.T, dim=-1)
    (weights @ value(x)).square().mean().backward()
    optimizer.step()

    Instead
    -------
    query, value = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)
    optimizer = torch.optim.SGD([*query.parameters(), *value.parameters()], lr=0.1)
    x = torch.randn(5, 8)
    weights = torch.softmax(query(x) @ x.T, dim=-1)
    (weights @ value(x)).square().mean().backward()
    optimizer.step()
    """

    code = "GV104"
    name = "data_access"

    def culprit(self, flow: Dataflow, found: CutOff) -> str:
        return ".data"

    def why(self, flow: Dataflow, found: CutOff) -> str:
        return ".data has the same values but no history, so for the loss it is a constant"

    def fix(self, flow: Dataflow, found: CutOff) -> str:
        return "use the tensor itself; where you want no gradient, write detach(), which autograd checks"

    def changed_line(self, text: str, found: CutOff) -> str | None:
        changed, count = re.subn(r"\.data\b", "", text)
        return changed if count == 1 else None

    def better_line(self, case: Case, found: CutOff) -> BetterLine | None:
        return line_that_uses(case, found)
