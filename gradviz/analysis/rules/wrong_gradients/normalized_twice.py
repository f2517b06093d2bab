"""GV614."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import at_line, line_in_function_of, location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding, Location, location_of_line
from gradviz.analysis.parameters.creation_lines import line_of_module
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.loss_arguments import value_maker
from gradviz.analysis.rules.bases.losses.softmax_again import SoftmaxAgain
from gradviz.analysis.rules.bases.losses.targets.unexpected_probabilities import (
    OF_LOGITS,
    SOFTMAX_AGAIN,
    WRONG_INPUTS,
    WrongInput,
)
from gradviz.analysis.rules.bases.sequences.attention.normalized_scores import axis_of_probabilities
from gradviz.analysis.rules.bases.sources.cached_results import function_on
from gradviz.analysis.rules.bases.sources.own_files import own_tree
from gradviz.analysis.sources.source_tree import SourceTree, all_parameters_of
from gradviz.graph.call_log import Call


class NormalizedTwice(Rule):
    """A loss that expects logits or log-probabilities gets probabilities.

    What it finds
    -------------
    ``cross_entropy`` on the result of ``softmax``, ``binary_cross_entropy_with_logits`` on that of ``sigmoid`` or
    ``softmax``, ``gumbel_softmax`` on that of ``softmax``, and ``nll_loss``, ``kl_div`` and ``ctc_loss`` on that of
    ``softmax`` instead of ``log_softmax``, in a backward that a step uses. Also ``softmax``, ``log_softmax`` or
    ``Categorical(logits=...)`` on the result of another ``softmax`` over the same axis, perhaps stored, joined, indexed
    or divided by a temperature in between, where the loss depends on it, and ``Bernoulli(logits=...)`` on the result of
    ``sigmoid``. Both may be written by their formulas, ``x.exp() / x.exp().sum(-1, keepdim=True)`` and
    ``1 / (1 + (-x).exp())``.

    Why it matters
    --------------
    The first two normalize once more. Probabilities are between 0 and 1, so for such a loss all classes are nearly
    equal: even a perfect model has a large loss, its gradients are small, and they vanish where it is certain and
    wrong. ``nll_loss`` and ``kl_div`` of probabilities have no logarithm: they go below zero, and are lowest for
    another answer than the right one.

    Example
    -------
    model = torch.nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        optimizer.zero_grad()
        probabilities = torch.softmax(model(torch.randn(5, 4)), dim=1)
        torch.nn.functional.cross_entropy(probabilities, torch.tensor([0, 1, 2, 0, 1])).backward()
        optimizer.step()

    Instead
    -------
    model = torch.nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        optimizer.zero_grad()
        logits = model(torch.randn(5, 4))
        torch.nn.functional.cross_entropy(logits, torch.tensor([0, 1, 2, 0, 1])).backward()
        optimizer.step()
    """

    code = "GV614"
    name = "normalized_twice"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow, reported = case.dataflow, set[tuple[WrongInput, Location | None]]()
        again, seen = SoftmaxAgain(flow), set[int | None]()
        for row, call in enumerate(flow.log.calls):
            if (plain_name(call.function) in _SOFTMAXES or _is_log_softmax(flow, row)) and call.call_site not in seen:
                first = again.first_of(row, call)
                if first is not None and _matters(case, row):
                    seen.add(call.call_site)
                    yield self._finding(case, row, first, SOFTMAX_AGAIN)
                continue
            mistake = WRONG_INPUTS.get(call.function.rpartition(".")[2])
            made = None if mistake is None else _maker_of(case, row, call, mistake)
            if mistake is None or made is None or not flow.has_step_after(row):
                continue
            place = mistake, location_of_call(flow, made) or location_of_call(flow, row)
            if place not in reported:
                reported.add(place)
                yield self._finding(case, row, made, mistake)

    def _finding(self, case: Case, row: int, made: int, mistake: WrongInput) -> Finding:
        flow = case.dataflow
        loss, maker = _loss_words(case, row), _maker_words(flow.log.calls[made])
        above = _line_that_normalizes(case, made)
        words = {"loss": loss, "maker": maker, "at_line": at_line(above)}
        here = _line_of_argument(flow, row, made) if mistake is not SOFTMAX_AGAIN else None
        at, shown = (above, location_of_call(flow, row)) if here is None else (here, above)
        location = at or location_of_call(flow, row)
        return self.finding(
            mistake.message.format(**words),
            symptom="vanishing" if mistake.message == OF_LOGITS else "grad_wrong",
            why=mistake.why.format(**words),
            fix=(mistake.fix if here is None else mistake.fix_here).format(**words),
            location=location,
            symptom_location=shown if shown != location else None,
            evidence={"loss": loss, "input": maker},
        )


def _line_of_argument(flow: Dataflow, row: int, made: int) -> Location | None:
    """The line that gives probabilities to a loss, if the line that computes them has to stay as it is.

    It is the line that calls the function that computes them; that of the loss, if this is no other line, or if a
    module computes them.
    """
    if not _makes_another_argument(flow, row, made) and not _is_also_used(flow, made):
        return None
    is_in_module = flow.log.calls[made].scope not in (None, flow.log.calls[row].scope)
    if is_in_module and plain_name(flow.log.calls[row].function) not in _TAKES_LOGARITHMS:
        return None
    asked = None if is_in_module else location_of_line(line_in_function_of(flow, made, row))
    return location_of_call(flow, row) if asked in (None, location_of_call(flow, made)) else asked


def _makes_another_argument(flow: Dataflow, row: int, made: int) -> bool:
    """Whether the same line computes what another argument of the loss gets."""
    here = location_of_call(flow, made)
    makers = [value_maker(flow, use.tensor, row) for use in flow.log.calls[row].inputs[1:]]
    return any(each is not None and each[0] != made and location_of_call(flow, each[0]) == here for each in makers)


def _is_also_used(flow: Dataflow, made: int) -> bool:
    """Whether a logarithm of the probabilities is also taken, as for an entropy."""
    calls = flow.log.calls
    users = (calls[user] for use in calls[made].outputs for user in flow.users(use.tensor, made))
    return any(plain_name(user.function) in _OF_PROBABILITIES and user.live_inputs for user in users)


_TAKES_LOGARITHMS = frozenset({"kl_div", "nll_loss", "ctc_loss"})
_OF_PROBABILITIES = frozenset({"log", "xlogy"})


def _line_that_normalizes(case: Case, row: int) -> Location | None:
    """The line of a call. If that does not name it, as ``self.head(x)`` of a softmax, the line that made its module;
    and if that makes what its function was given, ``layers.append(last())``, the line that called the function."""
    flow = case.dataflow
    here, made = location_of_call(flow, row), line_of_module(flow, flow.log.calls[row])
    name = plain_name(flow.log.calls[row].function)
    if made is None or name not in _NORMALIZERS or name in (case.source_line(here) or "").lower():
        return here
    line = flow.line(made)
    tree = None if line is None else own_tree(case, line.file)
    if line is None or tree is None or not _makes_an_argument(tree, line.line):
        return location_of_line(line) or here
    return location_of_line(flow.line(line.caller)) or location_of_line(line)


def _makes_an_argument(tree: SourceTree, line: int) -> bool:
    """Whether a line calls a parameter of its function: it makes whatever class it is given."""
    function = function_on(tree, line)
    if function is None:
        return False
    called = (node.func for node in ast.walk(function) if isinstance(node, ast.Call) and node.lineno == line)
    return any(isinstance(each, ast.Name) and each.id in all_parameters_of(function) for each in called)


def _maker_words(call: Call) -> str:
    """The name of the call that made probabilities, also for a formula: what divides by itself has one input."""
    name = plain_name(call.function)
    return name if name in _NORMALIZERS else "sigmoid" if len(call.inputs) == 1 and name != "exp" else "softmax"


_NORMALIZERS = frozenset({"softmax", "sigmoid"})


def _maker_of(case: Case, row: int, call: Call, mistake: WrongInput) -> int | None:
    """The call that made what the mistake is about, if it is one of those that it names."""
    if not call.inputs or not call.inputs[0].requires_grad:
        return None
    made = value_maker(case.dataflow, call.inputs[0].tensor, row, through=_BOUNDS)
    if made is None:
        return None
    is_softmax = "softmax" in mistake.makers and axis_of_probabilities(case.dataflow, *made) is not None
    is_other = "sigmoid" in mistake.makers and _is_sigmoid(case.dataflow, *made)
    return made[0] if is_softmax or is_other or plain_name(made[1].function) in mistake.makers else None


_BOUNDS = frozenset({"clamp", "clip", "clamp_min", "clamp_max", "nan_to_num"})
"""What probabilities may go through before a logarithm that is not there."""


def _is_sigmoid(flow: Dataflow, row: int, call: Call) -> bool:
    """Whether a call ends ``1 / (1 + exp(-x))``."""
    name = plain_name(call.function)
    is_of_number = name == "div" and len(call.inputs) == 1 and call.function.startswith("torch.Tensor.__r")
    if name != "reciprocal" and not is_of_number:
        return False
    names = [plain_name(maker.function) for _, maker in flow.makers(call.inputs[0].tensor, row, len(_SIGMOID))]
    return names == _SIGMOID and (name == "reciprocal" or call.scalars.get("1") == 1)


_SIGMOID = ["add", "exp", "neg"]
"""What makes the divisor, the last call first."""


def _is_log_softmax(flow: Dataflow, row: int) -> bool:
    """Whether a call is the first half of ``x - x.logsumexp(-1, keepdim=True)``, as in ``Categorical(logits=x)``."""
    call = flow.log.calls[row]
    if plain_name(call.function) != "logsumexp" or not call.inputs or not call.outputs:
        return False
    given, users = call.inputs[0].tensor, (flow.log.calls[user] for user in flow.users(call.outputs[0].tensor, row))
    return any(plain_name(user.function) == "sub" and user.inputs[0].tensor == given for user in users)


def _loss_words(case: Case, row: int) -> str:
    """The name of a loss; for a logarithm of a softmax, that of the distribution that takes it."""
    name = case.dataflow.log.calls[row].function.rpartition(".")[2]
    if name != "logsumexp":
        return name
    line = case.source_line(location_of_call(case.dataflow, row)) or ""
    return "Categorical" if "Categorical(" in line else "log_softmax"


_SOFTMAXES = frozenset({"softmax", "log_softmax"})


def _matters(case: Case, row: int) -> bool:
    """Whether a backward that a step follows starts from what was computed with the result of a call."""
    flow = case.dataflow
    if not flow.has_step_after(row):
        return False
    until = next((each for each in flow.rows_of_kind("backward") if each > row), None)
    if until is None:
        return False
    below = flow.descendants(flow.log.calls[row].outputs[0].tensor, row, until + 1)
    return until in below
