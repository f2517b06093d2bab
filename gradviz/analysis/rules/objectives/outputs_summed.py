"""GV697."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from itertools import takewhile

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.axes import axes_of
from gradviz.analysis.dataflow.backward_calls import starts_from_ones
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import at_line, callers, line_in_function_of, location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding, location_of_line
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.mixed_columns import LAYERS, are_mixed, columns_taken


class OutputsSummed(Rule):
    """A derivative of several outputs at once is taken for those of each.

    What it finds
    -------------
    ``autograd.grad()`` of a network's output with several columns, with ones for ``grad_outputs``, by coordinates,
    where the program then takes columns of the result, as for a divergence, or compares the derivative by a single
    coordinate, as time, with as many columns as the output has, or with one of several that it uses. The same of a sum,
    if the columns of the output are used on their own. And a derivative of all columns of a gradient at once, of which
    columns are taken for second derivatives, or all added up for a Laplacian, where a layer mixes the coordinates. Also
    one whose columns are added up for what the program calls a divergence or a trace.

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
            summed = _summed(flow, row)
            for asked, result in zip(call.asked, call.outputs, strict=False) if summed is not None else ():
                if summed is not None and shape_of(flow, asked.tensor)[:-1] == shape_of(flow, summed):
                    continue  # one number for each point: what it sums up are points
                used = None if summed is None else _misread(flow, row, summed, asked.tensor, result.tensor)
                if used is None and summed is not None and flow.log.tensors[asked.tensor].role == "tensor":
                    used = _meets_columns(flow, row, summed, result.tensor)
                if used is None and summed is not None:
                    used = _meant_as_divergence(case, row, summed, asked.tensor, result.tensor)
                site = None if used is None else flow.log.calls[used].call_site
                if summed is not None and used is not None and site is not None and site not in told:
                    told.add(site)
                    yield self._finding(case, row, used, summed)

    def _finding(self, case: Case, row: int, used: int, summed: int) -> Finding:
        flow, columns = case.dataflow, shape_of(case.dataflow, summed)[-1]
        is_second = _is_derivative(flow, summed, row)
        here, other = location_of_call(flow, used), location_of_call(flow, row)
        is_one = all(shape_of(flow, use.tensor)[-1:] == (1,) for use in flow.log.calls[row].outputs)
        asked = location_of_line(line_in_function_of(flow, row, used))
        if is_second:
            here, other = asked, here
        elif is_one and asked != other:
            here = asked  # a function of the program gave the derivative
        name, each = ("gradient", "grad_u[:, 0]") if is_second else ("output", "out[:, 0]")
        elsewhere = at_line(other) if other != here else ""
        taken = "it is used" if is_one else "its columns are used"
        meant = "as the derivative of each" if is_one else "as if each belonged to one of them"
        return self.finding(
            f"the derivative{'' if is_second else elsewhere} is that of the sum of all {columns} columns of the "
            f"{name}, and {taken}{elsewhere if is_second else ''} {meant}",
            symptom="grad_wrong",
            why="a sum, or ones for grad_outputs, adds up the columns: each column of the result is the derivative of "
            f"that sum by one coordinate{', u_xx + u_yx' if is_second else ''}",
            fix=f"differentiate each column of the {name} on its own: grad({each}.sum(), x, create_graph=True)",
            location=here,
            symptom_location=other if other != here else None,
            evidence={"shape": str(shape_of(flow, summed))},
        )


_MAX_MAKERS = 8
_TABLE = 2


def _summed(flow: Dataflow, row: int) -> int | None:
    """The table whose columns a backward call adds up: its root, or that of which the root is the sum."""
    root = flow.log.calls[row].roots[0].tensor
    made = flow.newest_producer(root, row) if not shape_of(flow, root) else None
    call = None if made is None else flow.log.calls[made]
    if call is not None and plain_name(call.function) == "sum" and not call.scalars and call.inputs:
        root = call.inputs[0].tensor
    shape = shape_of(flow, root)
    return root if len(shape) >= _TABLE and shape[-1] > 1 and starts_from_ones(flow, row) else None


def _misread(flow: Dataflow, row: int, summed: int, asked: int, result: int) -> int | None:
    """The call that takes the derivative of a sum of columns for that of a single one."""
    if flow.log.tensors[asked].role != "tensor" or not shape_of(flow, result)[1:] or shape_of(flow, result)[-1] == 1:
        return None
    taken = columns_taken(flow, result, row)
    if _is_derivative(flow, summed, row):
        used = [*taken.values(), *_sums_of_columns(flow, result, row)]
        return min(used) if used and are_mixed(flow, asked, summed, row) else None
    are_apart = len(columns_taken(flow, summed, -1)) > 1
    is_own_root = summed == flow.log.calls[row].roots[0].tensor
    is_misread = bool(taken) and (
        are_apart or (is_own_root and len(taken) > 1 and len(shape_of(flow, summed)) == _TABLE)
    )
    return min(taken.values()) if is_misread and _is_mixed_by_a_layer(flow, summed, row) else None


