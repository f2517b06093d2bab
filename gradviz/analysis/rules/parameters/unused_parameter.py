"""GV704."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator

from msgspec.structs import replace

from gradviz.analysis.case import Case
from gradviz.analysis.cuts.lost_terms import LostTerm
from gradviz.analysis.dataflow.call_words import at_line, location_of_call
from gradviz.analysis.dataflow.overwritten_variables import assigned
from gradviz.analysis.dataflow.tensor_words import names_of
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.parameters.copied_parameters import copies_in_optimizers, forgotten_parameters
from gradviz.analysis.parameters.parameter_histories import ParameterHistories
from gradviz.analysis.parameters.unused_parameters import (
    Siblings,
    UnusedParameters,
    cut_before_hidden_code,
    losses_of_no_parameter,
    lost_before,
    never_used,
    refused_targets,
    used_for_nothing,
    used_out_of_sight,
)
from gradviz.analysis.rules.bases.formulas.derivatives.hidden_zeros import HiddenZeros, hidden_zeros
from gradviz.analysis.rules.bases.parameters.lost_results import (
    line_that_gets,
    use_it,
    where_argument_is_unread,
    where_left_out,
)
from gradviz.analysis.rules.bases.parameters.unused_rule import UnusedRule
from gradviz.analysis.sources.source_tree import tree_of
from gradviz.capture.capture import ScriptError


class UnusedParameter(UnusedRule):
    """A parameter that should train has no influence on the loss.

    What it finds
    -------------
    Parameters in an optimizer from which nothing is computed, or only results that the loss does not use; a loss that
    is computed and not used, because its variable is assigned again; tensors that are passed to `torch.autograd.grad`
    although the loss was not computed from them, also where `materialize_grads=True` gives zeros for them, which go
    into a loss; parameters whose gradients `DistributedDataParallel` waits for forever.

    Why it matters
    --------------
    Such a parameter gets no gradient and keeps its random values. Most often the program calls another layer instead,
    or overwrites a result before its first use.

    Example
    -------
    class Gate(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.value = torch.nn.Linear(4, 4)
            self.gate = torch.nn.Linear(4, 4)

        def forward(self, x):
            return self.value(x) * torch.sigmoid(self.value(x))

    model = Gate()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(torch.randn(3, 4)).square().mean().backward()
    optimizer.step()

    Instead
    -------
    class Gate(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.value = torch.nn.Linear(4, 4)
            self.gate = torch.nn.Linear(4, 4)

        def forward(self, x):
            return self.value(x) * torch.sigmoid(self.gate(x))

    model = Gate()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(torch.randn(3, 4)).square().mean().backward()
    optimizer.step()
    """

    code = "GV704"
    name = "unused_parameter"
    severity = "warning"
    yields_to = (
        "stale_optimizer_params", "requires_grad_false", "not_registered", "broken_weight_tie",
        "function_hides_parameter", "copy_used_instead", "key_names_nothing",
    )  # fmt: skip

    def check(self, case: Case) -> Iterator[Finding]:
        histories = case.histories
        without_path = {number for found in case.cut_off for number in found.tensors}
        together: dict[tuple[int, Location | None, int | None], list[int]] = {}
        for number, row in refused_targets(histories):
            if number not in without_path:
                is_computed = histories.tensor(number).role != "parameter"  # It has a line of its own.
                place = where_argument_is_unread(case, row) or where_left_out(histories, number, row)
                key = row, place, number if is_computed else None
                together.setdefault(key, []).append(number)
        for (row, place, _), numbers in together.items():
            yield self._refused_target(case, numbers, row, place)
        for zeros in hidden_zeros(case.dataflow):
            if without_path.isdisjoint(zeros.every):
                yield self._hidden_zeros(case, zeros)
        if _waits_in_vain(case.capture.error):
            yield from self._distributed(histories)
            return
        elsewhere = {name for each in case.capture.parameters if each.is_trained_elsewhere for name in each.names}
        copies = copies_in_optimizers(histories, forgotten_parameters(histories))
        for group in _without(elsewhere, histories, never_used(histories, case.source_line)):
            left = tuple(number for number in group.tensors if number not in copies.keys() | without_path)
            if left:
                yield from self.never_used(case, replace(group, tensors=left))
        for term in case.lost_terms:
            yield self._lost(case, term)
        for row, root in losses_of_no_parameter(histories):
            yield self._nothing_in_loss(case, row, root)
        if case.capture.error is None:
            explained = {number for term in case.lost_terms for number in term.parameters}
            explained.update(number for found in case.cut_off for number in found.tensors)
            lost = _without(elsewhere, histories, used_for_nothing(histories, explained))
            yield from self.all_used_for_nothing(case, lost)
            for cut, tensors in cut_before_hidden_code(histories, explained):
                yield self.cut_before_hidden_code(histories, cut, tensors)
            for tensors in used_out_of_sight(histories):
                yield self.used_out_of_sight(histories, tensors)

    def _nothing_in_loss(self, case: Case, row: int, root: int) -> Finding:
        histories = case.histories
        group = next(lost_before(histories, row), None)
        maker = histories.flow.newest_producer(root, row)
        made = None if maker is None else location_of_call(histories.flow, maker)
        there = made if group is None else group.location
        who = "a trained parameter" if group is None else histories.together(group.tensors)
        return self.finding(
            f"no trained parameter is in the loss: what was computed from {who} does not go into it",
            severity="error",
            symptom="raises",
            why="a loss has a grad_fn only if something that it was computed from requires grad",
            fix="compute the loss from the output of the model",
            location=there or made,
            symptom_location=location_of_call(histories.flow, row),
            tensors=() if group is None else names_of(histories.flow, group.tensors),
        )

    def _lost(self, case: Case, term: LostTerm) -> Finding:
        flow, lost = case.dataflow, term.overwriting
        here = line_that_gets(case, term.call)
        written = "" if lost is None else assigned(case.source_line(here) or "") or lost.variable
        name = written or case.tensor_name(flow.log.calls[term.call].outputs[0].tensor)
        who = case.histories.together(term.parameters)
        return self.finding(
            f"{name} is computed{at_line(here)} from {who}, and no loss uses it"
            + ("" if lost is None else f": line {lost.overwritten.line} assigns {lost.variable} again"),
            symptom="grad_none",
            why="what no backward starts from trains nothing",
            fix=f"add {name} to the loss, or leave out its computation" if lost is None else use_it(lost),
            location=here if lost is None else lost.overwritten,
            symptom_location=None if lost is None else lost.computed,
            tensors=names_of(flow, term.parameters),
            evidence={"parameters": len(term.parameters)},
        )

    def _hidden_zeros(self, case: Case, zeros: HiddenZeros) -> Finding:
        flow = case.dataflow
        here, names = location_of_call(flow, zeros.row), " and ".join(map(case.tensor_name, zeros.tensors))
        result = case.tensor_name(zeros.result)
        fresh = next((use.tensor for use in flow.log.calls[zeros.row].asked if use.has_grad_fn), None)
        maker = flow.newest_producer(zeros.result if fresh is None else fresh, zeros.row)
        made = None if maker is None else location_of_call(flow, maker)
        filled = "the program takes zeros for it" if zeros.is_filled else "materialize_grads=True gives zeros for it"
        return self.finding(
            f"{result} is not computed from {names}, and {filled}: what autograd.grad() should return is zero all "
            f"{zeros.times:,} times, and trains nothing in the loss",
            severity="error",
            symptom="grad_zero",
            why="only what was computed from this very tensor has a derivative by it: not what was computed from a "
            "copy, or from results that were stored before, such as distances",
            fix=f"compute {result} from {names}; without allow_unused=True, grad() raises where that is not so",
            location=here if fresh is None else made or here,
            symptom_location=made if fresh is None else here,
            tensors=names_of(flow, zeros.tensors),
            evidence={"times": zeros.times},
        )

    def _refused_target(self, case: Case, numbers: list[int], row: int, left: Location | None) -> Finding:
        histories, number = case.histories, numbers[0]
        here = location_of_call(histories.flow, row)
        uses = histories.flow.producers(number, row)
        is_fresh = any(use.tensor == number and use.has_grad_fn for use in histories.log.calls[row].inputs)
        made = location_of_call(histories.flow, uses[-1]) if uses else None
        # Another loss may use one of several results: the question is wrong, not the model.
        is_of_another = not is_fresh and _is_one_of_several_results(case, left)
        what = "it was made after, or beside, what the loss was computed from" if is_fresh else "no path leads to it"
        return self.finding(
            f"the loss was not computed from {histories.together(numbers)}, but autograd.grad() needs "
            f"{'their gradients' if numbers[1:] else 'its gradient'}: {what}",
            severity="error",
            symptom="raises",
            why="only the very tensor that the computation started with has a gradient, not a copy or a view of it",
            fix="ask for the gradients of what the loss uses alone, or pass allow_unused=True and leave out each None"
            if is_of_another
            else "compute the loss from this tensor, or pass the tensor that it was computed from",
            location=made if is_fresh else here if is_of_another else left or here,
            symptom_location=None if is_of_another else here,
            tensors=names_of(histories.flow, numbers),
        )

    def _distributed(self, histories: ParameterHistories) -> Iterator[Finding]:
        last = max(histories.reached_by, default=None)
        reached = histories.reached_by[last] if last is not None else frozenset()
        silent = [n for n in sorted(histories.trained) if histories.tensor(n).requires_grad and n not in reached]
        if last is None or not silent:
            return
        yield self.finding(
            f"{histories.together(silent)} had no influence on the loss of the last backward, but "
            "DistributedDataParallel waits for their gradients",
            severity="error",
            symptom="raises",
            why="DDP exchanges gradients when all parameters of the module have one, and some never get one in a step",
            fix="pass find_unused_parameters=True to DistributedDataParallel, or let every loss use all parameters",
            location=Siblings(histories).where_it_belongs(silent, any_sibling=True)[0],
            symptom_location=location_of_call(histories.flow, last),
            tensors=names_of(histories.flow, silent),
            evidence={"parameters": len(silent)},
        )


def _is_one_of_several_results(case: Case, location: Location | None) -> bool:
    """Whether a line returns what it computes beside other results: a second head of a network."""
    lines = {} if location is None else case.capture.sources.get(location.file, {})
    statement = None if location is None else tree_of(lines).statement_at(location.line)
    return isinstance(statement, ast.Return) and isinstance(statement.value, (ast.Tuple, ast.Dict))


def _without(
    elsewhere: Collection[str], histories: ParameterHistories, groups: Iterable[UnusedParameters]
) -> Iterator[UnusedParameters]:
    """The groups without parameters that another rank trains."""
    for group in groups:
        tensors = tuple(each for each in group.tensors if not {*histories.tensor(each).names} & {*elsewhere})
        if tensors:
            yield replace(group, tensors=tensors)


def _waits_in_vain(error: ScriptError | None) -> bool:
    return error is not None and error.message.startswith("Expected to have finished reduction")
