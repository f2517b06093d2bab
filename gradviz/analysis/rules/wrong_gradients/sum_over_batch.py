"""GV619."""

from __future__ import annotations

from collections.abc import Iterator
from math import isclose

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import at_line, call_words, calls_named, location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.tensor_words import leaf_names_above
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.formulas.products import summed_axes
from gradviz.analysis.rules.bases.losses.loss_arguments import tensor_before
from gradviz.graph.call_log import Call, TensorUse


class SumOverBatch(Rule):
    """A sum over the whole batch is added to a value of each sample.

    What it finds
    -------------
    ``sum()`` without ``dim`` over values of all samples, or a product that adds up as much, such as
    ``einsum("nd,nd->", x, x)``, whose single number is then added to one value for each of these samples, before a mean
    or a sum over them; also where it is first added to others of its kind, as the layers of a flow
    add up their log-determinants. Left alone are sums that are divided by the number of samples, which are means, and
    sums over parameters, such as a penalty on weights.

    Why it matters
    --------------
    The number is the same for each sample, so the mean leaves it as it is: this part counts as often as there are
    samples, and the part beside it once. The weight of the two depends on the size of the batch.

    Example
    -------
    scale = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(scale.parameters(), lr=0.01)
    for step in range(3):
        x = torch.randn(8, 2)
        log_scale = scale(x)
        z = x * log_scale.exp()
        log_prob = -0.5 * z.square().sum() + log_scale.sum(dim=1)
        loss = -log_prob.mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    scale = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(scale.parameters(), lr=0.01)
    for step in range(3):
        x = torch.randn(8, 2)
        log_scale = scale(x)
        z = x * log_scale.exp()
        log_prob = -0.5 * z.square().sum(dim=1) + log_scale.sum(dim=1)
        loss = -log_prob.mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV619"
    name = "sum_over_batch"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow, told = case.dataflow, set[int | None]()
        for row, call in calls_named(flow, ("add", "sub")):
            if call.call_site in told or len(call.live_inputs) < 2:
                continue
            for use, other in (call.live_inputs[:2], call.live_inputs[1::-1]):
                samples = shape_of(flow, other.tensor)
                if len(samples) != 1 or samples[0] < _MIN_SAMPLES or not flow.has_step_after(row):
                    continue
                total = _sum_of_all(case, use, row, samples[0])
                if total is not None and _is_averaged(case, row):
                    told.add(call.call_site)
                    yield self._finding(case, total, row, samples[0])

    def _finding(self, case: Case, total: int, row: int, samples: int) -> Finding:
        flow = case.dataflow
        given = _before_flattening(flow, flow.log.calls[total].live_inputs[0].tensor, total)
        shape = shape_of(flow, given)
        location, added = location_of_call(flow, total), location_of_call(flow, row)
        return self.finding(
            f"{call_words(flow.log.calls[total])} adds up all samples of ({', '.join(map(str, shape))}), and the total "
            f"is added{at_line(added)} to one value for each of the {samples:,} samples",
            symptom="grad_wrong",
            why=f"the mean over samples leaves the total as it is: it counts {samples:,} times as much as the rest",
            fix="sum over the other axes only: .sum(dim=1)" if len(shape) > 1 else "leave the sum out here",
            location=location,
            symptom_location=added if added != location else None,
            tensors=leaf_names_above(flow, given, total, since=flow.step_before(total)),
            evidence={"samples": samples},
        )


_MIN_SAMPLES = 2
_MAX_ARITHMETIC = 6
_MAX_TERMS = 60
_KEEPS = frozenset({"neg", "mul", "div", "clone", "float", "to"})


def _sum_of_all(case: Case, use: TensorUse, row: int, samples: int) -> int | None:
    """A ``sum()`` over all values of these samples that a single number contains; None if it contains none.

    The number may be a total that a loop adds up, such as over the layers of a flow.
    """
    flow, waiting = case.dataflow, [(use.tensor, row)]
    for _ in range(_MAX_TERMS):
        if not waiting:
            break
        tensor, before = waiting.pop()
        made = flow.producers(tensor, before) if shape_of(flow, tensor) == () else ()
        if not made:
            continue
        call, name = flow.log.calls[made[-1]], plain_name(flow.log.calls[made[-1]].function)
        if name in _ADD_UP:
            if _adds_up_samples(case, made[-1], call, samples):
                return made[-1]
        elif (name in _KEEPS and len(call.inputs) == 1 and not _is_divided(call, samples)) or name in ("add", "sub"):
            waiting += [(each.tensor, made[-1]) for each in call.live_inputs]
    return None


_ADD_UP = frozenset({"sum", "nansum", "einsum", "dot", "vdot", "inner", "vecdot"})


def _adds_up_samples(case: Case, row: int, call: Call, samples: int) -> bool:
    """Whether a sum, or a product that is one, adds up all that it gets, of which one axis is that of the samples."""
    flow = case.dataflow
    for use in call.live_inputs[:1]:
        given = _before_flattening(flow, use.tensor, row)
        rank = len(shape_of(flow, use.tensor))
        is_of_all = (summed_axes(call, use, rank) or frozenset()) == frozenset(range(rank))
        if is_of_all and shape_of(flow, given)[:1] == (samples,) and _is_of_data(case, given, row, samples):
            # A product with weights of the samples that add up to 1 is their mean.
            weights = [each for each in call.inputs if not each.requires_grad]
            return not weights or any(shape_of(flow, each.tensor) != (samples,) for each in weights)
    return False


def _before_flattening(flow: Dataflow, tensor: int, row: int) -> int:
    return tensor_before(flow, tensor, row, _FLATTEN)


_FLATTEN = frozenset({"view", "reshape", "flatten", "ravel"})


def _is_divided(call: Call, samples: int) -> bool:
    """Whether a call divides by the number of samples, or of all values, and so makes a mean of a sum."""
    numbers = [abs(each) for each in call.scalars.values() if isinstance(each, (int, float)) and each]
    times = [each / samples if each >= 1 else 1 / (each * samples) for each in numbers]
    return any(round(each) >= 1 and isclose(each, round(each), rel_tol=1e-6) for each in times)


def _is_of_data(case: Case, tensor: int, row: int, samples: int) -> bool:
    """Whether it was computed from a tensor of data with one entry for each sample."""
    flow = case.dataflow
    since = flow.step_before(row)
    return any(
        not use.requires_grad
        and flow.log.tensors[use.tensor].role == "tensor"
        and shape_of(flow, use.tensor)[:1] == (samples,)
        for each in flow.ancestors(tensor, row, since)
        for use in flow.log.calls[each].inputs
    )


def _is_averaged(case: Case, row: int) -> bool:
    """Whether the result is averaged over all samples next, or added up, perhaps after a change of its sign."""
    flow = case.dataflow
    for _ in range(_MAX_ARITHMETIC):
        tensor = flow.log.calls[row].outputs[0].tensor
        users = flow.users(tensor, row)
        if not users:
            return False
        row = users[0]
        call = flow.log.calls[row]
        name = plain_name(call.function)
        if name == "mean":
            return True
        if name in _ADD_UP and len(call.live_inputs) == 1:
            return bool(call.outputs) and shape_of(flow, call.outputs[0].tensor) == ()
        if name not in _KEEPS | {"add", "sub"} or not call.outputs:
            return False
    return False
