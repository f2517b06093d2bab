"""GV618."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import at_line, call_words, calls_named, location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.tensor_words import leaf_names_above, names_of
from gradviz.analysis.finding import Finding, location_of_line
from gradviz.analysis.parameters.creation_lines import line_apart
from gradviz.analysis.parameters.own_references import OwnReference, own_references
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.targets.clipped_ones import clipped_ones
from gradviz.analysis.rules.bases.sources.names.names_of_models import has_another_name
from gradviz.graph.call_log import Call


class RatioAlwaysOne(Rule):
    """The ratio of a new and an old probability is exactly one at every step, or a reference is the model itself.

    What it finds
    -------------
    ``exp(new - old)`` where ``new`` has a gradient and ``old`` has none, and both have the same values at all steps,
    because ``old`` was computed again after each step, by the model as it is now, for data that were drawn before.
    ``exp(new - new.detach())``, which says so itself, is left alone, unless it is clipped while steps go on with the
    actions of earlier ones; and so is a single update with each new data.
    ``exp(new - old)`` and ``new / old`` where both have gradients and the same values: these cancel.
    Likewise a difference or divergence of two sides that the trained model computed alike, from the same inputs and
    without a step between, one of them without a gradient: ``reference = policy`` instead of a copy. Where the program
    calls the model by the same name for both sides, it says so itself, except in a preference between two answers,
    which would always be one half. The reference may also be computed with what was kept of the parameters without a
    copy: ``{name: p.detach() ...}`` for ``functional_call``.

    Why it matters
    --------------
    The old log-probabilities belong to the policy that acted. Computed anew just before each update they are those of
    the new policy: the ratio is one, its clipping never acts, and several epochs over the same data go astray.
    A reference or a teacher that is the same object moves with each step, and holds nothing in place.

    Example
    -------
    policy = torch.nn.Linear(4, 3)
    optimizer = torch.optim.SGD(policy.parameters(), lr=0.1)
    states, actions, advantages = torch.randn(16, 4), torch.randint(0, 3, (16, 1)), torch.randn(16)
    for epoch in range(4):
        with torch.no_grad():
            old = torch.log_softmax(policy(states), 1).gather(1, actions).squeeze(1)
        new = torch.log_softmax(policy(states), 1).gather(1, actions).squeeze(1)
        ratio = (new - old).exp()
        loss = -torch.min(ratio * advantages, ratio.clamp(0.8, 1.2) * advantages).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    policy = torch.nn.Linear(4, 3)
    optimizer = torch.optim.SGD(policy.parameters(), lr=0.1)
    states, actions, advantages = torch.randn(16, 4), torch.randint(0, 3, (16, 1)), torch.randn(16)
    with torch.no_grad():
        old = torch.log_softmax(policy(states), 1).gather(1, actions).squeeze(1)
    for epoch in range(4):
        new = torch.log_softmax(policy(states), 1).gather(1, actions).squeeze(1)
        ratio = (new - old).exp()
        loss = -torch.min(ratio * advantages, ratio.clamp(0.8, 1.2) * advantages).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV618"
    name = "ratio_always_one"
    severity = "warning"
    yields_to = ("zero_gradient_op", "normalized_alone")

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        references = [each for each in own_references(case.histories) if _is_no_mere_name(case, each)]
        for reference in references:
            yield self._own_reference(case, reference)
        told = {flow.log.calls[reference.made].call_site for reference in references}
        lines: dict[int | None, list[int | None]] = defaultdict(list)
        """By call site of ``exp``: for each of its calls the row that computed the old value, None if it differs."""
        for row, call in calls_named(flow, ("exp",)):
            if call.live_inputs and call.inside is None and not _is_one_of_unseen(flow, row):
                lines[call.call_site].append(_old_value_that_is_the_new_one(case, row))
        for rows in lines.values():
            known = [row for row in rows if row is not None]
            if len(known) < len(rows) or len({flow.step_before(row) for row in known}) < _MIN_STEPS:
                continue
            if flow.log.calls[known[-1]].call_site in told:
                continue
            if 2 * sum(_is_of_new_data(case, row) for row in known) <= len(known):
                yield self._finding(case, known)
        yield from (self._clipped(flow, rows) for rows in clipped_ones(flow))
        for cancelled in _cancelled(flow).values():
            if len({flow.step_before(row) for row in cancelled}) >= _MIN_STEPS:
                yield self._of_itself(case, cancelled)

    def _clipped(self, flow: Dataflow, rows: list[int]) -> Finding:
        last = rows[-1]
        return self.finding(
            f"exp(new - new.detach()) is exactly 1 all {len(rows):,} times, so clipping it has no effect, and several "
            "steps use the same actions",
            symptom="grad_wrong",
            why="after the first step, the policy is not the one that drew these actions any more: nothing accounts "
            "for it, and nothing keeps the two near each other",
            fix="subtract the log-probability that was kept when the actions were drawn: exp(new - old)",
            location=location_of_call(flow, last),
            tensors=leaf_names_above(flow, flow.log.calls[last].outputs[0].tensor, last + 1, flow.step_before(last)),
            evidence={"times": len(rows)},
        )

    def _of_itself(self, case: Case, rows: list[int]) -> Finding:
        flow = case.dataflow
        call, compared = flow.log.calls[rows[-1]], location_of_call(flow, rows[-1])
        new, old = (flow.newest_producer(use.tensor, rows[-1]) for use in call.inputs)
        apart = None if new is None or old is None else line_apart(flow, old, new)
        is_one_line = new is None or apart is None or apart == flow.line_of(new)
        made = compared if is_one_line else location_of_line(apart)
        how = "their ratio is exactly 1" if plain_name(call.function) == "div" else "their difference is exactly 0"
        return self.finding(
            f"the new and the old value are computed by the same model, both with gradients: {how} all {len(rows):,} "
            "times, and their gradients cancel",
            symptom="grad_zero",
            why="what goes to the one side of a ratio is taken away at the other one, so nothing is learned from it",
            fix="compute the old value once, under torch.no_grad(), when the data are collected, and keep it for all "
            "updates",
            location=made,
            symptom_location=compared if made != compared else None,
            tensors=leaf_names_above(flow, call.outputs[0].tensor, rows[-1] + 1, since=flow.step_before(rows[-1])),
            evidence={"times": len(rows)},
        )

    def _own_reference(self, case: Case, reference: OwnReference) -> Finding:
        flow = case.dataflow
        compared = location_of_call(flow, reference.call)
        return self.finding(
            f"{call_words(flow.log.calls[reference.call])}{at_line(compared)} compares the trained model with itself, "
            f"all {reference.times:,} times: {case.histories.together(reference.parameters)} computed both sides from "
            "the same inputs",
            symptom="grad_wrong",
            why="a reference that is the trained model changes with each step: both sides have the same values, so it "
            "holds nothing in place",
            fix="keep copies of the values: p.detach().clone(), or copy.deepcopy(model.state_dict())"
            if reference.is_kept
            else "compute the reference with the adapters switched off, or with a frozen copy: "
            "copy.deepcopy(model).requires_grad_(False)"
            if reference.is_adapted
            else "make the reference a frozen copy before training: copy.deepcopy(model).requires_grad_(False)",
            location=location_of_line(reference.line),
            symptom_location=compared,
            tensors=names_of(flow, reference.parameters),
            evidence={"times": reference.times},
        )

    def _finding(self, case: Case, rows: list[int]) -> Finding:
        flow = case.dataflow
        made = rows[-1]
        new = next(each for each in flow.users(flow.log.calls[made].outputs[0].tensor, made))
        live = flow.log.calls[new].live_inputs[0].tensor
        other = flow.newest_producer(live, new)
        apart = None if other is None else line_apart(flow, made, other)
        return self.finding(
            f"exp(new - old) is exactly 1 all {len(rows):,} times: the old value is computed again after each step, by "
            "the same model",
            symptom="grad_wrong",
            why="it should be that of the model that made the data; like this, clipping the ratio has no effect",
            fix="compute the old value once, when the data are collected, and keep it for all updates",
            location=location_of_line(apart) or location_of_call(flow, made),
            symptom_location=location_of_call(flow, new),
            tensors=leaf_names_above(flow, live, new, since=flow.step_before(new)),
            evidence={"times": len(rows)},
        )


