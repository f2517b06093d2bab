"""GV638."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.overwritten_variables import assigned
from gradviz.analysis.finding import Finding, Location, location_of_line
from gradviz.analysis.parameters.creation_lines import line_of_module
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.documented_ranges import DEMANDS, Demand
from gradviz.analysis.rules.bases.losses.loss_arguments import (
    argument,
    calls_in_training,
    is_reduced_as_a_whole,
    value_maker,
)
from gradviz.analysis.rules.bases.losses.sums_of_targets import (
    NOT_ADDED_UP_FIX,
    NOT_ADDED_UP_WHY,
    cannot_add_up,
    is_smoothed,
    plain_targets,
    sums_by_hand,
)
from gradviz.analysis.rules.bases.losses.targets.given_arguments import Given, has_too_few_frames
from gradviz.graph.call_log import Call, TensorUse


class ArgumentOutOfRange(Rule):
    """A loss function gets values that its documentation excludes.

    What it finds
    -------------
    At nearly every step of a training: targets outside of 0 to 1 for the binary cross entropies; targets of 0 and 1 for
    losses that want -1 and 1; raw logits for ``nll_loss``, ``kl_div`` and ``ctc_loss``; targets of ``kl_div`` that do
    not fit ``log_target``; several classes for one sample of ``cross_entropy``, or smoothed labels that do not add up
    to 1, also where it is written by hand; a rate for ``poisson_nll_loss``, which takes its logarithm; the blank among
    the targets of ``ctc_loss``, or more targets than frames. Losses of elements that the program masks are left alone.
    As a note: a ``kl_div`` whose target is trained, and whose input is not.

    Why it matters
    --------------
    Most losses do not check their arguments. With targets of -1, a cross entropy falls for ever as the logits grow;
    with targets of 0, a margin loss ignores half of the samples; a log-likelihood of logits learns to make all of them
    large. The loss may fall nicely on the way.

    Example
    -------
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.randn(8, 4)
    labels = torch.where(x[:, :1] > 0, 1.0, -1.0)
    for step in range(3):
        optimizer.zero_grad()
        torch.nn.functional.binary_cross_entropy_with_logits(model(x), labels).backward()
        optimizer.step()

    Instead
    -------
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.randn(8, 4)
    labels = torch.where(x[:, :1] > 0, 1.0, 0.0)
    for step in range(3):
        optimizer.zero_grad()
        torch.nn.functional.binary_cross_entropy_with_logits(model(x), labels).backward()
        optimizer.step()
    """

    code = "GV638"
    name = "argument_out_of_range"
    severity = "warning"
    yields_to = ("zero_gradient_op",)

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        for rows in calls_in_training(flow, frozenset(DEMANDS)):
            function = flow.log.calls[rows[0]].function.rpartition(".")[2]
            if not all(is_reduced_as_a_whole(flow, row) for row in rows):
                continue
            found = next((found for demand in DEMANDS[function] if (found := _broken(case, rows, demand))), None)
            if found is not None:
                demand, broken = found
                yield self._finding(flow, demand, broken, len(rows))
            elif function == "kl_div" and all(_is_swapped(flow, row) for row in rows):
                yield self._swapped(flow, rows[-1])
        yield from self._sums_by_hand(flow)

    def _sums_by_hand(self, flow: Dataflow) -> Iterator[Finding]:
        """Cross entropies that are written by hand, with targets that do not add up to 1."""
        lines: dict[int | None, list[tuple[int, int, float, float] | None]] = defaultdict(list)
        for row, target, classes in sums_by_hand(flow):
            lines[flow.log.calls[row].call_site].append(_wrong_sum(flow, row, target, classes))
        for found in lines.values():
            last = found[-1]
            if last is not None and len(found) >= _MIN_CALLS and all(each is not None for each in found):
                yield self._not_added_up(flow, *last)

    def _not_added_up(self, flow: Dataflow, row: int, made: int, lowest: float, highest: float) -> Finding:
        loss, place = location_of_call(flow, row), location_of_call(flow, made)
        return self.finding(
            "the targets of a cross entropy that is summed over the classes cannot add up to 1 for each sample: they "
            f"are between {lowest:.4g} and {highest:.4g}",
            symptom="grad_wrong",
            why=NOT_ADDED_UP_WHY,
            fix=NOT_ADDED_UP_FIX,
            location=place,
            symptom_location=loss if loss != place else None,
        )

    def _finding(self, flow: Dataflow, demand: Demand, broken: list[Given], calls: int) -> Finding:
        last = broken[-1]
        function, loss = last.call.function.rpartition(".")[2], location_of_call(flow, last.row)
        made = _line_of_values(flow, last)
        place = _line_of_labels(flow, last) if demand.are_labels else _line_of_options(flow, last, demand)
        place = place or _line_of_short_lengths(flow, last, demand)
        lowest, highest = min(each.lowest for each in broken), max(each.highest for each in broken)
        is_nan = last.call.outputs[0].values is not None and bool(last.call.outputs[0].values.nans)
        other = loss if place is not None else made
        given = f"values from {lowest:.4g} to {highest:.4g}, in {len(broken):,} of {calls:,} calls"
        return self.finding(
            f"{function}() asks for {demand.documented}; as {demand.name} it gets "
            f"{given if demand.name_of is None else demand.name_of(last)}",
            severity="error" if is_nan else self.severity,
            symptom="grad_nan" if is_nan else "grad_wrong",
            why=demand.why,
            fix=demand.fix,
            location=place or loss,
            symptom_location=other if other != (place or loss) else None,
            evidence={"lowest": lowest, "highest": highest, "calls": len(broken)},
        )

    def _swapped(self, flow: Dataflow, row: int) -> Finding:
        return self.finding(
            "the target of kl_div() is trained, and its input is not: it is the divergence of the model from the other "
            "distribution",
            severity="note",
            symptom="grad_wrong",
            why="kl_div(input, target) takes the model first, unlike the mathematical notation",
            fix="for the divergence of distillation, call kl_div(log_softmax(model(x), -1), probabilities)",
            location=location_of_call(flow, row),
        )


_MIN_CALLS = 2


def _wrong_sum(flow: Dataflow, row: int, target: TensorUse, classes: int) -> tuple[int, int, float, float] | None:
    """The product, the call that made its targets, and their range, if they cannot add up to 1."""
    use = plain_targets(flow, target, row)
    values, made = flow.values_of(use, row), value_maker(flow, use.tensor, row)
    if values is None or values.minimum is None or values.maximum is None or made is None:
        return None
    is_wrong = cannot_add_up(values.minimum, values.maximum, classes) and is_smoothed(flow, use.tensor, row)
    return (row, made[0], values.minimum, values.maximum) if is_wrong else None


def _broken(case: Case, rows: list[int], demand: Demand) -> tuple[Demand, list[Given]] | None:
    """The calls in which an argument is not what is asked for, if there are enough of them."""
    flow, given = case.dataflow, [each for row in rows if (each := _given(case, row, demand)) is not None]
    broken = [each for each in given if demand.is_broken(each)]
    if not broken or len(broken) < demand.share * len(rows):
        return None
    together = Given(
        flow, broken[-1].row, broken[-1].use, broken[-1].values, min(each.lowest for each in given),
        max(each.highest for each in given), broken[-1].made_as,
    )  # fmt: skip
    return (demand, broken) if demand.is_broken(together) else None


def _given(case: Case, row: int, demand: Demand) -> Given | None:
    flow = case.dataflow
    use = argument(flow.log.calls[row], demand.position, demand.name)
    values = None if use is None else flow.values_of(use, row)
    if use is None or values is None or values.minimum is None or values.maximum is None:
        return None
    made = value_maker(flow, use.tensor, row) if demand.name_of is not None else None
    line = None if made is None else case.source_line(location_of_call(flow, made[0]))
    return Given(flow, row, use, values, values.minimum, values.maximum, assigned(line or "") or "")


def _is_swapped(flow: Dataflow, row: int) -> bool:
    """Whether only the target of a divergence is trained, and the input is the logarithm of a network's softmax."""
    call = flow.log.calls[row]
    model, target = argument(call, 0, "input"), argument(call, 1, "target")
    if model is None or target is None or model.requires_grad or not target.requires_grad:
        return False
    made = value_maker(flow, model.tensor, row, through=frozenset({"detach"}))
    is_probability = not call.scalars.get("log_target", False)
    return is_probability and made is not None and plain_name(made[1].function) == "log_softmax"


