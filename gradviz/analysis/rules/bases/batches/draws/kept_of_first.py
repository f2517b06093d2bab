"""What is computed from the values of one batch, a row for each sample, and meets other batches in later steps."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from heapq import heappop, heappush
from itertools import islice
from math import prod

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.axes import axes_of, axis_of
from gradviz.analysis.dataflow.broadcasts import Shape, shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow, passes_on
from gradviz.analysis.dataflow.einsum_equations import equation_of
from gradviz.analysis.rules.bases.losses.loss_arguments import LOSSES_BY_SAMPLE
from gradviz.graph.call_log import Call, TensorUse


class KeptOfFirst(Struct, frozen=True):
    """A tensor that one step made of its batch, and that later steps use with other batches."""

    made: int
    """The call that made it."""
    computed: int
    """The newest call above that changed values, and not only their places."""
    used: int
    """The first call that uses it with another batch."""
    shape: Shape
    steps: int
    """In how many later steps it is used."""


class _Meeting(Struct, frozen=True):
    """A call that takes something of what is kept, and something else with a row for each sample."""

    row: int
    place: str
    """Of what is kept."""
    other: TensorUse

    def key(self, flow: Dataflow) -> Hashable:
        return _place(flow, self.row), self.place, self.other.place


class _Reader(Struct, frozen=True):
    """Where data are read: the call of a line, and the place; None for the meeting itself."""

    key: Hashable | None
    place: str


_MIN_STEPS = 3
_MOST_STEPS = 10
"""Later steps that are looked at."""
_MOST_ABOVE = 300
_MOST_BELOW = 48
_MOST_USERS = 64
_MOST_CALLS = 20_000
"""Of a step that is looked at for its labels."""
_MANY = 8
_BOTH = 2
_COPIES = frozenset({
    "clone", "detach", "to", "contiguous", "view", "reshape", "float", "double", "half", "bfloat16", "cpu", "cuda",
    "unsqueeze", "squeeze", "flatten", "unflatten", "long", "int", "bool", "type", "type_as", "expand", "expand_as",
    "view_as", "reshape_as", "broadcast_to", "getitem", "transpose", "permute", "movedim", "narrow", "select", "chunk",
    "split", "unbind", "copy", "setitem", "requires_grad", "data", "repeat", "numpy", "from_numpy", "as_tensor",
    "tensor", "pin_memory", "stack", "cat",
})  # fmt: skip
"""What leaves the values as they are: a part of a batch, or a copy of one, is a sample to look at again."""
_SHAPE_OF_OTHERS = frozenset({
    "expand_as", "view_as", "reshape_as", "type_as", "to", "broadcast_tensors", "new_tensor", "bernoulli_like",
})  # fmt: skip
"""Of these, only the first input gives its values."""
_FACTORIES = frozenset({
    "arange", "ones", "zeros", "linspace", "full", "eye", "empty", "logspace", "ones_like", "zeros_like", "full_like",
    "empty_like", "new_zeros", "new_ones", "new_full", "new_empty",
})  # fmt: skip
_MIX_ROWS = frozenset({"cov", "corrcoef", "t", "T", "H", "adjoint", "randperm"})
_RANKS_OF_ONE = {"conv1d": 2, "conv2d": 3, "conv3d": 4}
"""Layers that take one sample without an axis for samples, and the number of axes that it then has."""
_OF_MATRICES = frozenset({
    "svd", "qr", "eigh", "eig", "eigvalsh", "eigvals", "inv", "pinv", "cholesky", "solve", "lstsq", "matrix_exp", "det",
    "inverse", "svdvals", "matrix_power", "slogdet", "lu_factor",
})  # fmt: skip
_ALONG = frozenset({
    "sum", "mean", "amax", "amin", "max", "min", "prod", "std", "var", "median", "argmax", "argmin", "sort", "argsort",
    "softmax", "log_softmax", "cumsum", "cumprod", "logsumexp", "any", "all", "diff", "count_nonzero", "nansum",
    "nanmean", "cummax", "cummin", "softmin", "std_mean", "var_mean", "aminmax", "logcumsumexp", "unique",
})  # fmt: skip
_AXIS_SECOND = frozenset({"topk", "kthvalue", "norm", "quantile", "normalize", "vector_norm", "renorm"})
"""Of these, the axis is the third argument."""
_ORDERS = frozenset({"sort", "topk", "msort"})
_PRODUCTS = frozenset({"matmul", "mm", "addmm", "rmatmul"})
_ELEMENTWISE = LOSSES_BY_SAMPLE | frozenset({
    "add", "sub", "mul", "div", "where", "masked_fill", "lerp", "addcmul", "minimum", "maximum", "pow", "eq", "ne",
    "lt", "le", "gt", "ge", "logical_and", "logical_or", "bitwise_and", "bitwise_or", "and", "or", "xor", "gather",
    "take_along_dim", "scatter", "scatter_add", "scatter_reduce", "index_add", "masked_select", "masked_scatter",
    "kl_div", "cosine_similarity", "fmod", "remainder", "atan2",
})  # fmt: skip
_TAKE_ONE = frozenset({"unbind", "iter", "getitem", "select"})
_JOINS = frozenset({"cat", "concat", "stack", "hstack"})
_BY_INDEX = frozenset({"getitem", "setitem", "index_select", "index_put", "take"})
_COMPARES = LOSSES_BY_SAMPLE | frozenset({"sub", "kl_div"})
_BATCHED = frozenset({
    "bmm", "baddbmm", "matmul", "scaled_dot_product_attention", "grid_sample", "multi_head_attention_forward",
})  # fmt: skip


def kept_of_first(case: Case) -> Iterator[KeptOfFirst]:
    """One for each line that computes what is kept."""
    flow = case.dataflow
    told = set[int | None]()
    for tensor, made, steps in _kept(flow) if len(flow.rows_of_kind("step")) >= _MIN_STEPS else ():
        if flow.log.calls[made].call_site in told or _is_made_anew(flow, tensor, made):
            continue
        found = _met_others(flow, tensor, made, steps)
        if found is not None:
            told.add(flow.log.calls[made].call_site)
            yield found


def _kept(flow: Dataflow) -> Iterator[tuple[int, int, list[int]]]:
    """Tensors that are made in one step and used in this one and several later ones: with the call that made them, and
    the later steps."""
    for number, tensor in enumerate(flow.log.tensors):
        shape = shape_of(flow, number)
        if tensor.role == "parameter" or tensor.requires_grad or not shape or shape[0] < _BOTH:
            continue
        users = flow.users(number)
        if len(users) <= _MIN_STEPS:
            continue
        made = flow.newest_producer(number, users[-1])
        if made is None or flow.log.calls[made].live_inputs:
            continue
        own = flow.step_before(made)
        later = sorted({step for row in users if row > made and (step := flow.step_before(row)) > own})
        if len(later) >= _MIN_STEPS:
            yield number, made, later


def _is_made_anew(flow: Dataflow, tensor: int, made: int) -> bool:
    """Whether its line makes such a tensor in another step as well: one for each batch, or for each episode. What
    ``setdefault()`` is given is made at each step, and nothing uses it."""
    shape, own, place = shape_of(flow, tensor), flow.step_before(made), _place(flow, made)
    return any(
        flow.step_before(row) != own
        and _place(flow, row) == place
        and any(
            shape_of(flow, use.tensor) == shape and flow.users(use.tensor, row) for use in flow.log.calls[row].outputs
        )
        for row in flow.rows_of_function(flow.log.calls[made].function)
    )


def _place(flow: Dataflow, row: int) -> Hashable:
    """The line of a call and its function, from wherever the line was reached."""
    line = flow.line_of(row)
    return flow.log.calls[row].function, None if line is None else (line.file, line.line)


def _met_others(flow: Dataflow, tensor: int, made: int, steps: list[int]) -> KeptOfFirst | None:
    """Whether what meets it in later steps was made of other samples than those it was computed from."""
    size = shape_of(flow, tensor)[0]
    own = flow.step_before(made)
    until = flow.next_of_kind("step", made)
    sources = _sources(flow, tensor, made, size)
    later: dict[int, dict[Hashable, _Meeting]] | None = None
    roots: frozenset[int] | None = None
    is_of_samples = bool(sources) and not _is_axis_of_features(flow, own, until, size)
    for meeting in _meetings(flow, tensor, made, until, size) if is_of_samples else ():
        found = _read_by(flow, tensor, meeting, own, sources)
        if found is None:
            continue
        source, row, reader = found
        if later is None:
            later = {step: _meetings_of_step(flow, tensor, step, size) for step in steps[:_MOST_STEPS]}
        roots = frozenset({*_roots(flow, source.tensor, row, tensor, size), tensor})
        facts, others, looked = _facts(flow, source, row), list[int](), 0
        labels = _labels(flow, tensor, made)
        for step, of_step in later.items():
            again = of_step.get(meeting.key(flow))
            data = None if again is None else _data_of(flow, tensor, again, step, reader)
            if again is None or data is None or facts is None:
                continue
            looked += 1
            is_same = not roots.isdisjoint(_roots(flow, data[0].tensor, data[1], tensor, size))
            is_same |= not labels.isdisjoint(_labels(flow, tensor, again.row))
            now = _facts(flow, *data)
            others += [again.row] if not is_same and now is not None and now != facts else []
        if len(others) >= _MIN_STEPS and len(others) * _BOTH > looked:
            return KeptOfFirst(made, sources[source.tensor], others[0], shape_of(flow, tensor), len(steps))
    return None


# -- what it was computed from -----------------------------------------------------------------------------------------


def _sources(flow: Dataflow, tensor: int, made: int, size: int) -> dict[int, int]:
    """The tensors of whose values it was computed in its step, row by row and without parameters: each with the newest
    call between that computes something."""
    own, known = flow.step_before(made), dict[int, int | None]()
    waiting: list[tuple[int, int, int | None]] = [(made, tensor, None)]
    count = 0
    while waiting and count < _MOST_ABOVE:
        row, given, computed = waiting.pop()
        count += 1
        call = flow.log.calls[row]
        if not _gives_values(flow, call, given):
            continue
        name = plain_name(call.function)
        if name == "stack":
            known |= _taken_one_by_one(flow, call, row, size)
        computed = row if computed is None and name not in _COPIES else computed
        for use in _inputs_by_value(call, given):
            is_known = use.tensor in known and (known[use.tensor] is not None or computed is None)
            if is_known or not _keeps_rows(flow, call, name, use, given, size):
                continue
            known[use.tensor] = computed
            above = flow.newest_producer(use.tensor, row)
            if above is not None and above > own:
                waiting.append((above, use.tensor, computed))
    return {each: row for each, row in known.items() if row is not None}


def _taken_one_by_one(flow: Dataflow, stack: Call, row: int, size: int) -> dict[int, int | None]:
    """The tensor of whose single rows a call puts together what was computed of each: with the call that did so."""
    if len(stack.inputs) != size or axes_of(stack, _BOTH) not in ([], [0]):
        return {}

    def onward(call: Call) -> tuple[TensorUse, ...]:
        is_network = bool(call.live_inputs) or any(_is_parameter(flow, use) for use in call.inputs)
        return () if is_network else _inputs_by_value(call)

    computed = None
    for made, call in flow.makers_above(stack.inputs[0].tensor, row, _MOST_ABOVE, onward):
        is_one = plain_name(call.function) in _TAKE_ONE and len(call.inputs) == 1
        whole = shape_of(flow, call.inputs[0].tensor) if is_one else ()
        if whole[:1] == (size,) and whole[1:] == shape_of(flow, call.outputs[0].tensor):
            return {call.inputs[0].tensor: computed}
        computed = made if computed is None and plain_name(call.function) not in _COPIES else computed
    return {}


def _gives_values(flow: Dataflow, call: Call, given: int) -> bool:
    """Whether a call computes something from values that differ between samples, and no network does so."""
    if not passes_on(call) or call.kind == "backward" or call.live_inputs:
        return False
    if any(flow.log.tensors[use.tensor].role == "parameter" for use in call.inputs):
        return False
    out = next((use for use in call.outputs if use.tensor == given), None)
    values = None if out is None else out.values
    return values is None or not (values.equal_rows or values.minimum == values.maximum)


def _inputs_by_value(call: Call, given: int = -1) -> tuple[TensorUse, ...]:
    """The inputs on whose values the results of a call depend."""
    if not passes_on(call) or plain_name(call.function) in _FACTORIES:
        return ()
    name = plain_name(call.function)
    inputs = call.inputs[:1] if name in _SHAPE_OF_OTHERS else call.inputs
    return tuple(use for use in inputs if use.tensor != given)


def _keeps_rows(flow: Dataflow, call: Call, name: str, use: TensorUse, made: int, size: int) -> bool:
    """Whether each row of a result is of the sample that has this row of an input."""
    given, result = shape_of(flow, use.tensor), shape_of(flow, made)
    if given[:1] != (size,) or result[:1] != (size,) or name in _MIX_ROWS:
        return False
    if name == "einsum":
        return _first_letter_stays(call, use)
    if name in _PRODUCTS or name in _OF_MATRICES:
        return len(given) > _BOTH or (name in _PRODUCTS and use is call.inputs[0])
    if name == "cdist":
        return len(given) > _BOTH or use is call.inputs[0]
    if name == "stack":
        return axes_of(call, len(result))[:1] not in ([], [0])
    if name in ("getitem", "index_select", "take") and use is call.inputs[0]:
        is_of_rows = len(call.inputs) == _BOTH and call.inputs[1].place in ("1", "1[0]")
        return not is_of_rows and (name == "getitem" or 0 not in axes_of(call, len(given)))
    if name in ("flip", "roll", "transpose", "permute", "movedim", "swapaxes"):
        told = axes_of(call, len(given)) + _second_axis(call, len(given))
        return told[:1] == [0] if name == "permute" else bool(told) and 0 not in told
    if name in _ORDERS and len(given) == 1 and "int" not in flow.log.tensors[made].facts.dtype:
        return False  # the numbers in another order, as for a distance of two distributions
    if name in _AXIS_SECOND:
        axis = axis_of(call, len(given), "2")
        return len(given) == 1 or axis != 0
    return len(given) == 1 or name not in _ALONG or 0 not in axes_of(call, len(given))


def _second_axis(call: Call, rank: int) -> list[int]:
    second = call.scalars.get("2", call.scalars.get("dim1"))
    return [second % rank] if type(second) is int else []


def _is_axis_of_features(flow: Dataflow, first: int, last: int, size: int) -> bool:
    """Whether a network of the step sums over a first axis of as many: that of features, or of the channels of one
    sample, for which what is fitted to the first sample may be kept."""
    for row in range(first, min(last, first + _MOST_CALLS)):
        call = flow.log.calls[row]
        if len(call.inputs) < _BOTH:
            continue
        name = plain_name(call.function)
        use, weight = (call.inputs[1], call.inputs[0]) if name in _PRODUCTS else call.inputs[:_BOTH]
        given, rank = shape_of(flow, use.tensor), _RANKS_OF_ONE.get(name, _BOTH if name in _PRODUCTS else 0)
        if rank and len(given) == rank and given[0] == size and _is_parameter(flow, weight):
            return True
    return False


def _first_letter_stays(call: Call, use: TensorUse) -> bool:
    equation = equation_of(call)
    places = [each is use for each in call.inputs]
    if not equation.is_plain or len(places) != len(equation.terms):
        return False
    return equation.terms[places.index(True)][:1] == equation.result[:1]


# -- what it meets -----------------------------------------------------------------------------------------------------


def _meetings_of_step(flow: Dataflow, tensor: int, step: int, size: int) -> dict[Hashable, _Meeting]:
    """Of a later step, the first meeting of each line."""
    found = dict[Hashable, _Meeting]()
    for each in _meetings(flow, tensor, step, flow.next_of_kind("step", step), size):
        found.setdefault(each.key(flow), each)
    return found


def _meetings(flow: Dataflow, tensor: int, after: int, until: int, size: int) -> Iterator[_Meeting]:
    """Calls after one row and before another where what is kept, or what is made of it alone, meets something else."""
    reached, waiting = {tensor}, list[int]()
    _add_users(flow, waiting, tensor, after, until)
    seen, last = 0, -1
    while waiting and seen < _MOST_BELOW:
        row = heappop(waiting)
        if row == last:
            continue
        last, seen = row, seen + 1
        call = flow.log.calls[row]
        if not passes_on(call) or call.kind != "operation":
            continue
        own = [use for use in call.inputs if use.tensor in reached]
        rest = [use for use in call.inputs if use.tensor not in reached and not _is_parameter(flow, use)]
        pairs = [(use, other) for use in own for other in rest if _is_row_by_row(flow, call, use, other, size)]
        yield from (_Meeting(row, use.place, other) for use, other in pairs)
        is_mixed = bool(rest) and not pairs and plain_name(call.function) in _BY_INDEX | _PRODUCTS
        if is_mixed or any(use.requires_grad for use in rest):
            continue
        for out in call.outputs:
            if out.tensor not in reached and _has_rows(shape_of(flow, out.tensor), size):
                reached.add(out.tensor)
                _add_users(flow, waiting, out.tensor, row, until)


def _add_users(flow: Dataflow, waiting: list[int], tensor: int, after: int, until: int) -> None:
    users: Iterable[int] = (row for row in flow.users(tensor, after) if row < until)
    for row in islice(users, _MOST_USERS):
        heappush(waiting, row)


def _is_parameter(flow: Dataflow, use: TensorUse) -> bool:
    return flow.log.tensors[use.tensor].role == "parameter"


def _has_rows(shape: Shape, size: int) -> bool:
    """Whether the first axis is that of the samples, perhaps with others in one."""
    return bool(shape) and shape[0] >= size and shape[0] % size == 0


def _is_row_by_row(flow: Dataflow, call: Call, use: TensorUse, other: TensorUse, size: int) -> bool:
    """Whether a call combines each sample of one tensor with the same one of another."""
    name, given, met = plain_name(call.function), shape_of(flow, use.tensor), shape_of(flow, other.tensor)
    if not _has_rows(given, size) or not _has_rows(met, size) or use is other:
        return False
    if name in _BY_INDEX:
        if use is call.inputs[0] or other is not call.inputs[0]:
            return False
        is_number = len(call.inputs) == _BOTH and flow.log.tensors[use.tensor].facts.dtype != "bool"
        # A table of which each row names several others is that of the nodes of a graph. One axis is an order of the
        # samples, or has the points of all of them.
        return (len(given) == 1 or not is_number) and (given[0] == met[0] or prod(given) == given[0] > size)
    if given[0] != met[0]:
        return False
    if name in _BATCHED:
        return min(len(given), len(met)) > _BOTH
    if name == "einsum":
        return _first_letter_stays(call, use) and _first_letter_stays(call, other)
    if name in _JOINS:
        axes = axes_of(call, max(len(given), len(met)))
        return len(given) == len(met) and bool(axes) and axes[0] != 0
    if name == "cdist":
        return len(given) > _BOTH
    return name in _ELEMENTWISE and (len(given) == len(met) or name not in ("add", "sub", "mul", "div", "where"))


# -- of which data that is ---------------------------------------------------------------------------------------------


def _read_by(
    flow: Dataflow, tensor: int, meeting: _Meeting, own: int, sources: dict[int, int]
) -> tuple[TensorUse, int, _Reader] | None:
    """The newest data of which both are computed: as one call received them, with its row, and where that is."""
    if meeting.other.tensor in sources and not meeting.other.requires_grad:
        return meeting.other, meeting.row, _Reader(None, meeting.other.place)
    reads: dict[int, tuple[int, TensorUse]] = {}
    for row, call in sorted(_above(flow, meeting.other.tensor, meeting.row, tensor, own), reverse=True, key=_by_row):
        reads |= {use.tensor: (row, use) for use in _inputs_by_value(call) if use.tensor in sources}
    reads = {each: found for each, found in reads.items() if not found[1].requires_grad}
    if not reads:
        return None
    row, use = reads[max(reads, key=lambda each: (_since(flow, each), each))]
    return use, row, _Reader(_place(flow, row), use.place)


def _by_row(found: tuple[int, Call]) -> int:
    return found[0]


def _since(flow: Dataflow, tensor: int) -> int:
    made = flow.first_producer(tensor, len(flow.log.calls))
    return made if made is not None else flow.log.tensors[tensor].first_seen or -1


def _data_of(
    flow: Dataflow, tensor: int, meeting: _Meeting, step: int, reader: _Reader
) -> tuple[TensorUse, int] | None:
    """The data of another step that have the same part in what is met there."""
    if reader.key is None:
        return meeting.other, meeting.row
    found = [
        (row, use)
        for row, call in _above(flow, meeting.other.tensor, meeting.row, tensor, step)
        if _place(flow, row) == reader.key
        for use in call.inputs
        if use.place == reader.place
    ]
    row, use = min(found, key=lambda each: each[0], default=(0, None))
    return None if use is None else (use, row)


def _above(flow: Dataflow, tensor: int, row: int, kept: int, since: int) -> list[tuple[int, Call]]:
    """The calls of one step that computed a tensor, without what is above the kept one."""
    found = list[tuple[int, Call]]()

    def onward(call: Call) -> Iterator[TensorUse]:
        if found and found[-1][1] is call:
            yield from (use for use in _inputs_by_value(call) if use.tensor != kept and not _is_parameter(flow, use))

    for each in flow.makers_above(tensor, row, _MOST_ABOVE, onward):
        if each[0] > since:
            found.append(each)
    return found


def _roots(flow: Dataflow, tensor: int, row: int, kept: int, size: int) -> Iterator[int]:
    """A tensor and all above with as many rows, of any step: the same samples, moved or changed at random."""
    yield tensor

    def onward(call: Call) -> tuple[TensorUse, ...]:
        return () if any(use.tensor == kept for use in call.outputs) else _inputs_by_value(call)

    for _, call in flow.makers_above(tensor, row, _MOST_ABOVE, onward):
        for use in _inputs_by_value(call):
            made = flow.first_producer(use.tensor, row)
            is_factory = made is not None and not flow.log.calls[made].inputs and _is_factory(flow.log.calls[made])
            if not is_factory and not _is_parameter(flow, use) and shape_of(flow, use.tensor)[:1] == (size,):
                yield use.tensor


def _is_factory(call: Call) -> bool:
    return plain_name(call.function) in _FACTORIES


def _labels(flow: Dataflow, tensor: int, row: int) -> frozenset[Hashable]:
    """What losses of the step of a call compare results with: the same for the same samples, which may have noise."""
    found = set[Hashable]()
    first, last = flow.step_before(row), flow.next_of_kind("step", row)
    for each in range(first, last if last - first < _MOST_CALLS else first):
        call = flow.log.calls[each]
        target = call.inputs[1] if plain_name(call.function) in _COMPARES and len(call.inputs) == _BOTH else None
        if target is None or target.requires_grad or not call.inputs[0].requires_grad:
            continue
        # Many batches have the same numbers of classes: of those, a checksum has to be known.
        is_known = target.place in call.checksums or "int" not in flow.log.tensors[target.tensor].facts.dtype
        above = {maker for maker, _ in flow.makers(target.tensor, each, _MANY)}
        is_kept = not above.isdisjoint(flow.producers(tensor))
        if is_known and not is_kept and prod(shape_of(flow, target.tensor)) >= _MANY:
            found.add(_facts(flow, target, each))
    return frozenset(found - {None})


def _facts(flow: Dataflow, use: TensorUse, row: int) -> Hashable:
    """What tells data from others; None where all their elements, or all their rows, are the same."""
    values = flow.values_of(use, row)
    if values is None or values.minimum == values.maximum or values.equal_rows:
        return None
    return values, flow.log.calls[row].checksums.get(use.place)
