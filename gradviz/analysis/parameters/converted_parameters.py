"""Parameters that the program has lost: it kept only what it computed from them right after they were made.

``self.rate = torch.nn.Parameter(torch.tensor(0.5)).double()`` keeps the result of ``double()``: the parameter has no
name any more, no module registers it, and no optimizer can have it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.parameters.parameter_histories import ParameterHistories

_MIN_BACKWARD_CALLS = 2
_MAX_CONVERSIONS = 6
_CONVERSIONS = frozenset({
    "double", "float", "half", "bfloat16", "to", "type", "type_as", "cuda", "cpu", "clone", "contiguous", "mul", "div",
    "add", "sub", "neg", "view", "reshape", "unsqueeze", "squeeze", "flatten", "t", "transpose", "permute", "T",
    "repeat", "exp", "log", "sqrt", "abs", "square", "pow", "softplus", "sigmoid", "tanh", "softmax",
})  # fmt: skip


def converted_parameters(histories: ParameterHistories) -> Iterator[tuple[int, int, int]]:
    """Each such parameter that every training step would reach, the result that is kept, and the call that made it."""
    if not histories.steps:
        return
    reached = [leaves for row, leaves in histories.reached_by.items() if histories.flow.has_step_after(row)]
    times = Counter(leaf for leaves in reached for leaf in leaves)
    for leaf in histories.untrained:
        tensor = histories.tensor(leaf)
        if tensor.names or tensor.hidden_in is not None or times[leaf] < _MIN_BACKWARD_CALLS:
            continue
        kept = _kept_instead(histories, leaf)
        if kept is None or _is_asked_for(histories, kept[0]):
            continue
        holder = histories.tensor(kept[0]).holder
        if tensor.role == "parameter" or (holder is not None and holder.is_in_module):
            yield leaf, *kept


def _kept_instead(histories: ParameterHistories, leaf: int) -> tuple[int, int] | None:
    """What conversions of it alone gave before the first backward, with the first of their calls; None if it was used
    in another way, or if all of its uses are over by then."""
    flow, first = histories.flow, histories.backward_calls[0]
    given, conversion = leaf, None
    for _ in range(_MAX_CONVERSIONS):
        users = flow.users(given)
        call = flow.log.calls[users[0]] if users else None
        is_one = call is not None and len(users) == 1 and users[0] < first
        if not is_one and conversion is not None and users and users[-1] > first:
            return given, conversion
        if call is None or not is_one or len(call.inputs) != 1 or plain_name(call.function) not in _CONVERSIONS:
            return None
        result = call.outputs[0] if call.outputs else None
        if result is None or not result.has_grad_fn:
            return None
        given, conversion = result.tensor, users[0] if conversion is None else conversion
    return None


def _is_asked_for(histories: ParameterHistories, kept: int) -> bool:
    """Whether the program asks for its gradient by itself."""
    kinds = ("torch.Tensor.retain_grad", "torch.Tensor.register_hook", "torch.Tensor.grad")
    calls = histories.log.calls
    asked = any(use.tensor == kept for row in histories.backward_calls for use in calls[row].asked)
    return asked or any(calls[row].function in kinds for row in histories.flow.users(kept))
