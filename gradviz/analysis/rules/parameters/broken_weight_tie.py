"""GV705."""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import Literal

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import at_line, call_words, location_of_call, two_lines
from gradviz.analysis.dataflow.tensor_words import names_of
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.parameters.detached_ties import DetachedTie, detached_ties
from gradviz.analysis.parameters.parameter_histories import ParameterHistories
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.sources.parameters_of_one_tensor import leaves_of_one_memory, line_of_second


class Tie(Struct, frozen=True):
    """Two parameters that should be one, and the call that made them two."""

    one: int
    other: int
    row: int
    how: Literal["share memory", "copied", "torn", "detached copy"]


class BrokenWeightTie(Rule):
    """Two parameters that should share one tensor each get only a part of the gradient.

    What it finds
    -------------
    Two `Parameter` objects in the same memory, and parameters that two modules shared until one of them got another
    one, if both train. Also an embedding and an output layer of which one got a copy of the other's weight instead of
    the weight itself (``clone()``, ``copy_()``, ``load_state_dict()``), and a buffer or attribute in the memory of a
    weight (``.data``, ``detach()``) that the loss uses in another way than the weight, as a decoder does that of its
    encoder. A parameter that was trained while it was shared, and that a copy of it replaces, is left alone.

    Why it matters
    --------------
    A tied weight is one object that two modules hold: its gradient is the sum of both uses. Two objects over one memory
    have two gradients and two optimizer states, each for a part of the uses, and the optimizer steps the same numbers
    twice. A detached view follows the values of the weight, and its uses bring no gradient at all.

    Example
    -------
    embed, out = torch.nn.Embedding(9, 4), torch.nn.Linear(4, 9, bias=False)
    out.weight.data = embed.weight.data
    out(embed(torch.arange(5))).square().mean().backward()

    Instead
    -------
    embed, out = torch.nn.Embedding(9, 4), torch.nn.Linear(4, 9, bias=False)
    out.weight = embed.weight
    out(embed(torch.arange(5))).square().mean().backward()
    """

    code = "GV705"
    name = "broken_weight_tie"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        histories = case.histories
        told = set[frozenset[int]]()
        ties = list(_ties(histories))
        apart = _rows_that_untie(histories, ties)
        for tie in ties:
            if tie.row not in apart and _train_together(histories, tie):
                told.add(frozenset((tie.one, tie.other)))
                yield self._finding(histories, tie, location_of_call(histories.flow, tie.row))
        for each in leaves_of_one_memory(case):
            tie = Tie(each.one, each.other, each.row, "share memory")
            if frozenset((each.one, each.other)) not in told and _train_together(histories, tie):
                yield self._finding(histories, tie, line_of_second(case, each.row))
        views = (each for each in detached_ties(histories) if each.view not in histories.trained)
        detached = (self._without_gradient(histories, each) for each in views)
        yield from {finding.location: finding for finding in detached}.values()

    def _finding(self, histories: ParameterHistories, tie: Tie, location: Location | None) -> Finding:
        one, other = histories.name(tie.one), histories.name(tie.other)
        how = {
            "share memory": "share their memory, but are two parameters",
            "copied": "began as one and its copy, but are two parameters",
            "detached copy": "began as one and its copy, but are two parameters",
            "torn": "were one parameter, but are two now",
        }[tie.how]
        result = "each gets the gradient of its own uses only"
        return self.finding(
            f"{one} and {other} {how}: {result}",
            symptom="grad_wrong",
            why="autograd and optimizers know tensor objects, not their memory, so nothing adds up the two gradients",
            fix="assign the Parameter itself, after everything that replaces it: module_b.weight = module_a.weight"
            if histories.tensor(tie.one).facts.shape == histories.tensor(tie.other).facts.shape
            else f"keep one of them, and transpose it where you use it: F.linear(x, {one}.t())",
            location=location,
            tensors=names_of(histories.flow, [tie.one, tie.other]),
            evidence={"shares_memory": tie.how == "share memory"},
        )

    def _without_gradient(self, histories: ParameterHistories, tie: DetachedTie) -> Finding:
        flow, made = histories.flow, histories.tensor(tie.view)
        row = made.first_seen if made.producer is None else made.producer
        location, used = two_lines(flow, tie.use if row is None else row, tie.use)
        weight, view = histories.name(tie.parameter), histories.name(tie.view)
        return self.finding(
            f"{view} is in the memory of {weight}, but has no gradient: {call_words(flow.log.calls[tie.use])}"
            f"{at_line(used or location)} trains nothing of it, and {weight} gets the gradient of its other uses only",
            symptom="grad_wrong",
            why="the values stay the same, because both are one memory, but autograd knows a detached view as a "
            "constant",
            fix=f"use the parameter itself at each call, transposed if need be: F.linear(x, {weight}.t()); where no "
            "gradient is wanted, call detach() there",
            location=location,
            symptom_location=used,
            tensors=names_of(flow, [tie.parameter, tie.view]),
            evidence={"shares_memory": True},
        )