_MIN_STEPS = 3


def _is_no_mere_name(case: Case, reference: OwnReference) -> bool:
    """Whether the program does not say itself, by calling the model by one name, that both sides are the same; or has
    no use for it, as a preference that is always one half."""
    return reference.is_kept or has_another_name(case, reference) or _is_a_preference(case.dataflow, reference.call)


def _is_a_preference(flow: Dataflow, row: int) -> bool:
    """Whether a difference is scaled and compared with another one, and goes into a sigmoid."""
    tensor, differences = flow.log.calls[row].outputs[0].tensor, 0
    for _ in range(_MAX_CALLS):
        row = next(iter(flow.users(tensor, row)), -1)
        call = flow.log.calls[row] if row >= 0 else None
        name = "" if call is None else plain_name(call.function)
        if call is None or name in _SIGMOIDS or name not in _KEEP_ZERO or not call.outputs:
            return name in _SIGMOIDS and differences > 0
        differences += name == "sub" and len(call.live_inputs) == _SIDES
        tensor = call.outputs[0].tensor
    return False


_SIGMOIDS = frozenset({"logsigmoid", "sigmoid", "softplus"})
_KEEP_ZERO = frozenset(
    {"sub", "mul", "div", "neg", "sum", "squeeze", "view", "reshape", "getitem", "mean", "unsqueeze"}
)
_MAX_CALLS = 10


