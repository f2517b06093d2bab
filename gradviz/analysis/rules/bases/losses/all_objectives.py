"""What all losses of a program together do for each parameter."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.losses.fits import fits_in, sign_without, weights_of
from gradviz.analysis.rules.bases.losses.objectives import (
    Objective,
    leaves_with_other_gradients,
    named_objectives,
    objectives,
)
from gradviz.analysis.rules.bases.losses.rewards import is_of_rewards


class AllObjectives:
    """What all losses of a program train."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self.objectives = objectives(case)
        known = {each.backward for each in self.objectives}
        self.named = [each for each in named_objectives(case) if each.backward not in known]
        """Further losses, of steps in which more variables have names."""

    @cached_property
    def trained_otherwise(self) -> set[int]:
        """The leaves that something other than an error with the wrong sign trains."""
        leaves = leaves_with_other_gradients(self._case.histories)
        return leaves.union(*(_trained_otherwise(self._case.dataflow, each) for each in self.objectives))

    @cached_property
    def fitted(self) -> set[int]:
        """The leaves of which some loss makes a fit better."""
        leaves = leaves_with_other_gradients(self._case.histories)
        return leaves.union(*(_fitted(self._case.dataflow, each) for each in self.objectives))

    @cached_property
    def has_rewarded_policy(self) -> bool:
        """Whether some policy learns what is rewarded: another one may play against it."""
        return any(_is_rewarded(self._case, each) for each in (*self.objectives, *self.named))


def _fitted(flow: Dataflow, objective: Objective) -> Iterator[int]:
    """The leaves of those terms that make a fit better, or may do so."""
    for fit in fits_in(flow, objective.terms):
        weights = weights_of(flow, fit.term)
        if (sign_without(flow, fit.term, weights) > 0) is not fit.is_score:
            yield from objective.leaves_of(fit.term)


def _is_rewarded(case: Case, objective: Objective) -> bool:
    """Whether a loss subtracts log-probabilities times rewards: then another policy may play against that one."""
    flow = case.dataflow
    for fit in fits_in(flow, objective.terms):
        weights = weights_of(flow, fit.term)
        is_worsened = (sign_without(flow, fit.term, weights) > 0) is fit.is_score
        if not is_worsened and any(is_of_rewards(case, weight) for weight in weights):
            return True
    return False


def _trained_otherwise(flow: Dataflow, objective: Objective) -> Iterator[int]:
    """The leaves of all terms but errors with the wrong sign, and the size of parameters themselves."""
    worse = {fit.term.row for fit in fits_in(flow, objective.terms) if fit.is_worsened and fit.term.is_sure}
    for term in objective.last_terms:
        is_own_size = all(use.is_live_leaf for use in flow.log.calls[term.row].live_inputs)
        if worse.isdisjoint(term.path) and not is_own_size:
            yield from objective.leaves_of(term)
