"""GV620."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import location_of_call, plain_name
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule
from gradviz.graph.call_log import Call


class ResultDiscarded(Rule):
    """A line computes a changed tensor and throws it away, as if it changed the tensor itself.

    What it finds
    -------------
    A statement such as ``scores.masked_fill(mask, -1e9)`` or ``x.clamp(0, 1)``: the function returns a new tensor,
    which nothing takes, and the program goes on with the old one.

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
    yields_to = ("state_not_detached",)

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        told: set[int | None] = set()
        for row, call in enumerate(flow.log.calls):
            if call.call_site in told or not _may_be_meant_in_place(call) or not flow.has_step_after(row):
                continue
            given = call.inputs[0].tensor
            later = flow.users(given, row)
            is_taken = any(flow.users(use.tensor, row) for use in call.outputs)
            if is_taken or not any(use.requires_grad for user in later for use in flow.log.calls[user].outputs):
                continue
            location = location_of_call(flow, row)
            name = plain_name(call.function)
            statement = None if location is None else _statement(case, location, name)
            if location is not None and statement is not None:
                told.add(call.call_site)
                text = case.source_line(location) or ""
                yield self._finding(location, location_of_call(flow, later[0]), name, text, _variable(statement))

    def _finding(
        self, location: Location, later: Location | None, name: str, text: str, variable: str | None
    ) -> Finding:
        written = f"{variable} = {text.strip()}" if variable else None
        return self.finding(
            f"nothing takes the result of {name}(): it returns a new tensor, and leaves {variable or 'the old one'} "
            "as it was",
            symptom="grad_wrong",
            why="only functions whose name ends in _ change the tensor that they are called on",
            fix=f"assign the result: {written}" if written else "assign the result to the name that is used later",
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
_NAMESPACES = ("torch", "F", "nn.functional", "torch.nn.functional")
_CONTINUES = ("(", "[", "{", ",", "=", "+", "-", "*", "/", "@", "\\")


def _may_be_meant_in_place(call: Call) -> bool:
    given = {use.tensor for use in call.inputs}
    return (
        call.kind == "operation"
        and call.raised is None
        and bool(call.inputs)
        and bool(call.outputs)
        and plain_name(call.function) in _CHANGES
        and given.isdisjoint(use.tensor for use in call.outputs)
    )


def _statement(case: Case, location: Location, name: str) -> ast.Call | None:
    """The only call of a line, if it is one of this method or function whose result the line does nothing with."""
    lines = case.capture.sources.get(location.file, {})
    text, before = lines.get(location.line, ""), lines.get(location.line - 1, "")
    if before.partition("#")[0].rstrip().endswith(_CONTINUES):
        return None
    try:
        body = ast.parse(text.strip()).body
    except SyntaxError:  # a line of a statement that is longer
        return None
    call = body[0].value if len(body) == 1 and isinstance(body[0], ast.Expr) else None
    if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and plain_name(call.func.attr) == name:
        return call
    return None


def _variable(call: ast.Call) -> str | None:
    """The name that the call is about: that of its object, or its first argument."""
    owner = call.func.value if isinstance(call.func, ast.Attribute) else None
    if owner is not None and ast.unparse(owner) in _NAMESPACES and call.args:
        owner = call.args[0]
    return ast.unparse(owner) if isinstance(owner, ast.Name | ast.Attribute) else None
