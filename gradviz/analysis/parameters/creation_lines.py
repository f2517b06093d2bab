"""The lines that made what an operation uses: its module, its weights, their initial values."""

from __future__ import annotations

from gradviz.analysis.dataflow.call_words import callers, class_of, location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Location
from gradviz.graph.call_log import Call
from gradviz.graph.model import CallSite
from gradviz.graph.query.own_line import own_lines_around


def line_of_module(flow: Dataflow, call: Call) -> int | None:
    """The call site that made torch's own module in which a call ran; None if it ran in none."""
    return None if call.scope is None else flow.site_of_module(flow.log.scopes[call.scope].path)


def line_of_layer(flow: Dataflow, row: int) -> CallSite | None:
    """The line that made the module that made a call, or the only line that made modules of its class, if that is a
    class of torch: what another module calls itself is on a line of its own; else that of the call."""
    call = flow.log.calls[row]
    if call.scope is None:
        return flow.line_of(row)
    name, calls = flow.log.scopes[call.scope].class_name, flow.log.calls
    made = [
        flow.line_of(each)
        for each in flow.rows_of_kind("make_module")
        if calls[each].function.startswith("torch.") and calls[each].function.endswith(f".{name}")
    ]
    is_one = len(set(made)) == 1
    return flow.line(line_of_module(flow, call)) or (made[0] if is_one else None) or flow.line_of(row)


def line_that_keeps(flow: Dataflow, row: int, owner: str) -> CallSite | None:
    """The line that made an object that the module with the path `owner` holds.

    Another constructor, or a function that builds layers, may have made it. The line to change is in a method of the
    owner's class; if the owner got it later, it is the first line outside of constructors.
    """
    made = flow.row_of_module(owner)
    if made is None:
        return flow.line_of(row)
    classes = {class_of(line) for line in callers(flow, made) if line.function.endswith("__init__")}
    lines = list(callers(flow, row))
    own = [line for line in lines if class_of(line) in classes]
    return next(iter(own or [line for line in lines if not line.function.endswith("__init__")]), flow.line_of(row))


def line_apart(flow: Dataflow, row: int, other: int) -> CallSite | None:
    """The innermost line of a call that is not also one of another call: one function may have made both."""
    beside = {(line.file, line.line) for line in callers(flow, other)}
    return next((line for line in callers(flow, row) if (line.file, line.line) not in beside), flow.line_of(row))


def first_writes(flow: Dataflow, tensor: int, before: int) -> tuple[int, ...]:
    """The calls that gave a tensor its initial values, oldest first: those before any optimizer's step."""
    rows = {row for shared in flow.sharing_memory(tensor) for row in flow.producers(shared, before)}
    rows |= set(flow.changes(tensor, -1, before))
    steps = [row for row in rows if flow.log.calls[row].kind == "step"]
    return tuple(sorted(row for row in rows if not steps or row < min(steps)))


def optimizer_that_moved(flow: Dataflow, tensor: int, before: int) -> int | None:
    """The call that made the optimizer that stepped a tensor last; None if there is none, or if it is unknown."""
    calls = flow.log.calls
    steps = [row for row in flow.changes(tensor, -1, before) if calls[row].kind == "step"]
    optimizer = calls[steps[-1]].optimizer if steps else None
    return None if optimizer is None else call_that_made_optimizer(flow, optimizer)


def call_that_made_optimizer(flow: Dataflow, optimizer: int) -> int | None:
    """The call that gave an optimizer its first group."""
    groups = flow.rows_of_kind("add_param_group")
    return next((row for row in groups if flow.log.calls[row].optimizer == optimizer), None)


def line_that_made_optimizer(flow: Dataflow, optimizer: int) -> Location | None:
    """The user's own line of that call."""
    made = call_that_made_optimizer(flow, optimizer)
    return None if made is None else location_of_call(flow, made)


def is_set_by_hand(flow: Dataflow, writes: tuple[int, ...]) -> bool:
    """Whether the last call that wrote a tensor is on another line than the one that made it."""
    if not writes:
        return False
    lines = [flow.line_of(row) for row in (writes[0], writes[-1])]
    return lines[0] is not None and lines[1] is not None and lines[0].line != lines[1].line


def line_of_values(flow: Dataflow, writes: tuple[int, ...]) -> int | None:
    """The call site that gave a tensor its values, if the program set or computed them itself.

    Calls that only switch its gradient on leave the values as they are.
    """
    values = tuple(row for row in writes if plain_name(flow.log.calls[row].function) not in _FLAGS)
    if not values:
        return None
    last = flow.log.calls[values[-1]]
    if is_set_by_hand(flow, values):
        return last.call_site
    return _site_of_computed(flow, last.call_site) if plain_name(last.function) in _COMPUTES else None


def _site_of_computed(flow: Dataflow, site: int | None) -> int | None:
    """Where the constructor of a module takes values that a function computed and returned; else where they were
    computed: of the two lines, the constructor's says for which parameter."""
    sites = flow.log.call_sites
    around = list(own_lines_around(sites, site))
    return next((each for each in around if sites[each].function.endswith("__init__")), site)


_FLAGS = frozenset({"requires_grad", "retain_grad"})
_COMPUTES = frozenset({"add", "sub", "mul", "div", "neg"})
