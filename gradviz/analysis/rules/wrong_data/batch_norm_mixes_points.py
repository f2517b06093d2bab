"""GV629."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.axes import axes_of
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import at_line, location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.tensor_words import leaf_names_above, tensor_words
from gradviz.analysis.finding import Finding, location_of_line
from gradviz.analysis.parameters.creation_lines import line_of_layer
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.samples.gradients_of_samples import GradientsOfSamples, gradients_of_samples
from gradviz.graph.call_log import Call


class BatchNormMixesPoints(Rule):
    """A derivative for each sample goes through a batch normalization, so it contains the influence of other samples.

    What it finds
    -------------
    ``torch.autograd.grad(u.sum(), x, create_graph=True)``, or with ``grad_outputs=torch.ones_like(u)``, where a batch
    normalization in training mode, or a division by a standard deviation over the batch, lies between ``x`` and ``u``.
    And gradients of the loss of each sample alone (``torch.func.jacrev``, ``grad(losses[i], params)`` in a loop) behind
    such a normalization.

    Why it matters
    --------------
    The derivative of the sum of all results by one sample is that of its own result only if no sample has influence on
    the result of another one. A batch normalization subtracts the mean of the batch: the derivatives of a differential
    equation, or the norm in a gradient penalty (Gulrajani et al. 2017,
    https://arxiv.org/abs/1704.00028, section 4), are then others than those of the function that is trained, often
    almost zero.

    Example
    -------
    net = torch.nn.Sequential(
        torch.nn.Linear(1, 8), torch.nn.BatchNorm1d(8), torch.nn.Tanh(), torch.nn.Linear(8, 1)
    )
    optimizer = torch.optim.Adam(net.parameters())
    for step in range(3):
        x = torch.rand(32, 1, requires_grad=True)
        u = net(x)
        du = torch.autograd.grad(u.sum(), x, create_graph=True)[0]
        loss = (du + u).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    net = torch.nn.Sequential(
        torch.nn.Linear(1, 8), torch.nn.LayerNorm(8), torch.nn.Tanh(), torch.nn.Linear(8, 1)
    )
    optimizer = torch.optim.Adam(net.parameters())
    for step in range(3):
        x = torch.rand(32, 1, requires_grad=True)
        u = net(x)
        du = torch.autograd.grad(u.sum(), x, create_graph=True)[0]
        loss = (du + u).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV629"
    name = "batch_norm_mixes_points"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        lines: dict[int | None, list[tuple[int, int, int | None]]] = defaultdict(list)
        for row in flow.rows_of_kind("backward"):
            call = flow.log.calls[row]
            if call.scalars.get("create_graph") is True and flow.is_by_program(call) and flow.has_step_after(row):
                for point in _points_of(flow, row, call):
                    lines[call.call_site].append((row, point, _mixing(flow, row, point)))
        told: set[object] = set()
        for asked in lines.values():
            mixed = [(row, point, mixing) for row, point, mixing in asked if mixing is not None]
            if len(mixed) < max(len(asked), _MIN_STEPS):
                continue
            finding = self._finding(case, *mixed[-1])
            if finding.location not in told:
                told.add(finding.location)
                yield finding
        for gradients in gradients_of_samples(case):
            yield self._of_samples(case, gradients)

    def _of_samples(self, case: Case, gradients: GradientsOfSamples) -> Finding:
        flow = case.dataflow
        location = location_of_line(line_of_layer(flow, gradients.layer))
        asked = location_of_call(flow, gradients.row)
        return self.finding(
            f"the gradient of the loss of each of {gradients.samples:,} samples is computed apart{at_line(asked)}, but "
            "a batch normalization has mixed them before: each contains the influence of the other samples",
            symptom="grad_wrong",
            why="the statistics of a batch depend on all its samples, so no loss is that of its own sample alone; "
            "clipping each gradient does not bound what one sample does",
            fix="use a normalization of each sample (LayerNorm, GroupNorm, InstanceNorm), or none",
            location=location,
            symptom_location=asked if asked != location else None,
            evidence={"samples": gradients.samples},
        )

    def _finding(self, case: Case, row: int, point: int, mixing: int) -> Finding:
        flow = case.dataflow
        call = flow.log.calls[mixing]
        is_layer = plain_name(call.function) == "batch_norm"
        what = "a batch normalization" if is_layer else f"{plain_name(call.function)}() over the batch"
        made = line_of_layer(flow, mixing) if is_layer else flow.line_of(mixing)
        location, asked = location_of_line(made), location_of_call(flow, row)
        count = shape_of(flow, point)[0]
        return self.finding(
            f"the derivative by {tensor_words(flow, point)} is taken for all {count:,} samples at once, and {what} on "
            "the way mixes them: the derivative of each contains its influence on the results of the others",
            symptom="grad_wrong",
            why="the gradient of a sum is the derivative of each result by its own sample only if samples do not meet",
            fix="use a normalization of each sample (LayerNorm, GroupNorm, InstanceNorm), or none",
            location=location,
            symptom_location=asked if asked != location else None,
            tensors=leaf_names_above(flow, flow.log.calls[row].roots[0].tensor, row, since=flow.step_before(row)),
        )


_MIN_STEPS = 2
_MAX_FOLLOWED = 600


def _points_of(flow: Dataflow, row: int, call: Call) -> Iterator[int]:
    """The samples by which the sum of the results of all of them is differentiated."""
    count = _samples_summed(flow, row, call)
    for use in call.asked if count is not None else ():
        is_data = flow.log.tensors[use.tensor].role == "tensor" and len(shape_of(flow, use.tensor)) >= _RANK
        if is_data and shape_of(flow, use.tensor)[0] == count:
            yield use.tensor


_RANK = 2


def _samples_summed(flow: Dataflow, row: int, call: Call) -> int | None:
    """How many results are added up: by ``sum()``, or by a gradient of ones."""
    roots = call.roots
    shape = shape_of(flow, roots[0].tensor) if len(roots) == 1 else ()
    if len(roots) == 1 and not shape:
        made = flow.newest_producer(roots[0].tensor, row)
        maker = None if made is None else flow.log.calls[made]
        is_sum = maker is not None and plain_name(maker.function) == "sum" and len(maker.inputs) == 1
        shape = shape_of(flow, maker.inputs[0].tensor) if maker is not None and is_sum else ()
    elif not any(_is_ones(flow, use.tensor, row) for use in call.inputs if use.place.startswith("gradient")):
        return None
    return shape[0] if shape and shape[0] > 1 else None


def _is_ones(flow: Dataflow, tensor: int, row: int) -> bool:
    values = flow.values(tensor, row)
    return values is not None and values.minimum == values.maximum == 1


def _mixing(flow: Dataflow, row: int, point: int) -> int | None:
    """The first call on the way from the samples to their results that mixes them, if all before it keep them apart."""
    count = shape_of(flow, point)[0]
    above = frozenset(each for root in flow.log.calls[row].roots for each in flow.ancestors(root.tensor, row))
    reached = {point}
    for user in flow.descendants(point, until=row, live=True)[:_MAX_FOLLOWED]:
        call = flow.log.calls[user]
        given = [use for use in call.inputs if use.tensor in reached]
        if not given or user not in above:
            continue
        if _normalizes_over_samples(flow, user, call, count, above):
            return user
        if plain_name(call.function) in _STATISTICS:
            continue
        if not _keeps_apart(flow, call, reached, count):
            return None
        reached.update(use.tensor for use in call.outputs)
    return None


_STATISTICS = frozenset({"mean", "std", "var"})
_DIVIDES = frozenset({"div", "add", "clamp", "sqrt", "clamp_min", "rsqrt", "mul"})
_PAIRS = frozenset({"cdist", "pdist", "index_select", "gather", "scatter", "scatter_add", "index_add", "cov"})
_WEIGHTED = frozenset({"linear", "matmul", "mm", "bmm", "addmm", "conv1d", "conv2d", "conv3d", "bilinear"})
_MAX_STEPS_TO_DIVISION = 4


def _normalizes_over_samples(flow: Dataflow, row: int, call: Call, count: int, above: frozenset[int]) -> bool:
    name, shape = plain_name(call.function), shape_of(flow, call.inputs[0].tensor)
    if shape[:1] != (count,):
        return False
    if name == "batch_norm":
        return call.scalars.get("training", call.scalars.get("5")) is True
    return name in ("std", "var") and axes_of(call, len(shape)) == [0] and _divides(flow, row, call, above)


def _divides(flow: Dataflow, row: int, call: Call, above: frozenset[int]) -> bool:
    """Whether samples are divided by a result, perhaps its root: other statistics of a batch may be meant as such."""
    tensor = call.outputs[0].tensor
    for _ in range(_MAX_STEPS_TO_DIVISION):
        users = [user for user in flow.users(tensor, row) if user in above]
        user = next(iter(users), None)
        if user is None or plain_name(flow.log.calls[user].function) not in _DIVIDES:
            return False
        later = flow.log.calls[user]
        if shape_of(flow, later.outputs[0].tensor) == shape_of(flow, call.inputs[0].tensor):
            return plain_name(later.function) in ("div", "mul")
        row, tensor = user, later.outputs[0].tensor
    return False


def _keeps_apart(flow: Dataflow, call: Call, reached: set[int], count: int) -> bool:
    """Whether each row of what a call returns depends only on the same row of what it takes."""
    name = plain_name(call.function)
    places = {use.place for use in call.inputs if use.tensor in reached}
    if name in _PAIRS or (name in _WEIGHTED and not places <= {"0", "input"}):
        return False
    if name == "getitem" and len(call.inputs) > 1:
        return False
    return all(shape_of(flow, use.tensor)[:1] == (count,) for use in call.outputs)