def _meant_as_divergence(case: Case, row: int, summed: int, asked: int, result: int) -> int | None:
    """The call that adds up the derivatives of a sum of columns by as many coordinates, and that the program calls a
    divergence: there, each column is differentiated by its own coordinate only. Net forces are such sums as well.
    """
    flow = case.dataflow
    if flow.log.tensors[asked].role != "tensor" or shape_of(flow, asked)[-1:] != shape_of(flow, summed)[-1:]:
        return None
    for used in _sums_of_columns(flow, result, row):
        names = [line.function for line in callers(flow, used)]
        names += flow.log.tensors[flow.log.calls[used].outputs[0].tensor].names
        names.append(case.source_line(location_of_call(flow, used)) or "")
        if any(_DIVERGENCE.search(each) for each in names) and _is_mixed_by_a_layer(flow, summed, row):
            return used
    return None


_DIVERGENCE = re.compile(r"diver|(?<![a-z.])div(?![a-z(])|(?<![a-z])trace(?!back)|log_?det", re.IGNORECASE)


def _meets_columns(flow: Dataflow, row: int, summed: int, result: int) -> int | None:
    """The call that compares the derivative by a single coordinate with a table of as many columns as were added up, or
    the first of two that compare it with these columns, where each is used on its own."""
    count, shape = shape_of(flow, summed)[-1], shape_of(flow, result)
    if len(shape) < _TABLE or shape[-1] != 1 or not _is_mixed_by_a_layer(flow, summed, row):
        return None
    taken = columns_taken(flow, summed, -1).values()
    columns = {use.tensor for each in taken for use in flow.log.calls[each].outputs} if len(taken) > 1 else set[int]()
    waiting, seen, met = [(result, row)], {result}, list[int]()
    while waiting and len(seen) < _MAX_MAKERS:
        given, after = waiting.pop()
        for user in flow.users(given, after):
            call = flow.log.calls[user]
            name, out = plain_name(call.function), [use.tensor for use in call.outputs[:1]]
            others = [use.tensor for use in call.inputs if use.tensor != given] if name in _COMPARES else []
            if name in ("expand", "expand_as") and out and shape_of(flow, out[0]) == (*shape[:-1], count):
                return user
            if any(shape_of(flow, each) == (*shape[:-1], count) for each in others):
                return user
            met += [user for each in others if _is_made_of(flow, each, user, columns)]
            if name in _SCALES and len(call.inputs) == 1 and out and out[0] not in seen:
                seen.add(out[0])
                waiting.append((out[0], user))
    return min(met) if len(met) > 1 else None


def _is_made_of(flow: Dataflow, tensor: int, row: int, columns: Collection[int]) -> bool:
    """Whether a tensor is one of some columns, perhaps times numbers."""
    makers = (call for _, call in flow.makers(tensor, row, _FEW_MAKERS) if columns)
    scaled = takewhile(lambda call: plain_name(call.function) in _SCALES and len(call.inputs) == 1, makers)
    return tensor in columns or any(call.inputs[0].tensor in columns for call in scaled)


_FEW_MAKERS = 3
_COMPARES = frozenset({"add", "sub", "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"})
_SCALES = frozenset({"mul", "div", "neg", "clone"})


def _is_derivative(flow: Dataflow, tensor: int, row: int) -> bool:
    """Whether all columns of a table are derivatives, perhaps times a number."""
    waiting, at_most = [(tensor, row)], _MAX_MAKERS
    while waiting and at_most:
        given, before = waiting.pop()
        made = flow.newest_producer(given, before)
        call = None if made is None else flow.log.calls[made]
        if made is None or call is None:
            return False
        name = plain_name(call.function)
        if call.function == _GRAD:
            continue
        if name not in _KEEP_COLUMNS and not (name in ("mul", "div", "neg") and len(call.inputs) == 1):
            return False
        waiting.extend((use.tensor, made) for use in call.inputs)
        at_most -= 1
    return not waiting


_GRAD = "torch.autograd.grad"
_KEEP_COLUMNS = frozenset({"getitem", "select", "narrow", "unbind", "split", "chunk", "cat", "stack", "clone"})


def _sums_of_columns(flow: Dataflow, result: int, row: int) -> list[int]:
    """The calls that add up all columns of a derivative, as of a Laplacian."""
    rank = len(shape_of(flow, result))
    users = ((user, flow.log.calls[user]) for user in flow.users(result, row))
    return [user for user, call in users if plain_name(call.function) == "sum" and axes_of(call, rank) == [rank - 1]]


def _is_mixed_by_a_layer(flow: Dataflow, root: int, row: int) -> bool:
    """Whether the columns were made together by a layer: those of an elementwise function have a derivative each."""
    above = flow.ancestors(root, row, flow.step_before(row))
    return any(plain_name(flow.log.calls[each].function) in LAYERS for each in above)
