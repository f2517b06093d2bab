"""GV620."""

from __future__ import annotations

import ast
from bisect import bisect_right
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import location_of_call, plain_name, single_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.parameters.moving_averages import parameter_of
from gradviz.analysis.rule import Rule
from gradviz.graph.call_log import Call


class ResultDiscarded(Rule):
    """A line computes a changed tensor and throws it away, as if it changed the tensor itself.

    What it finds
    -------------
    A statement such as ``scores.masked_fill(mask, -1e9)``, ``x.clamp(0, 1)`` or ``self.dropout(x)``: the function
    returns a new tensor, which nothing takes, and the program goes on with the old one: in the loss, in what a teacher
    or a step makes of it, or in the evaluation of an average of the trained weights. Also for lists:
    ``torch._foreach_lerp(averages, params, 0.1)``.

    Why it matters
    --------------
    Nothing raises, and nothing changes: the mask, the bound or the scale that stands there has no effect. Only
    functions whose name ends in ``_`` change the tensor that they are called on.

    Example
    -------
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        scores = model(torch.randn(4, 4))
        scores.masked_fill(torch.eye(4, dtype=torch.bool), -1e9)
        loss = torch.nn.functional.cross_entropy(scores, torch.tensor([1, 2, 3, 0]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        scores = model(torch.randn(4, 4))
        scores = scores.masked_fill(torch.eye(4, dtype=torch.bool), -1e9)
        loss = torch.nn.functional.cross_entropy(scores, torch.tensor([1, 2, 3, 0]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV620"
    name = "result_discarded"
    severity = "warning"
    yields_to = ("state_not_detached", "counter_never_advances")

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        looked_at: dict[int | None, tuple[Location, ast.Call] | None] = {}
        """By call site: its line and what stands there alone; None if something takes the result, or it was told."""
        for row, call in enumerate(flow.log.calls):
            site = call.call_site
            if looked_at.get(site, True) is None or not _may_be_meant_in_place(call) or not flow.has_step_after(row):
                continue
            if any(flow.users(use.tensor, row) for use in call.outputs):
                continue
            if site not in looked_at:
                location = location_of_call(flow, row)
                statement = None if location is None else _statement(case, location, row)
                looked_at[site] = None if location is None or statement is None else (location, statement)
            known = looked_at[site]
            later = None if known is None else _use_in_a_loss(flow, row, _first_of_chain(flow, row))
            if known is not None and later is not None:
                looked_at[site] = None
                location, statement = known
                text = case.source_line(location) or ""
                variable, is_stored = _variable(statement, is_of_layer=_is_of_layer(flow, row)), _is_stored(flow, row)
                symptom = location_of_call(flow, later)
                yield self._finding(location, symptom, single_name(call), text, variable, is_stored=is_stored)

    def _finding(
        self,
        location: Location,
        later: Location | None,
        name: str,
        text: str,
        variable: str | None,
        *,
        is_stored: bool,
    ) -> Finding:
        written = f"{variable} = {text.strip()}" if variable and not is_stored else None
        return self.finding(
            f"nothing takes the result of {name}(): it returns a new tensor, and leaves {variable or 'the old one'} "
            "as it was",
            symptom="grad_wrong",
            why="only functions whose name ends in _ change the tensor that they are called on",
            fix=f"assign the result: {written}"
            if written
            else f"call {name}_(), which changes the tensor itself; or assign the result to the name that is read",
            changed_line=None if written is None else text.replace(text.strip(), written),
            location=location,
            symptom_location=later if later != location else None,
        )


_CHANGES = frozenset({
    "masked_fill", "masked_scatter", "clamp", "clip", "clamp_min", "clamp_max", "scatter", "scatter_add", "index_add",
    "index_fill", "index_copy", "index_put", "fill_diagonal", "mul", "div", "add", "sub", "neg", "abs", "relu",
    "sigmoid", "tanh", "exp", "log", "sqrt", "pow", "softmax", "log_softmax", "dropout", "normalize", "nan_to_num",
    "triu", "tril", "squeeze", "unsqueeze", "transpose", "permute", "view", "reshape", "flatten", "detach", "to",
    "float", "half", "t", "double", "long", "lerp", "addcmul", "addcdiv", "where",
})  # fmt: skip
_LAYERS = frozenset({
    "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "AlphaDropout", "ReLU", "Sigmoid", "Tanh", "Softmax",
    "LogSoftmax", "Flatten",
})  # fmt: skip
_MOST_BACKWARDS = 3
_NAMESPACES = ("torch", "F", "nn.functional", "torch.nn.functional")
_CONTINUES = ("(", "[", "{", ",", "=", "+", "-", "*", "/", "@", "\\")


def _may_be_meant_in_place(call: Call) -> bool:
    given = {use.tensor for use in call.inputs}
    return (
        call.kind == "operation"
        and call.raised is None
        and bool(call.inputs)
        and bool(call.outputs)
        and single_name(call) in _CHANGES
        and given.isdisjoint(use.tensor for use in call.outputs)
    )


def _is_stored(flow: Dataflow, row: int) -> bool:
    """Whether a call got what a model or an optimizer holds, which an assignment to a name would not change."""
    given = _first_of_chain(flow, row)
    tensor = flow.log.tensors[given]
    is_of_model = tensor.role != "tensor" or parameter_of(flow, given, row) is not None
    return is_of_model or tensor.gradient_of is not None or flow.log.calls[row].function.startswith("torch._foreach_")


def _use_in_a_loss(flow: Dataflow, row: int, given: int) -> int | None:
    """The first use of what a call left as it was, if a loss is computed of it later or a step uses it.

    What ``p.data`` gives is the memory of a parameter, which is used in its place.
    """
    parameter = parameter_of(flow, given, row)
    leaf = flow.log.tensors[given].gradient_of
    if leaf is not None:
        return next((step for step in flow.rows_of_kind("step") if step > row and leaf in _tensors(flow, step)), None)
    for tensor in dict.fromkeys((given, given if parameter is None else parameter)):
        later = flow.users(tensor, row)
        is_live = any(use.requires_grad for user in later for use in flow.log.calls[user].outputs)
        if later and (is_live or _reaches_backward(flow, tensor, row)):
            return later[0]
    return _use_of_average(flow, row, given)


def _use_of_average(flow: Dataflow, row: int, given: int) -> int | None:
    """The first use in a module of weights that no step moves, if a call computes their average with trained ones: a
    copy that is only evaluated."""
    call, tensors = flow.lists.single(row, given), flow.log.tensors
    frozen = parameter_of(flow, given, row)
    if frozen is None or tensors[frozen].is_moved:
        return None
    near = [*call.inputs, *(use for made in _made_on_line(flow, row, call) for use in made.inputs)]
    others = (parameter_of(flow, use.tensor, row) for use in near)
    if not any(other is not None and tensors[other].is_moved for other in others):
        return None
    calls, site = flow.log.calls, flow.log.calls[row].call_site
    later = (user for user in flow.users(frozen, row) if calls[user].call_site != site)
    return next((user for user in later if calls[user].scope is not None), None)


def _made_on_line(flow: Dataflow, row: int, call: Call) -> list[Call]:
    """The calls of the same line that made what a call takes: ``p - average`` of ``average.add(p - average)``."""
    made = [flow.newest_producer(use.tensor, row) for use in call.inputs]
    line = flow.line_of(row)
    return [flow.log.calls[maker] for maker in made if maker is not None and flow.line_of(maker) == line]


def _first_of_chain(flow: Dataflow, row: int) -> int:
    """The tensor that a statement begins with: ``t`` of ``t.mul(0.9).add(p)``."""
    call, line = flow.log.calls[row], flow.line_of(row)
    for _ in range(_MAX_CHAIN):
        given = call.inputs[0].tensor
        made = flow.newest_producer(given, row)
        if made is None or flow.line_of(made) != line or not _may_be_meant_in_place(flow.log.calls[made]):
            return given
        row, call = made, flow.log.calls[made]
    return call.inputs[0].tensor


_MAX_CHAIN = 5


def _tensors(flow: Dataflow, row: int) -> list[int]:
    return [use.tensor for use in flow.log.calls[row].inputs]


def _reaches_backward(flow: Dataflow, tensor: int, row: int) -> bool:
    """Whether one of the next backward calls starts from what was computed of a tensor."""
    backwards = flow.rows_of_kind("backward")
    index = bisect_right(backwards, row)
    next_ones = backwards[index : index + _MOST_BACKWARDS]
    return bool(next_ones) and any(each in next_ones for each in flow.descendants(tensor, row, next_ones[-1] + 1))


def _statement(case: Case, location: Location, row: int) -> ast.Call | None:
    """The only call of a line, if it is one of the method or function of a call of the log, or of the layer that made
    this call, and the line does nothing with the result."""
    lines = case.capture.sources.get(location.file, {})
    text, before = lines.get(location.line, ""), lines.get(location.line - 1, "")
    if before.partition("#")[0].rstrip().endswith(_CONTINUES):
        return None
    try:
        body = ast.parse(text.strip()).body
    except SyntaxError:  # a line of a statement that is longer
        return None
    call = body[0].value if len(body) == 1 and isinstance(body[0], ast.Expr) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return None
    name = plain_name(case.dataflow.log.calls[row].function)
    return call if plain_name(call.func.attr) == name or _is_of_layer(case.dataflow, row) else None


def _is_of_layer(flow: Dataflow, row: int) -> bool:
    """Whether a layer without parameters made a call."""
    call, scopes = flow.log.calls[row], flow.log.scopes
    return call.scope is not None and scopes[call.scope].class_name in _LAYERS


def _variable(call: ast.Call, *, is_of_layer: bool) -> str | None:
    """The name that the call is about: that of its object, or its first argument."""
    owner = call.func.value if isinstance(call.func, ast.Attribute) else None
    if owner is not None and (is_of_layer or ast.unparse(owner) in _NAMESPACES) and call.args:
        owner = call.args[0]
    return ast.unparse(owner) if isinstance(owner, ast.Name | ast.Attribute) else None
