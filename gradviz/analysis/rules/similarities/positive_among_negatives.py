"""GV627."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import calls_named, location_of_call, plain_name
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.loss_arguments import value_maker
from gradviz.graph.call_log import Call, TensorUse


class PositiveAmongNegatives(Rule):
    """The positive key of a contrastive loss is written into the memory bank before the negatives are read from it.

    What it finds
    -------------
    Logits that are put together from one column for the positive and the columns of a bank, where the key of the
    positive was written into the bank in the same step, before the product with the bank, and where nothing masks it.
    Also sums of their exponentials: ``logaddexp(positive, negatives.logsumexp(1))``.

    Why it matters
    --------------
    The same key stands in the row twice, once as the right answer and once as a wrong one. The loss pushes each sample
    away from its own positive, and cannot fall below log 2.

    Example
    -------
    query, key = torch.nn.Linear(6, 4), torch.nn.Linear(6, 4).requires_grad_(False)
    bank = torch.randn(16, 4)
    optimizer = torch.optim.SGD(query.parameters(), lr=0.1)
    for step in range(4):
        x = torch.randn(4, 6)
        q, k = query(x), key(x)
        bank[step * 4 : step * 4 + 4] = k
        positive, negatives = (q * k).sum(1, keepdim=True), q @ bank.clone().t()
        logits = torch.cat([positive, negatives], dim=1)
        loss = torch.nn.functional.cross_entropy(logits, torch.zeros(4, dtype=torch.long))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    query, key = torch.nn.Linear(6, 4), torch.nn.Linear(6, 4).requires_grad_(False)
    bank = torch.randn(16, 4)
    optimizer = torch.optim.SGD(query.parameters(), lr=0.1)
    for step in range(4):
        x = torch.randn(4, 6)
        q, k = query(x), key(x)
        positive, negatives = (q * k).sum(1, keepdim=True), q @ bank.clone().t()
        logits = torch.cat([positive, negatives], dim=1)
        loss = torch.nn.functional.cross_entropy(logits, torch.zeros(4, dtype=torch.long))
        bank[step * 4 : step * 4 + 4] = k
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV627"
    name = "positive_among_negatives"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        told: set[int | None] = set()
        for row, call in calls_named(flow, _JOINS):
            if call.call_site in told:
                continue
            if len(call.inputs) != _PARTS or not all(use.requires_grad for use in call.inputs):
                continue
            is_sum = plain_name(call.function) not in _PUT_SIDE_BY_SIDE
            written = _written_before(case, row, call, is_sum=is_sum)
            if written is not None and flow.has_step_after(row) and (is_sum or _are_logits(case, row, call)):
                told.add(call.call_site)
                yield self._finding(case, row, *written)

    def _finding(self, case: Case, row: int, write: int, read: int) -> Finding:
        flow = case.dataflow
        location, product = location_of_call(flow, write), location_of_call(flow, read)
        bank = case.tensor_name(flow.log.calls[write].inputs[0].tensor)
        negatives = f"line {product.line}" if product is not None else "the product"
        return self.finding(
            f"the keys are written into {bank} before {negatives} reads the negatives from it: each positive is among "
            "its own negatives",
            symptom="grad_wrong",
            why="the same key is the right answer in one column and a wrong one in another",
            fix="write the keys into the bank after the logits are computed",
            location=location,
            symptom_location=product if product != location else location_of_call(flow, row),
        )


_PARTS = 2
_PUT_SIDE_BY_SIDE = frozenset({"cat", "concat", "hstack"})
_JOINS = _PUT_SIDE_BY_SIDE | {"logaddexp", "add"}
_SUMS_OF_SCORES = frozenset({"logsumexp", "exp", "sum", "log"})
_PRODUCTS = frozenset({"matmul", "mm", "einsum", "linear", "bmm"})
_VIEWS = frozenset({
    "t", "T", "mT", "transpose", "permute", "detach", "data", "clone", "contiguous", "view", "reshape", "to", "getitem",
})  # fmt: skip
_SCALES = frozenset({"div", "mul"}) | _VIEWS
_POSITIVE = _VIEWS | {
    "sum", "mul", "einsum", "unsqueeze", "bmm", "squeeze", "div", "cosine_similarity", "vecdot", "exp", "matmul",
}  # fmt: skip
_LOSSES = frozenset({"cross_entropy", "nll_loss", "log_softmax", "logsumexp", "softmax"})
_WRITES = frozenset({"setitem", "copy", "index_copy", "scatter", "index_put", "set"})
_MAX_FOLLOWED = 12


