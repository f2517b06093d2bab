"""GV656."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import callers, location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.batches.places_of_data import ENDS, WEIGHTS, Place, is_telling, place_of
from gradviz.analysis.rules.bases.unread_names import unread_name, unread_names
from gradviz.graph.model import CallSite


class LoadedAndNotUsed(Rule):
    """A batch brings data that should change the loss, and nothing reads it.

    What it finds
    -------------
    A name that training code unpacks from a batch and never reads, or a part of a batch (``batch.done``,
    ``batch["exposure"]``) that nothing uses though other parts are used, where the tensor differs from sample to
    sample: ends of episodes (``done``, ``terminal``, and flags with any other name) where a reward and the discounted
    value of the next state are added up for all samples; ``lengths`` where a recurrent layer or an average over time
    gets padded sequences, and no mask is made of the tokens; ``weights`` of samples where a loss is averaged over all
    of them; ``exposure`` of counts in a Poisson loss; whether an ``event`` was seen, in the likelihood of the time
    until it.

    Why it matters
    --------------
    The value of a state behind the end of an episode, padding, and the weights that a sampler hands out belong in the
    loss. Without them it is another one than was meant, and nothing raises.

    Example
    -------
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    states, rewards, ends = torch.randn(60, 4), torch.rand(60), (torch.rand(60) < 0.2).float()
    for step in range(4):
        i = torch.randint(0, 59, (16,))
        s, r, following, done = (each[i] for each in (states, rewards, states.roll(-1, 0), ends))
        with torch.no_grad():
            target = r + 0.9 * model(following).squeeze(1)
        loss = (model(s).squeeze(1) - target).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    states, rewards, ends = torch.randn(60, 4), torch.rand(60), (torch.rand(60) < 0.2).float()
    for step in range(4):
        i = torch.randint(0, 59, (16,))
        s, r, following, done = (each[i] for each in (states, rewards, states.roll(-1, 0), ends))
        with torch.no_grad():
            target = r + 0.9 * (1 - done) * model(following).squeeze(1)
        loss = (model(s).squeeze(1) - target).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV656"
    name = "loaded_and_not_used"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        for name, tensors in _unused_data(case).items():
            backward = case.histories.backward_after(_first_seen(flow, tensors[-1]))
            if len(tensors) < _MIN_STEPS or backward is None or not flow.has_step_after(backward):
                continue
            found = place_of(flow, name, tensors[-1], backward)
            if found is None:
                continue
            bound = _unpacked_at(case, name, backward)
            # Where calls were left out of the record, only the source can say that nothing reads it.
            is_part = is_telling(name) and all(
                _is_beside_used_data(flow, each) and not _may_miss_users(case, each) for each in tensors
            )
            if bound is not None or is_part:
                yield self._finding(case, name, bound, found)

    def _finding(self, case: Case, name: str, bound: Location | None, found: Place) -> Finding:
        location = location_of_call(case.dataflow, found.row)
        return self.finding(
            f"each batch brings {name}, which differs from sample to sample, and nothing reads it: {found.what} here",
            symptom="grad_wrong",
            why=found.why,
            fix=found.fix,
            location=location,
            symptom_location=bound if bound != location else None,
            evidence={"name": name},
        )


_MIN_STEPS = 2
_MIN_SAMPLES = 4


# -- data that nothing uses --------------------------------------------------------------------------------------------


def _unused_data(case: Case) -> dict[str, list[int]]:
    """By name: tensors with one number for each sample, not all the same, which no call uses."""
    flow = case.dataflow
    found: dict[str, list[int]] = defaultdict(list)
    nameless = list[int]()
    for number, tensor in enumerate(flow.log.tensors):
        names = [*map(_own_name, tensor.names)]
        name = next(filter(is_telling, names), next(filter(_may_be_meant, names), None))
        shape = shape_of(flow, number)
        is_column = len(shape) == 1 or (len(shape) == _OF_COLUMN and shape[1] == 1)
        if (name is None and names) or not is_column or shape[0] < _MIN_SAMPLES or tensor.requires_grad:
            continue
        values = flow.values(number, len(flow.log.calls))
        is_varied = values is not None and values.minimum != values.maximum
        if is_varied and _is_unused(flow, number):
            (nameless if name is None else found[name]).append(number)
    for number in [each for each in nameless if not _may_miss_users(case, each)][-_EXAMINED:]:
        name = _name_in_source(case, number)
        if name is not None:
            found[name].append(number)
    return found