def _ties(histories: ParameterHistories) -> Iterator[Tie]:
    owner: dict[int, int] = {}
    """By storage: the first parameter in it."""
    for number, tensor in enumerate(histories.log.tensors):
        if tensor.role == "parameter" and tensor.storage is not None:
            owner.setdefault(tensor.storage, number)
    replaced_by: dict[int, int] = {}
    for row, call in enumerate(histories.log.calls):
        arguments = {use.place: use.tensor for use in call.inputs}
        if call.function == "torch.Tensor.data.__set__" and len(call.inputs) > 1:
            storage = histories.tensor(call.inputs[1].tensor).storage
            source = owner.get(storage) if storage is not None else None
            if source is not None and source != call.inputs[0].tensor:
                yield Tie(source, call.inputs[0].tensor, row, "share memory")
        elif call.function == "torch.Tensor.copy_":
            yield from _values_of_another(histories, row, arguments)
        elif call.kind == "register_parameter" and "shared" in arguments:
            yield Tie(arguments["shared"], arguments["new"], row, "share memory")
        elif call.kind == "register_parameter" and "source" in arguments:
            new = arguments["new"]
            yield from (Tie(origin, new, row, "copied") for origin in _copied_from(histories, arguments["source"]))
        elif call.kind in ("register_parameter", "register_module"):
            yield from _torn(row, arguments)
            yield from _detached_copies(histories, row, arguments)
            for old, new in _replacements(arguments):
                if replaced_by.setdefault(old, new) != new:
                    yield Tie(replaced_by[old], new, row, "torn")
    yield from _deep_copies(histories, set(replaced_by.values()))


def _rows_that_untie(histories: ParameterHistories, ties: list[Tie]) -> set[int]:
    """The calls that replace a parameter, which two modules share and steps have trained, by a copy of itself in one of
    them: from there on, the two go apart on purpose."""
    flow = histories.flow
    torn = {(tie.row, tie.one, tie.other) for tie in ties if tie.how == "torn"}
    copied = (tie for tie in ties if tie.how != "torn" and (tie.row, tie.one, tie.other) in torn)
    return {
        tie.row
        for tie in copied
        if any(flow.log.calls[row].kind == "step" for row in flow.changes(tie.one, -1, tie.row))
    }


def _torn(row: int, arguments: dict[str, int]) -> Iterator[Tie]:
    """Parameters that one module replaced, but that another module may still hold."""
    kept = {tensor for name, tensor in arguments.items() if name.startswith("new")}
    yield from (Tie(old, new, row, "torn") for old, new in _replacements(arguments) if old not in kept)


def _detached_copies(histories: ParameterHistories, row: int, arguments: dict[str, int]) -> Iterator[Tie]:
    """The weight of an embedding that an output layer got as a detached copy, or the other way round.

    A detached copy alone proves nothing: a layer may start with the values of another one.
    """
    new = arguments.get("new")
    if new is not None:
        yield from (Tie(origin, new, row, "detached copy") for origin, _ in _origins(histories, new))


