"""GV667."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import at_line, call_words, line_in_function_of, plain_name, two_lines
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding, Location, location_of_line
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.formulas.products import is_squared
from gradviz.analysis.rules.bases.losses.loss_arguments import calls_in_training, value_maker
from gradviz.analysis.rules.bases.sequences.positions.position_masks import hidden_by, is_drawn_anew, mask_of
from gradviz.analysis.rules.bases.sources.own_files import own_files
from gradviz.analysis.sources.source_tree import called_name, last_name
from gradviz.graph.call_log import Call
from gradviz.graph.model import CallSite


class DropoutBeforeLoss(Rule):
    """Dropout is applied to the answers of a model, right before the loss.

    What it finds
    -------------
    ``cross_entropy``, ``mse_loss`` or another loss function whose trained input is what ``dropout()`` returned, with
    nothing but changes of shape between them; also a difference that is squared, and a mask by hand that was drawn for
    that input alone.

    Why it matters
    --------------
    Some of the answers are replaced by zero at random, and the others are made larger. No weight can learn an answer
    that is thrown away by chance: the loss has a floor, and the answers are too large by a random factor.

    Example
    -------
    model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3), torch.nn.Dropout(0.2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        loss = torch.nn.functional.cross_entropy(model(torch.randn(8, 6)), torch.randint(0, 3, (8,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Dropout(0.2), torch.nn.Linear(8, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        loss = torch.nn.functional.cross_entropy(model(torch.randn(8, 6)), torch.randint(0, 3, (8,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV667"
    name = "dropout_before_loss"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        for rows in calls_in_training(flow, _LOSSES):
            dropped = [_dropout_of(flow, row) for row in rows]
            if dropped[-1] is not None and None not in dropped:
                yield self._finding(case, rows[-1], dropped[-1])

    def _finding(self, case: Case, row: int, dropped: int) -> Finding:
        flow = case.dataflow
        location, loss = two_lines(flow, dropped, row)
        data = flow.newest_producer(flow.log.calls[dropped].live_inputs[0].tensor, dropped)
        if plain_name(flow.log.calls[dropped].function) not in _DROPOUTS and data is not None:
            # By hand: a function that other layers may use, too.
            location = location_of_line(line_in_function_of(flow, dropped, data))
        location = _line_that_registers(case, flow.line_of(dropped)) or location
        function = call_words(flow.log.calls[row])
        share = flow.log.calls[dropped].scalars.get("p", flow.log.calls[dropped].scalars.get("1"))
        part = f"{share:.0%} of the answers are" if type(share) is float else "some of the answers are"
        return self.finding(
            f"{part} replaced by zero at random right before {function}{at_line(loss)}",
            symptom="grad_wrong",
            why="an answer that is thrown away by chance cannot be learned: this error never goes away",
            fix="move the dropout before the last layer, or leave it out",
            location=location,
            symptom_location=loss,
        )


def _line_that_registers(case: Case, used: CallSite | None) -> Location | None:
    """The only line that makes the function around a line a hook of modules."""
    tree = None if used is None else next((each for file, each in own_files(case) if file == used.file), None)
    if used is None or tree is None:
        return None
    name = used.function.rpartition(".")[2]
    lines = {
        node.lineno
        for node in tree.nodes
        if isinstance(node, ast.Call) and called_name(node) == "register_forward_hook" and node.args
        if last_name(node.args[0]) == name
    }
    return Location(used.file, lines.pop()) if len(lines) == 1 else None


_DROPOUTS = frozenset({"dropout", "alpha_dropout", "dropout1d", "dropout2d", "dropout3d"})
_BOTH = 2
_LOSSES = frozenset({
    "cross_entropy", "nll_loss", "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss",
    "binary_cross_entropy_with_logits", "multi_margin_loss", "sub",
})  # fmt: skip


def _dropout_of(flow: Dataflow, row: int) -> int | None:
    """The dropout that made the input of a loss, if it zeroes anything."""
    use = flow.log.calls[row].inputs[0]
    if plain_name(flow.log.calls[row].function) == "sub":
        use = next(iter(flow.log.calls[row].live_inputs), use)
        if not _is_error(flow, row):
            return None
    made = value_maker(flow, use.tensor, row, through=_SCALES) if use.requires_grad else None
    if made is None or not shape_of(flow, use.tensor):
        return None
    if plain_name(made[1].function) not in _DROPOUTS:
        return made[0] if _is_dropout_by_hand(flow, *made) else None
    scalars = made[1].scalars
    is_on = (
        scalars.get("training", scalars.get("2", True)) is not False and scalars.get("p", scalars.get("1", 0.5)) != 0
    )
    return made[0] if is_on else None


def _is_error(flow: Dataflow, row: int) -> bool:
    """Whether a difference is that of a prediction and data, and its size is what is used."""
    call = flow.log.calls[row]
    if len(call.inputs) != _BOTH or len(call.live_inputs) != 1:
        return False
    sizes = {shape_of(flow, use.tensor) for use in call.inputs}
    users = [flow.log.calls[user] for user in flow.users(call.outputs[0].tensor, row)]
    return len(sizes) == 1 and any(is_squared(user) or plain_name(user.function) in _SIZES for user in users)


_SIZES = frozenset({"abs", "norm", "vector_norm", "vecdot"})
_SCALES = frozenset({"mul", "div"})


def _is_dropout_by_hand(flow: Dataflow, row: int, call: Call) -> bool:
    """Whether a call zeroes elements by a mask that was drawn for them alone: nothing else of the step uses it."""
    hidden = hidden_by(flow, row) if call.live_inputs else None
    if hidden is None or hidden.value != 0 or shape_of(flow, hidden.mask.tensor) != shape_of(flow, hidden.data):
        return False
    base, _ = mask_of(flow, hidden.mask.tensor, row)
    drawn = flow.newest_producer(base, row)
    is_drawn = drawn is not None and drawn > flow.step_before(row) and is_drawn_anew(flow, base, row)
    masks = {base, hidden.mask.tensor}
    users = {user for mask in masks for user in flow.users(mask, drawn) if flow.log.calls[user].outputs}
    is_for_one = all(user == row or {use.tensor for use in flow.log.calls[user].outputs} & masks for user in users)
    return is_drawn and is_for_one
