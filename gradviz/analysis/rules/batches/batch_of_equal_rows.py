"""GV654."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import call_words, location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.batches.batch_lines import CARRY, DRAWS
from gradviz.analysis.rules.bases.batches.equal_rows import (
    Origin,
    line_of_equal_rows,
    origin_of_equal_rows,
    stacks_of_few_arrays,
)
from gradviz.analysis.rules.bases.batches.stored_batches import line_that_stores
from gradviz.analysis.rules.bases.copies.equal_parts import joint_of_equal_parts, were_different
from gradviz.analysis.rules.bases.sources.shared_arrays import line_that_returns_own
from gradviz.graph.call_log import Call, TensorUse


class BatchOfEqualRows(Rule):
    """All samples of a batch are the same sample, though their targets differ.

    What it finds
    -------------
    A batch that ``stack()``, ``cat()``, ``tensor()``, NumPy or a data loader puts together, with the same numbers in
    all rows at nearly every step, which is all that a trained model gets, while targets, rewards or actions differ from
    row to row. Constants, rows that the program repeats with ``expand()`` or ``repeat()``, and batches whose targets
    are the same as well, as in a test on one sample, are left alone. Also batches of several parts, such as episodes,
    with the same numbers in all rows of each part, if the program shows why: samples that differed until another sample
    was written into their memory, or an environment that returns its own array and changes it in place.

    Why it matters
    --------------
    A memory that stores an array which the environment then changes in place has the newest state everywhere; a data
    set that ignores its index has one sample. The model can only learn the average of the targets.

    Example
    -------
    state, memory = torch.zeros(4), []
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(8):
        for _ in range(8):
            state += torch.randn(4)
            memory.append((state, state.sum().item()))
        states = torch.stack([each for each, _ in memory[-8:]])
        targets = torch.tensor([[target] for _, target in memory[-8:]])
        loss = torch.nn.functional.mse_loss(model(states), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    state, memory = torch.zeros(4), []
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(8):
        for _ in range(8):
            state += torch.randn(4)
            memory.append((state.clone(), state.sum().item()))
        states = torch.stack([each for each, _ in memory[-8:]])
        targets = torch.tensor([[target] for _, target in memory[-8:]])
        loss = torch.nn.functional.mse_loss(model(states), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV654"
    name = "batch_of_equal_rows"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        told = set[Location | None]()
        for rows in _first_layers(flow):
            equal = [(row, use) for row in rows if (use := _batch(flow, row, equal=True)) is not None]
            count = len({use.tensor for _, use in equal})
            if count < _MIN_STEPS or len(equal) < _MIN_SHARE * len(rows):
                continue
            origins = [origin_of_equal_rows(flow, row, use.tensor) for row, use in equal[-_LOOKED_AT:]]
            if not all(origin.is_put_together for origin in origins):
                continue
            varied = [_varied_beside(case, row, use) for row, use in equal[-_LOOKED_AT:]]
            origin = next((each for each in reversed(origins) if each.row is not None), origins[-1])
            if all(each is not None for each in varied):
                finding = self._finding(case, equal[-1], origin, varied[-1], len(equal))
                if finding.location not in told:
                    told.add(finding.location)
                    yield finding

        yield from self._of_parts(case, told)
        yield from self._of_arrays(case, told)

    def _of_arrays(self, case: Case, told: set[Location | None]) -> Iterator[Finding]:
        """The findings about samples that were stored as the memory of an array which an environment goes on changing,
        before any batch is taken from them."""
        flow = case.dataflow
        own = line_that_returns_own(case)
        for row, arrays in stacks_of_few_arrays(flow) if own is not None else ():
            location, made = line_of_equal_rows(case, row) or own, location_of_call(flow, row)
            if location not in told and _trains(flow, row):
                told.add(location)
                count = len(flow.log.calls[row].inputs)
                memory = "one array" if arrays == 1 else f"{arrays:,} arrays"
                yield self.finding(
                    f"{call_words(flow.log.calls[row])} got {count:,} samples that have the memory of {memory}: all "
                    "samples of an array are the same, the last one",
                    symptom="grad_wrong",
                    why=_NO_COPY,
                    fix=_COPY_EACH,
                    location=location,
                    symptom_location=made if made != location else None,
                    evidence={"samples": count, "arrays": arrays},
                )

    def _of_parts(self, case: Case, told: set[Location | None]) -> Iterator[Finding]:
        """The findings about batches of several parts."""
        flow = case.dataflow
        for rows in _layers(flow).values():
            batches = [(row, use.tensor) for row in rows if (use := _batch(flow, row, least=1)) is not None]
            joints = [(row, joint) for row, tensor in batches if (joint := joint_of_equal_parts(flow, tensor, row))]
            found = [(row, part) for row, joint in joints if (part := _shared_part(case, joint)) is not None]
            if len({part for _, part in found}) < _MIN_STEPS or len(joints) < _MIN_SHARE * len(batches):
                continue
            row, part = found[-1]
            made, used = location_of_call(flow, part), location_of_call(flow, row)
            lines = (line_of_equal_rows(case, each) for _, each in reversed(found))
            location = next((line for line in lines if line), None) or line_that_returns_own(case) or made
            if location not in told:
                told.add(location)
                yield self.finding(
                    f"all rows of each part of a batch are the same at {len(joints):,} steps, such as all observations "
                    "of an episode: they are one array, which was changed in place after each was stored",
                    symptom="grad_wrong",
                    why=_NO_COPY,
                    fix=_COPY_EACH,
                    location=location,
                    symptom_location=made if made != location else used,
                    evidence={"steps": len(joints)},
                )

    def _finding(
        self, case: Case, last: tuple[int, TensorUse], origin: Origin, varied: int | None, steps: int
    ) -> Finding:
        flow = case.dataflow
        row, use = last
        size = shape_of(flow, use.tensor)[0]
        made = None if origin.row is None else location_of_call(flow, origin.row)
        used = location_of_call(flow, row)
        found = line_that_stores(case, used) if origin.row is None else line_of_equal_rows(case, origin.row)
        if found is None and any(stacked == origin.row for stacked, _ in stacks_of_few_arrays(flow)):
            found = line_that_returns_own(case)
        location = found or made or used
        beside = "the targets" if varied is None else case.tensor_name(varied)
        symptom = made if made is not None and made != location else used
        name = case.tensor_name(use.tensor)
        return self.finding(
            f"at {steps:,} steps all {size:,} rows of {name} are the same, while {beside} differs from row to row: "
            "the batch is one sample",
            symptom="grad_wrong",
            why="usual reasons are a memory that holds one array which is changed in place later, and a data set that "
            "ignores its index",
            fix="store a copy of each sample: state.copy() of an array, state.clone() of a tensor; or take the sample "
            "that the index means",
            location=location,
            symptom_location=symptom if symptom != location else None,
            evidence={"rows": size, "steps": steps},
        )


_NO_COPY = (
    "as_tensor() and from_numpy() do not copy, so what is stored changes with the array that an environment returns"
)
_COPY_EACH = (
    "store a copy of each sample: state.copy() of an array, state.clone() of a tensor; or return one where the "
    "environment hands out its own array"
)
_MIN_STEPS = 3
_MIN_SHARE = 0.8
_MIN_ROWS = 4
_LOOKED_AT = 5
"""Steps of a line whose batches are traced back."""
_FIRST = frozenset({
    "linear", "matmul", "mm", "addmm", "bmm", "einsum", "conv1d", "conv2d", "conv3d", "layer_norm", "batch_norm",
    "embedding", "lstm", "gru", "rnn_tanh", "rnn_relu",
})  # fmt: skip


def _trains(flow: Dataflow, row: int) -> bool:
    """Whether something with gradients is computed from what a call returns."""
    calls = flow.log.calls
    made = (use.tensor for use in calls[row].outputs)
    return any(calls[each].live_inputs for tensor in made for each in flow.descendants(tensor, row))


# -- what trained layers get -------------------------------------------------------------------------------------------


def _first_layers(flow: Dataflow) -> Iterator[list[int]]:
    """By line: the calls of layers with parameters on a batch of data, in code that trains; where rows are equal."""
    for rows in _layers(flow).values():
        if any(_batch(flow, row, equal=True) is not None for row in rows):
            yield [row for row in rows if _batch(flow, row) is not None]


def _layers(flow: Dataflow) -> dict[tuple[int | None, int | None], list[int]]:
    """By line and parameter: the calls of layers with parameters on data, in code that trains."""
    lines: dict[tuple[int | None, int | None], list[int]] = defaultdict(list)
    for row, call in enumerate(flow.log.calls):
        if _is_layer(flow, call) and call.live_inputs and flow.has_step_after(row):
            lines[call.call_site, _parameter(flow, call)].append(row)
    return lines


def _shared_part(case: Case, joint: int) -> int | None:
    """The call that put a part with equal rows together, if its samples share a memory that changes."""
    flow = case.dataflow
    for use in case.dataflow.log.calls[joint].inputs:
        origin = origin_of_equal_rows(flow, joint, use.tensor)
        if origin.row is not None and origin.is_put_together:
            is_handed_out = len({each.tensor for each in flow.log.calls[origin.row].inputs}) != 1
            if were_different(flow, origin.row) or (is_handed_out and line_that_returns_own(case) is not None):
                return origin.row
    return None


def _is_layer(flow: Dataflow, call: Call) -> bool:
    is_layer = call.kind == "operation" and plain_name(call.function) in _FIRST and call.grad_mode == "enabled"
    return is_layer and any(not use.requires_grad for use in call.inputs) and _parameter(flow, call) is not None


def _parameter(flow: Dataflow, call: Call) -> int | None:
    return next((use.tensor for use in call.inputs if flow.log.tensors[use.tensor].role == "parameter"), None)


def _batch(flow: Dataflow, row: int, *, equal: bool = False, least: int = _MIN_ROWS) -> TensorUse | None:
    """The data that a layer gets: four rows or more that are not all one number.

    Args:
        equal: only data whose rows are all the same.
        least: another number of rows.
    """
    for use in flow.log.calls[row].inputs:
        shape = shape_of(flow, use.tensor)
        if use.requires_grad or not shape or shape[0] < least or flow.log.tensors[use.tensor].role != "tensor":
            continue
        values = flow.values_of(use, row)
        if values is not None and values.minimum != values.maximum and (values.equal_rows or not equal):
            return use
    return None


# -- what differs from row to row --------------------------------------------------------------------------------------

_COMPARE = frozenset({
    "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "cross_entropy", "nll_loss", "binary_cross_entropy",
    "binary_cross_entropy_with_logits", "sub", "mul", "gather", "getitem", "kl_div", "gaussian_nll_loss", "hinge_loss",
})  # fmt: skip
_NOISE = DRAWS | {"randn", "rand", "randn_like", "rand_like", "normal", "bernoulli", "uniform", "arange", "exponential"}


def _varied_beside(case: Case, row: int, batch: TensorUse) -> int | None:
    """Data of the same samples, different from row to row, which the loss compares with what becomes of a batch.

    None also where another layer gets data of these samples that differs: then the model does not see one sample only.
    And where the same layer goes on with what was computed of it, as a simulation does that begins with the same state.
    """
    flow = case.dataflow
    backward = case.histories.backward_after(row)
    size = shape_of(flow, batch.tensor)[0]
    if backward is None or _sees_more(flow, row, size, backward):
        return None
    for each in flow.descendants(batch.tensor, row - 1, backward):
        call = flow.log.calls[each]
        varied = _varied_of(flow, each, size) if call.live_inputs and plain_name(call.function) in _COMPARE else None
        if varied is not None:
            return varied
    return None


def _sees_more(flow: Dataflow, row: int, size: int, backward: int) -> bool:
    """Whether another layer of this step gets data of as many samples that differ."""
    rows = range(flow.step_before(row), backward)
    layer = _parameter(flow, flow.log.calls[row])
    users = flow.users(layer, row) if layer is not None else ()
    if any(_takes_a_state(flow, flow.log.calls[each], size) for each in users if each < backward):
        return True
    return any(
        _is_layer(flow, flow.log.calls[each]) and _varied_of(flow, each, size, noise=True) is not None for each in rows
    )


def _takes_a_state(flow: Dataflow, call: Call, size: int) -> bool:
    """Whether a layer gets as many samples with a history of their own."""
    return plain_name(call.function) in _FIRST and any(
        use.has_grad_fn and shape_of(flow, use.tensor)[:1] == (size,) for use in call.inputs
    )


def _varied_of(flow: Dataflow, row: int, size: int, *, noise: bool = False) -> int | None:
    """Data of so many samples that a call gets, and that differs from row to row; numbers drawn at random if wanted."""
    for use in flow.log.calls[row].inputs:
        is_data = not use.requires_grad and flow.log.tensors[use.tensor].role == "tensor"
        if is_data and shape_of(flow, use.tensor)[:1] == (size,) and _differs(flow, row, use):
            return use.tensor if noise or not _is_noise(flow, row, use.tensor) else None
    return None


def _differs(flow: Dataflow, row: int, use: TensorUse) -> bool:
    """Whether the rows of data are not all the same."""
    values = flow.values_of(use, row)
    return values is not None and values.minimum != values.maximum and not values.equal_rows


def _is_noise(flow: Dataflow, row: int, tensor: int) -> bool:
    names = [plain_name(call.function) for _, call in flow.makers(tensor, row, _MAX_CARRIED)]
    return next((name for name in names if name not in CARRY), "") in _NOISE


_MAX_CARRIED = 8
