"""GV697."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.backward_calls import starts_from_ones
from gradviz.analysis.dataflow.broadcasts import Shape, shape_of
from gradviz.analysis.dataflow.call_words import at_line, location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule


class OutputsSummed(Rule):
    """A derivative of several outputs at once is taken for those of each.

    What it finds
    -------------
    ``autograd.grad()`` of a network's output with several columns, with ones for ``grad_outputs``, by coordinates,
    where the program then takes columns of the result, as for a divergence.

    Why it matters
    --------------
    Ones sum up all columns of the output: each column of the result is the derivative of that sum by one coordinate,
    ``u_x + v_x`` instead of ``u_x``. Nothing raises, since the shapes are those of the coordinates.

    Example
    -------
    net = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for step in range(3):
        x = torch.rand(16, 2, requires_grad=True)
        flow = net(x)
        g = torch.autograd.grad(flow, x, torch.ones_like(flow), create_graph=True)[0]
        divergence = g[:, 0] + g[:, 1]
        loss = divergence.square().mean() + (flow - 1).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    net = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for step in range(3):
        x = torch.rand(16, 2, requires_grad=True)
        flow = net(x)
        u_x = torch.autograd.grad(flow[:, 0].sum(), x, create_graph=True)[0][:, 0]
        v_y = torch.autograd.grad(flow[:, 1].sum(), x, create_graph=True)[0][:, 1]
        divergence = u_x + v_y
        loss = divergence.square().mean() + (flow - 1).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV697"
    name = "outputs_summed"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow, told = case.dataflow, set[int]()
        for row in flow.rows_of_kind("backward"):
            call = flow.log.calls[row]
            if len(call.roots) != 1 or not call.scalars.get("create_graph") or not flow.has_step_after(row):
                continue
            root = shape_of(flow, call.roots[0].tensor)
            for result in call.outputs:
                used = _columns_used(flow, result.tensor, row)
                is_mixed = len(root) == _TABLE and root[1] > 1 and starts_from_ones(flow, row)
                if not used or not is_mixed or not _is_mixed_by_a_layer(flow, call.roots[0].tensor, row):
                    continue
                site = flow.log.calls[used[0]].call_site
                if site is not None and site not in told:
                    told.add(site)
                    yield self._finding(case, row, used[0], root)

    def _finding(self, case: Case, row: int, used: int, root: Shape) -> Finding:
        flow = case.dataflow
        here, asked = location_of_call(flow, used), location_of_call(flow, row)
        return self.finding(
            f"the derivative{at_line(asked)} is that of the sum of all {root[1]} columns of the output, and its "
            "columns are used as if each belonged to one of them",
            symptom="grad_wrong",
            why="grad_outputs of ones add up the outputs: each column of the result is the derivative of that sum by "
            "one coordinate",
            fix="differentiate each column of the output on its own: grad(out[:, 0].sum(), x, create_graph=True)",
            location=here,
            symptom_location=asked if asked != here else None,
            evidence={"shape": str(root)},
        )


_TABLE = 2
_LAYERS = frozenset({"linear", "addmm", "matmul", "mm", "bmm"})


def _columns_used(flow: Dataflow, result: int, row: int) -> list[int]:
    """The calls that take single columns of a derivative by several coordinates, if they take more than one of them."""
    shape = shape_of(flow, result)
    if len(shape) != _TABLE or shape[1] == 1:
        return []
    users = [
        user
        for user in flow.users(result, row)
        if plain_name(flow.log.calls[user].function) in ("getitem", "select")
        and shape_of(flow, flow.log.calls[user].outputs[0].tensor) in (shape[:1], (shape[0], 1))
    ]
    taken = {tuple(sorted(flow.log.calls[user].scalars.items(), key=str)) for user in users}
    return users if len(taken) > 1 else []


def _is_mixed_by_a_layer(flow: Dataflow, root: int, row: int) -> bool:
    """Whether the columns were made together by a layer: those of an elementwise function have a derivative each."""
    above = flow.ancestors(root, row, flow.step_before(row))
    return any(plain_name(flow.log.calls[each].function) in _LAYERS for each in above)