def _cancelled(flow: Dataflow) -> dict[int | None, list[int]]:
    """By line: the calls of ``exp(new - old)`` and ``new / old``, if both have gradients and the same values each time.
    For the first, the calls that subtract."""
    lines: dict[int | None, list[int | None]] = defaultdict(list)
    for row, call in enumerate(flow.log.calls):
        name = plain_name(call.function)
        if name == "exp" and call.live_inputs:
            made = flow.newest_producer(call.inputs[0].tensor, row)
            if made is not None and plain_name(flow.log.calls[made].function) == "sub":
                lines[call.call_site].append(made if _is_constant(flow.log.calls[made], 0.0) else None)
        elif name == "div" and len(call.live_inputs) == _SIDES:
            lines[call.call_site].append(row if _is_constant(call, 1.0) else None)
    known = {site: [row for row in rows if row is not None] for site, rows in lines.items()}
    return {site: rows for site, rows in known.items() if len(rows) == len(lines[site])}


_SIDES = 2


def _is_constant(call: Call, value: float) -> bool:
    """Whether two tensors with gradients, each of several numbers, give nothing but this number."""
    values = call.outputs[0].values if call.outputs and len(call.live_inputs) == _SIDES else None
    if values is None or values.count == 1:
        return False
    one, other = call.live_inputs
    return one.tensor != other.tensor and values.minimum == values.maximum == value


def _old_value_that_is_the_new_one(case: Case, row: int) -> int | None:
    """For ``exp(new - old)`` with the same values: the call that computed the old one, since the last step."""
    flow = case.dataflow
    made = flow.producers(flow.log.calls[row].inputs[0].tensor, row)
    call = flow.log.calls[made[-1]] if made else None
    if call is None or plain_name(call.function) != "sub" or len(call.inputs) != 2:
        return None
    values = call.outputs[0].values
    old = [use for use in call.inputs if not use.requires_grad]
    if values is None or values.zeros != values.count or len(old) != 1 or not call.live_inputs:
        return None
    makers = flow.producers(old[0].tensor, made[-1])
    if not makers or makers[-1] < flow.step_before(row):
        return None
    return None if _is_cut_from(flow, old[0].tensor, call.live_inputs[0].tensor, made[-1]) else makers[-1]


def _is_one_of_unseen(flow: Dataflow, row: int) -> bool:
    """Whether the values are the same, and the call that made the old one is not in the log: of a block without
    gradients, only the first runs are recorded and some of the later ones."""
    made = flow.newest_producer(flow.log.calls[row].inputs[0].tensor, row)
    call = None if made is None else flow.log.calls[made]
    if made is None or call is None or plain_name(call.function) != "sub" or len(call.inputs) != _SIDES:
        return False
    values = call.outputs[0].values
    old = [use for use in call.inputs if not use.requires_grad]
    is_one = values is not None and values.zeros == values.count
    return is_one and len(old) == 1 and not flow.is_made(old[0].tensor, made)


def _is_cut_from(flow: Dataflow, old: int, new: int, row: int) -> bool:
    """Whether the old value is of the very forward that made the new one, and was only detached."""
    forward = _forward_calls(flow, old, row)
    return bool(forward) and forward <= _forward_calls(flow, new, row)


def _forward_calls(flow: Dataflow, tensor: int, row: int) -> set[int]:
    """The calls above a tensor, since the last step, that computed with parameters."""
    above = flow.ancestors(tensor, row, since=flow.step_before(row))
    tensors, calls = flow.log.tensors, flow.log.calls
    return {each for each in above if any(tensors[use.tensor].role == "parameter" for use in calls[each].inputs)}


def _is_of_new_data(case: Case, row: int) -> bool:
    """Whether an old value is of actions that were drawn since the last step: then it should be that of this model."""
    flow = case.dataflow
    above = flow.ancestors(flow.log.calls[row].outputs[0].tensor, row + 1, since=flow.step_before(row))
    return any(plain_name(flow.log.calls[each].function) in _DRAWS for each in above)


_DRAWS = frozenset({"multinomial", "normal", "randn", "randn_like", "bernoulli", "rand", "rand_like", "uniform"})