def _deep_copies(histories: ParameterHistories, tied: Container[int]) -> Iterator[Tie]:
    """Parameters that a copy of a whole module made before the first step, of which an embedding and a layer shared
    one: ``deepcopy(head)`` does not know what is outside of ``head``."""
    first = next(iter(histories.steps), 0)
    for new in sorted(histories.trained):
        for origin, maker in _origins(histories, new):
            if origin in tied and maker < first:
                yield Tie(origin, new, maker, "copied")


def _origins(histories: ParameterHistories, new: int) -> Iterator[tuple[int, int]]:
    """The weight of an embedding of which another layer has a detached copy, or the other way round, with the call that
    copied it."""
    for maker in {histories.tensor(each).producer for each in histories.flow.sharing_memory(new)}:
        origin = None if maker is None else _detached_origin(histories, maker)
        if maker is not None and origin is not None and origin != new:
            is_embedded = [_is_embedded(histories, number) for number in (origin, new)]
            if any(is_embedded) and not all(is_embedded):
                yield origin, maker


def _values_of_another(histories: ParameterHistories, row: int, arguments: dict[str, int]) -> Iterator[Tie]:
    """The weight of an embedding whose values an output layer got before the first step, or the other way round: by
    ``copy_()`` or ``load_state_dict()``."""
    new, given = arguments.get("0"), arguments.get("1")
    if new is None or given is None or histories.tensor(new).role != "parameter" or not histories.steps:
        return
    first = histories.steps[0]
    if row > first or any(each > row for each in histories.flow.changes(new, row, first)):
        return
    maker = histories.flow.newest_producer(given, row)
    is_parameter = histories.tensor(given).role == "parameter"
    origin = given if is_parameter else None if maker is None else _detached_origin(histories, maker)
    if origin not in (None, new):
        is_embedded = [_is_embedded(histories, number) for number in (origin, new)]
        if any(is_embedded) and not all(is_embedded):
            yield Tie(origin, new, row, "detached copy")


def _detached_origin(histories: ParameterHistories, maker: int) -> int | None:
    """The parameter whose values a call copied, as they are or transposed, after ``detach()`` or ``.data``."""
    row: int | None = maker
    while row is not None:
        call = histories.log.calls[row]
        if call.function not in _COPIES | _DETACHES or not call.inputs:
            return None
        use = call.inputs[0]
        if use.is_live_leaf:
            return use.tensor if histories.tensor(use.tensor).role == "parameter" else None
        row = histories.flow.newest_producer(use.tensor, row)
    return None


def _is_embedded(histories: ParameterHistories, number: int) -> bool:
    calls = histories.log.calls
    return any(calls[row].function.endswith(".embedding") for row in histories.forward_uses(number))


def _replacements(arguments: dict[str, int]) -> Iterator[tuple[int, int]]:
    """The old parameters, each with the new one of the same name."""
    for name, old in arguments.items():
        new = arguments.get("new" + name.removeprefix("old")) if name.startswith("old") else None
        if new is not None:
            yield old, new


def _copied_from(histories: ParameterHistories, source: int) -> list[int]:
    """The parameter that a tensor is only a copy of, perhaps transposed, made while autograd was recording."""
    current, row = source, len(histories.log.calls)
    while (producer := histories.flow.newest_producer(current, row)) is not None:
        call = histories.log.calls[producer]
        if call.function not in _COPIES or not call.inputs:
            return []
        use, row = call.inputs[0], producer
        if use.is_leaf:
            return [use.tensor] if use.requires_grad else []
        current = use.tensor
    return []


_COPIES = frozenset(
    f"torch.Tensor.{name}"
    for name in (
        "clone", "to", "contiguous", "view", "reshape", "view_as", "t", "T", "mT", "transpose", "permute", "swapaxes",
    )
)  # fmt: skip


_DETACHES = frozenset({"torch.Tensor.detach", "torch.Tensor.data"})


def _train_together(histories: ParameterHistories, tie: Tie) -> bool:
    """Whether the same backward calls reach both, and their shapes are the same, perhaps transposed."""
    one, other = (sorted(map(str, histories.tensor(number).facts.shape)) for number in (tie.one, tie.other))
    if one != other:
        return False
    return any(
        tie.one in leaves and tie.other in leaves for row, leaves in histories.reached_by.items() if row > tie.row
    )
