"""GV931."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import at_line, plain_name, two_lines
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.loss_arguments import SHAPE_ONLY, calls_in_training, value_maker
from gradviz.analysis.rules.bases.losses.signed_terms import is_number_first, number_of
from gradviz.analysis.rules.bases.sources.arrays.labels_of_pairs import one_for_alike
from gradviz.analysis.rules.bases.sources.own_files import own_files
from gradviz.graph.call_log import Call


class AlikeKeptApart(Rule):
    """A loss of pairs pulls together what is of different classes, and keeps apart what is of the same one.

    What it finds
    -------------
    Two parts of a loss of distances: one is taken for pairs whose classes are equal and falls while the distance grows
    up to a margin, the other one is taken for pairs whose classes differ and grows with the distance. The parts may be
    chosen by factors of 0 and 1, by masks, or by ``where()``.

    Why it matters
    --------------
    Papers call a pair 1 where it is alike, or where it is not: the original contrastive loss has 0 for alike. With the
    labels of one and the formula of the other, the loss falls, and the embedding puts samples where they do not belong.

    Example
    -------
    model = torch.nn.Linear(6, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x, y = torch.randn(64, 6), torch.randint(0, 3, (64,))
    for step in range(4):
        i, j = torch.randint(0, 64, (2, 32))
        alike = (y[i] == y[j]).float()
        distance = (model(x[i]) - model(x[j])).norm(dim=1)
        hinge = (1 - distance).clamp(min=0)
        loss = ((1 - alike) * distance**2 + alike * hinge**2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    model = torch.nn.Linear(6, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x, y = torch.randn(64, 6), torch.randint(0, 3, (64,))
    for step in range(4):
        i, j = torch.randint(0, 64, (2, 32))
        alike = (y[i] == y[j]).float()
        distance = (model(x[i]) - model(x[j])).norm(dim=1)
        hinge = (1 - distance).clamp(min=0)
        loss = (alike * distance**2 + (1 - alike) * hinge**2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV931"
    name = "alike_kept_apart"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow, told = case.dataflow, set[int | None]()
        stored = [each for _, tree in own_files(case) for each in one_for_alike(tree)]
        is_one_for_alike = stored[0] if len(stored) == 1 else None
        parts = [part for row in _last_of_lines(flow) for part in _parts(flow, row, is_one_for_alike)]
        for hinge in parts:
            if not hinge.is_hinge or not hinge.is_alike or flow.log.calls[hinge.row].call_site in told:
                continue
            pull = next((each for each in parts if _is_opposite(each, hinge)), None)
            if pull is not None:
                told.add(flow.log.calls[hinge.row].call_site)
                yield self._finding(flow, hinge, pull)

    def _finding(self, flow: Dataflow, hinge: _Part, pull: _Part) -> Finding:
        location, compared = two_lines(flow, hinge.row, hinge.compared)
        _, other = two_lines(flow, hinge.row, pull.row)
        return self.finding(
            f"pairs of equal classes{at_line(compared)} are kept apart by a margin, and those of different classes are "
            f"pulled together{at_line(other)}",
            symptom="grad_wrong",
            why="some formulas call a pair 1 where it is alike, others where it is not",
            fix="exchange the two: alike * distance ** 2 + (1 - alike) * (margin - distance).clamp(min=0) ** 2",
            location=location,
            symptom_location=compared,
        )


class _Part(Struct, frozen=True):
    """A part of a loss that is taken for some pairs only."""

    row: int
    """The call that takes it."""
    distance: int
    is_hinge: bool
    is_alike: bool
    """Whether it is taken where two classes are equal."""
    compared: int
    """The call that compared them."""


def _is_opposite(part: _Part, hinge: _Part) -> bool:
    return part.distance == hinge.distance and not part.is_hinge and not part.is_alike


_CHOICES = frozenset({"mul", "where", "getitem", "masked_select"})
_POWERS = frozenset({"pow", "square", "clamp", "clamp_min", "relu", "sqrt", "add"})
_SAME = SHAPE_ONLY | {"stack", "cat", "type", "int", "long", "bool", "detach", "half", "bfloat16", "cpu"}
_TURNS = frozenset({"logical_not", "invert", "bitwise_not"})
_DISTANCES = frozenset({"norm", "vector_norm", "pairwise_distance", "cdist", "sqrt", "sum", "clamp", "add"})
_BOTH = 2
_ALL = 3
_MAX_CALLS = 12


def _last_of_lines(flow: Dataflow) -> Iterator[int]:
    """The last calls of each line that may take a part of a loss: a line may have several."""
    for rows in calls_in_training(flow, _CHOICES):
        step = flow.step_before(rows[-1])
        yield from (row for row in rows if row >= step)


def _parts(flow: Dataflow, row: int, is_one_for_alike: bool | None) -> Iterator[_Part]:
    """What a call takes for some pairs only.

    Args:
        is_one_for_alike: what the labels of a data set of pairs mean, if it makes any.
    """
    call = flow.log.calls[row]
    for tensor, mask, is_where_set in _chosen(call):
        found = _sense(flow, mask, row, is_one_for_alike)
        measured = _distance(flow, tensor, row)
        if found is not None and measured is not None:
            is_hinge = measured[1] or _is_subtracted(flow, row, call)
            yield _Part(row, measured[0], is_hinge, found[0] is is_where_set, found[1])


def _is_subtracted(flow: Dataflow, row: int, call: Call) -> bool:
    """Whether the distances that a call takes are subtracted from a margin after that."""
    users = (flow.log.calls[each] for each in flow.users(call.outputs[0].tensor, row))
    return any(plain_name(each.function) == "sub" and _is_taken_off(each) for each in users)


def _chosen(call: Call) -> Iterator[tuple[int, int, bool]]:
    """What a call takes of which tensor: it, the mask, and whether it is taken where the mask is set."""
    name, inputs = plain_name(call.function), call.inputs
    if name == "where" and len(inputs) == _ALL:
        yield inputs[1].tensor, inputs[0].tensor, True
        yield inputs[2].tensor, inputs[0].tensor, False
    elif len(inputs) == _BOTH and len(call.live_inputs) == 1 and name != "where":
        mask = inputs[1] if inputs[0].requires_grad else inputs[0]
        yield call.live_inputs[0].tensor, mask.tensor, True


def _sense(flow: Dataflow, mask: int, row: int, is_one_for_alike: bool | None) -> tuple[bool, int] | None:
    """Whether a mask is set where two classes are equal, and the call that compared them."""
    is_turned, is_rest, used = False, False, row
    for _ in range(_MAX_CALLS):
        made = flow.newest_producer(mask, row)
        call = None if made is None else flow.log.calls[made]
        if made is None or call is None or not call.inputs:
            values = flow.values(mask, row)
            is_label = values is not None and (values.minimum, values.maximum) == (0, 1) and not is_rest
            is_known = is_label and is_one_for_alike is not None
            return (is_one_for_alike is not is_turned, used) if is_known else None
        name = plain_name(call.function)
        if name in ("eq", "ne"):
            is_of_classes = len(call.inputs) == _BOTH and all(_is_integer(flow, use.tensor) for use in call.inputs)
            return ((name == "eq") is not is_turned, made) if is_of_classes and not is_rest else None
        if name in _TURNS or (name == "sub" and len(call.inputs) == 1 and is_number_first(call)):
            is_turned = not is_turned
        elif name == "add" and len(call.inputs) == 1:
            is_rest = True  # 1 + -1 * label
        elif is_rest and (name == "neg" or number_of(call, "1", "0", "other", missing=0.0) == -1):
            is_turned, is_rest = not is_turned, False
        elif name not in _SAME:
            return None
        mask, row = call.inputs[0].tensor, made
    return None


def _is_integer(flow: Dataflow, tensor: int) -> bool:
    return flow.log.tensors[tensor].facts.dtype.startswith(("int", "uint"))


def _distance(flow: Dataflow, tensor: int, row: int) -> tuple[int, bool] | None:
    """The distance of which a part of a loss is made, and whether the part falls while it grows."""
    made = value_maker(flow, tensor, row, through=_POWERS)
    if made is None:
        return None
    number, call = made
    if plain_name(call.function) == "sub" and len(call.live_inputs) == 1 and _is_taken_off(call):
        inner = value_maker(flow, call.live_inputs[0].tensor, number, through=_POWERS)
        return None if inner is None or not _is_distance(flow, inner) else (inner[0], True)
    return (number, False) if _is_distance(flow, made) else None


def _is_taken_off(call: Call) -> bool:
    """Whether what has a gradient is subtracted from a margin."""
    return is_number_first(call) if len(call.inputs) == 1 else not call.inputs[0].requires_grad


def _is_distance(flow: Dataflow, made: tuple[int, Call]) -> bool:
    row, call = made
    name = plain_name(call.function)
    values = flow.values_of(call.outputs[0], row + 1) if call.outputs else None
    is_of_cosine = name == "sub" and len(call.inputs) == 1 and is_number_first(call)
    is_never_negative = values is not None and values.minimum is not None and values.minimum >= 0
    return is_never_negative and (name in _DISTANCES or is_of_cosine)