# -- lines -------------------------------------------------------------------------------------------------------------


def _line_of_values(flow: Dataflow, given: Given) -> Location | None:
    made = value_maker(flow, given.use.tensor, given.row)
    return None if made is None else location_of_call(flow, made[0])


def _line_of_options(flow: Dataflow, given: Given, demand: Demand) -> Location | None:
    """The line that made the module that calls the function, if an option of it is to be changed."""
    site = line_of_module(flow, given.call) if demand.is_option else None
    return None if site is None else location_of_line(flow.line(site))


def _line_of_short_lengths(flow: Dataflow, given: Given, demand: Demand) -> Location | None:
    """The line that computed how many frames each sample has, if the longest has fewer than there are."""
    lengths = argument(given.call, 2, "input_lengths") if demand.is_broken is has_too_few_frames else None
    values = None if lengths is None else flow.values_of(lengths, given.row)
    shape = shape_of(flow, given.call.inputs[0].tensor)
    if lengths is None or values is None or values.maximum is None or not shape or values.maximum >= shape[0]:
        return None
    makers = flow.makers(lengths.tensor, given.row, _MAX_MAKERS)
    return next((location_of_call(flow, row) for row, call in makers if plain_name(call.function) in _DIVIDES), None)


_DIVIDES = frozenset({"div", "floor_divide", "floordiv", "true_divide", "rshift", "sub"})
_MAX_MAKERS = 6


def _line_of_labels(flow: Dataflow, given: Given) -> Location | None:
    """The line that chose the values of labels, if one did; they may have been compared or read long before."""
    made = value_maker(flow, given.use.tensor, given.row)
    if made is None:
        return None
    row, call = made
    is_in_step = row >= flow.step_before(given.row) > 0 and bool(call.inputs)
    return location_of_call(flow, row) if is_in_step or _chooses(call) else None


def _chooses(call: Call) -> bool:
    return bool(call.inputs) and plain_name(call.function) in ("where", "sign", "sub", "mul", "add", "div", "neg")