_EXAMINED = 8


def _name_in_source(case: Case, tensor: int) -> str | None:
    """The name of the ends of episodes that a function takes out of a batch and never reads, if it has returned before
    the names of tensors were noted, and the tensor has flags."""
    flow, first = case.dataflow, _first_seen(case.dataflow, tensor)
    values, backward = flow.values(tensor, len(flow.log.calls)), case.histories.backward_after(first)
    if values is None or (values.minimum, values.maximum) != (0, 1) or backward is None:
        return None
    for line in _one_line_of_each_function(flow, range(first, backward)):
        for name in unread_names(case.capture.sources.get(line.file, {}), line.line, ENDS):
            return name
    return None


def _may_miss_users(case: Case, tensor: int) -> bool:
    """Whether calls were left out of the record before the next backward: they may have used it."""
    backward = case.histories.backward_after(_first_seen(case.dataflow, tensor))
    return backward is not None and case.dataflow.log.calls[backward].misses_calls


_OF_COLUMN = 2
_MOVES = frozenset({"to", "cuda", "cpu", "float", "long", "double", "bool", "int", "unsqueeze", "squeeze", "view"})


def _is_unused(flow: Dataflow, tensor: int) -> bool:
    """Whether no call uses it, other than to move it, whose result nothing uses either."""
    for user in flow.users(tensor):
        call = flow.log.calls[user]
        is_used = any(flow.users(use.tensor) for use in call.outputs if use.tensor != tensor)
        if plain_name(call.function) not in _MOVES or is_used:
            return False
    return True


def _may_be_meant(name: str) -> bool:
    """Whether it is the name of a variable that does not say that it is not needed."""
    return name.isidentifier() and not name.startswith("_")


_PART = re.compile(r"(?P<owner>.+)(?:\.|\[['\"])(?P<name>\w+)(?:['\"]\])?")


def _own_name(name: str) -> str:
    """``exposure`` of ``batch.exposure`` and of ``batch['exposure']``."""
    match = _PART.fullmatch(name)
    return name if match is None else match["name"]


def _is_beside_used_data(flow: Dataflow, tensor: int) -> bool:
    """Whether it is a part of a batch, other parts of which are used before the next step.

    Weights are left out: a batch may bring a weight that is no weight of its sample.
    """
    names = (_PART.fullmatch(name) for name in flow.log.tensors[tensor].names)
    part = next((match for match in names if match is not None), None)
    if part is None or WEIGHTS.fullmatch(part["name"]):
        return False
    first = _first_seen(flow, tensor)
    for other in range(max(0, tensor - _NEAR), min(len(flow.log.tensors), tensor + _NEAR)):
        owners = (_PART.fullmatch(name) for name in flow.log.tensors[other].names)
        is_part = any(match is not None and match["owner"] == part["owner"] for match in owners)
        is_of_step = flow.step_before(_first_seen(flow, other)) == flow.step_before(first)
        if other != tensor and is_part and is_of_step and flow.users(other):
            return True
    return False


_NEAR = 50


def _first_seen(flow: Dataflow, tensor: int) -> int:
    return flow.log.tensors[tensor].first_seen or 0


def _unpacked_at(case: Case, name: str, backward: int) -> Location | None:
    """The line that unpacks a batch into a name that its function never reads."""
    flow = case.dataflow
    for line in _one_line_of_each_function(flow, (backward, *range(flow.step_before(backward) + 1, backward))):
        number = unread_name(case.capture.sources.get(line.file, {}), line.line, name)
        if number is not None:
            return Location(line.file, number)
    return None


def _one_line_of_each_function(flow: Dataflow, rows: Iterable[int]) -> Iterator[CallSite]:
    """Of each function of the program that made one of these calls, the first line of it that did."""
    seen = set[tuple[str, str]]()
    for row in rows:
        for line in callers(flow, row):
            if (line.file, line.function) not in seen:
                seen.add((line.file, line.function))
                yield line
