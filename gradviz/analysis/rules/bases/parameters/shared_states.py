"""States that are loaded though they are no copies: of an optimizer its own one, of a model that of another model."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.finding import Location
from gradviz.analysis.rules.bases.sources.kept_states import (
    assigned_states,
    kept_states,
    owners_of_loads,
    steps_between,
)
from gradviz.analysis.rules.bases.sources.own_files import own_files
from gradviz.graph.call_log import LoggedOptimizer


class OwnState(Struct, frozen=True):
    """An optimizer that was given tensors of its own state, which its steps have changed since."""

    optimizer: LoggedOptimizer
    kept: Location
    """The line that kept the state."""
    loaded: Location | None


class AssignedState(Struct, frozen=True):
    """A model whose parameters are those of another one, which is trained."""

    name: str
    source: str
    location: Location
    parameters: tuple[int, ...]


def own_states(case: Case) -> Iterator[OwnState]:
    """Only of optimizers whose state some line kept, and that may have stepped before it was loaded."""
    for optimizer in case.dataflow.log.optimizers:
        if optimizer.own_state_at is None:
            continue
        loaded = case.location_of_site(optimizer.own_state_at)
        names = {name.rpartition(".")[2] for name in optimizer.names}
        for file, tree in own_files(case):
            if loaded is not None and loaded.file == file:
                names |= owners_of_loads(tree, loaded.line)
        for file, tree in own_files(case):
            lines = [line for line, owner in kept_states(tree) if owner in names]
            if loaded is not None and loaded.file == file:
                lines = [line for line in lines if steps_between(tree, line, loaded.line)]
            if lines:
                yield OwnState(optimizer, Location(file, lines[0]), loaded)
                break


def assigned_models(case: Case) -> Iterator[AssignedState]:
    """Those that a line gave the state of another model, if memory of trained parameters is that of others, too."""
    shared = _trained_with_others(case)
    for file, tree in own_files(case) if shared else ():
        for line, name, source in assigned_states(tree):
            if name != source:
                yield AssignedState(name, source, Location(file, line), shared)
                return


def _trained_with_others(case: Case) -> tuple[int, ...]:
    """The trained parameters whose memory is also that of another parameter, which is not trained itself and which
    later calls read."""
    flow, trained = case.dataflow, case.histories.trained
    by_memory: dict[int, list[int]] = defaultdict(list)
    for number, tensor in enumerate(flow.log.tensors):
        if tensor.role == "parameter" or number in trained:
            by_memory[flow.memory_of(number)].append(number)
    found = list[int]()
    for numbers in by_memory.values():
        others = [number for number in numbers if number not in trained and flow.users(number)]
        found += [number for number in numbers if number in trained] if others else []
    return tuple(found)
