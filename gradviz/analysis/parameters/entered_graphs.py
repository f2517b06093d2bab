"""Losses that go into a part of the graph that the optimizer of another loss trains: a discriminator's loss of results
that still have the history of the generator, a policy's loss with the history of the critic."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.failed_backward import Freed
from gradviz.analysis.parameters.parameter_histories import ParameterHistories

_MIN_OPTIMIZERS = 2


class EnteredGraph(Struct, frozen=True):
    """The loss, and where it goes in."""

    name: str
    call: int
    """Its first call that uses a result of the shared part."""
    parameters: tuple[int, ...]
    """The parameters of the shared part."""


def loss_of_another_optimizer(case: Case, freed: Freed) -> EnteredGraph | None:
    """Which of two losses goes into a shared part that only the optimizer of the other one trains; None if neither, or
    if it is not known."""
    histories, reached = case.histories, case.failed_backwards.reached
    parameters = histories.trained.intersection(reached(freed.backward).above(freed.call).leaves)
    owners = _owners(histories, parameters)
    if not owners or len(histories.log.optimizers) < _MIN_OPTIMIZERS:
        return None
    both = reached(freed.earlier).members & reached(freed.backward).members
    stepped = {histories.log.calls[row].optimizer for row in histories.steps if freed.earlier < row < freed.backward}
    if stepped and not owners & stepped:
        entering: int | None = freed.earlier
    else:
        strange = [
            row
            for row in ((freed.backward,) if stepped else (freed.earlier, freed.backward))
            if (own := _owners(histories, _leaves_of(histories, reached(row).members - both))) and not own & owners
        ]
        entering = strange[0] if len(strange) == 1 else None
    if entering is None:
        return None
    call = _first_use(case, reached(entering).members - both, both)
    roots = histories.log.calls[entering].roots
    if call is None or not roots:
        return None
    return EnteredGraph(histories.name(roots[0].tensor), call, tuple(sorted(parameters)))


def _owners(histories: ParameterHistories, leaves: Iterable[int]) -> set[int | None]:
    return {optimizer for leaf in leaves for optimizer in histories.optimizers_of(leaf)}


def _leaves_of(histories: ParameterHistories, rows: Iterable[int]) -> set[int]:
    return {use.tensor for row in rows for use in histories.log.calls[row].inputs if use.is_live_leaf}


def _first_use(case: Case, rows: Iterable[int], both: frozenset[int]) -> int | None:
    flow = case.dataflow
    return next(
        (
            row
            for row in sorted(rows)
            for use in flow.log.calls[row].inputs
            if use.has_grad_fn and flow.newest_producer(use.tensor, row) in both
        ),
        None,
    )