def _written_before(case: Case, row: int, call: Call, *, is_sum: bool) -> tuple[int, int] | None:
    """The write of the positive's key into the bank, and the product that reads the bank afterwards.

    Args:
        is_sum: whether the scores were exponentiated and added up, instead of put side by side.
    """
    flow = case.dataflow
    for positive, negative in (call.inputs, call.inputs[::-1]) if is_sum else (call.inputs,):
        if not is_sum and shape_of(flow, positive.tensor)[-1:] != (1,):
            continue
        if plain_name(call.function) == "add" and not _is_exponential(case, positive, row):
            continue  # logsumexp(bank) - positive is right: the bank should hold the positive
        read = _product_above(case, negative, row, is_sum=is_sum)
        found = None if read is None else _write_of_keys(case, positive, row, read)
        if read is not None and found is not None:
            return found, read
    return None


def _is_exponential(case: Case, use: TensorUse, row: int) -> bool:
    made = value_maker(case.dataflow, use.tensor, row)
    return made is not None and plain_name(made[1].function) == "exp"


def _write_of_keys(case: Case, positive: TensorUse, row: int, read: int) -> int | None:
    """The write of the positive's key into the bank, before a product reads the bank."""
    flow = case.dataflow
    keys = _keys_of(case, positive.tensor, row)
    since = flow.step_before(row)
    for use in flow.log.calls[read].inputs:
        bank, taken = _source(case, use.tensor, read)
        if use.requires_grad or bank in keys:
            continue
        for write in flow.changes(bank, since, taken):
            change = flow.log.calls[write]
            given = {_source(case, each.tensor, write)[0] for each in change.inputs[1:]}
            if plain_name(change.function) in _WRITES and not keys.isdisjoint(given):
                return write
    return None


def _product_above(case: Case, use: TensorUse, row: int, *, is_sum: bool) -> int | None:
    """The matrix product that made the negatives, if nothing but factors and views came after it."""
    flow, tensor, sums = case.dataflow, use.tensor, set[str]()
    for _ in range(_MAX_FOLLOWED):
        made = flow.producers(tensor, row)
        if not made or len(made) > 1:
            return None  # something was written into it: a mask
        row = made[-1]
        call = flow.log.calls[row]
        name = plain_name(call.function)
        if name in _PRODUCTS:
            return row if not is_sum or "logsumexp" in sums or {"exp", "sum"} <= sums else None
        if is_sum and name in _SUMS_OF_SCORES:
            sums.add(name)
        elif name not in _SCALES or len(call.inputs) != 1:
            return None
        tensor = call.inputs[0].tensor
    return None


def _source(case: Case, tensor: int, row: int) -> tuple[int, int]:
    """The tensor whose values it has, and the call that read them."""
    flow = case.dataflow
    for _ in range(_MAX_FOLLOWED):
        made = flow.producers(tensor, row)
        call = flow.log.calls[made[0]] if made else None
        if call is None or plain_name(call.function) not in _VIEWS or not call.inputs:
            break
        shares = flow.log.tensors[call.inputs[0].tensor].storage == flow.log.tensors[tensor].storage
        tensor, row = call.inputs[0].tensor, row if shares else made[0]
    return tensor, row


def _keys_of(case: Case, tensor: int, row: int) -> set[int]:
    """The constants from which a positive was computed with a query."""
    flow = case.dataflow
    waiting, found, seen = [(tensor, row)], set[int](), set[int]()
    while waiting and len(seen) < _MAX_FOLLOWED:
        tensor, row = waiting.pop()
        made = flow.producers(tensor, row)
        call = flow.log.calls[made[-1]] if made else None
        if call is None or made[-1] in seen or plain_name(call.function) not in _POSITIVE:
            continue
        seen.add(made[-1])
        found |= {_source(case, use.tensor, made[-1])[0] for use in call.inputs if not use.requires_grad}
        waiting += [(use.tensor, made[-1]) for use in call.inputs if use.requires_grad]
    return found


def _are_logits(case: Case, row: int, call: Call) -> bool:
    """Whether a loss takes them, with nothing but factors in between: no mask."""
    flow, tensor = case.dataflow, call.outputs[0].tensor
    for _ in range(_MAX_FOLLOWED):
        users = [each for each in flow.users(tensor, row) if flow.log.calls[each].outputs]
        users = [each for each in users if flow.log.calls[each].outputs[0].requires_grad]
        if not users:
            return False
        row = users[0]
        name = plain_name(flow.log.calls[row].function)
        if name in _LOSSES:
            return True
        if name not in _SCALES:
            return False
        tensor = flow.log.calls[row].outputs[0].tensor
    return False
