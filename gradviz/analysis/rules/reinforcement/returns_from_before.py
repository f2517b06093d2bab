"""GV696."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import call_words, location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.objectives import has_line_with
from gradviz.analysis.rules.bases.losses.rewards import grows_with_rewards
from gradviz.analysis.rules.bases.sequences.forward_sums import ForwardSum, forward_sums, sums_left_reversed
from gradviz.analysis.rules.bases.sequences.past_sums import past_sums
from gradviz.graph.call_log import Call


class ReturnsFromBefore(Rule):
    """The return of each action sums up the rewards before it, or is that of another action.

    What it finds
    -------------
    A loop ``for r in rewards: R = r + gamma * R; returns.append(R)`` that goes from the first reward to the last, in a
    program that draws actions and weighs their log-probabilities with what the loop has made; or one that sums up
    ``delta = r + gamma * next_value - value`` in that order for advantages. Also a loop through ``reversed(rewards)``
    that appends its sums to a list, where no line of the program turns anything around again. The weights may be what
    the sums exceed the answers of a critic by, detached. The same of whole sequences: the lower half of a matrix of
    discounts times the rewards, or ``cumsum()`` of them.

    Why it matters
    --------------
    An action cannot have caused the rewards before it. Its return is the sum of those that follow, which is computed
    from the end of the episode on. A list that is made in this order begins with the return of the last action.

    Example
    -------
    policy = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(policy.parameters(), lr=0.01)
    for episode in range(3):
        distribution = torch.distributions.Categorical(logits=policy(torch.randn(6, 4)))
        action = distribution.sample()
        rewards, returns, R = action.tolist(), [], 0.0
        for r in rewards:
            R = r + 0.9 * R
            returns.append(R)
        loss = -(distribution.log_prob(action) * torch.tensor(returns)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    policy = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(policy.parameters(), lr=0.01)
    for episode in range(3):
        distribution = torch.distributions.Categorical(logits=policy(torch.randn(6, 4)))
        action = distribution.sample()
        rewards, returns, R = action.tolist(), [], 0.0
        for r in reversed(rewards):
            R = r + 0.9 * R
            returns.insert(0, R)
        loss = -(distribution.log_prob(action) * torch.tensor(returns)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV696"
    name = "returns_from_before"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        if not has_line_with(case, _LOG_PROBABILITIES) or not _draws_actions(case.dataflow):
            return
        for file, lines in case.capture.sources.items():
            for found in forward_sums(lines):
                used = _weighs_at(case, file, found)
                if used is not None and not _learns_the_discount(case.dataflow, file, found):
                    yield self._finding(file, found, used)
            for found in sums_left_reversed(lines):
                used = _weighs_at(case, file, found)
                if used is not None:
                    yield self._of_reversed(Location(file, _line_of_append(lines, found)), found, used)
        yield from self._of_calls(case)

    def _of_calls(self, case: Case) -> Iterator[Finding]:
        """What a product with a triangular matrix, or ``cumsum()``, has made of whole sequences of rewards."""
        flow, told = case.dataflow, set[Location | None]()
        for found in past_sums(flow):
            if not found.is_by_matrix and not grows_with_rewards(flow, found.summed.tensor, found.row, short=True):
                continue
            if _is_taken_away(flow, found.row):
                continue
            location = location_of_call(flow, found.made)
            product = _product_with(flow, found.row) if flow.has_step_after(found.row) else None
            if product is None or location in told:
                continue
            told.add(location)
            used = location_of_call(flow, product)
            how = "keeps the half of the matrix with the steps before each" if found.is_by_matrix else "begins in front"
            yield self.finding(
                "each action is weighed with the rewards up to it, and with none of those that follow: "
                f"{call_words(flow.log.calls[found.made])} {how}",
                symptom="grad_wrong",
                why="an action has no influence on the rewards before it, so that the gradient is mostly noise",
                fix="take the other half: triu() in front of the rewards, tril() behind them"
                if found.is_by_matrix
                else "add up from the end: rewards.flip(1).cumsum(1).flip(1)",
                location=location,
                symptom_location=used if used != location else None,
            )

    def _of_reversed(self, location: Location, found: ForwardSum, used: Location) -> Finding:
        return self.finding(
            f"{found.sums} begins with the return of the last action: the loop goes through {found.rewards} and "
            "appends each sum, and nothing turns the list around",
            symptom="grad_wrong",
            why="the first action is weighed with the return of the last one, and the last with that of the first",
            fix=f"put each sum in front, {found.sums}.insert(0, R), or turn the list around after the loop: "
            f"{found.sums}.reverse()",
            location=location,
            symptom_location=used if used != location else None,
        )

    def _finding(self, file: str, found: ForwardSum, used: Location) -> Finding:
        return self.finding(
            f"{found.sums} gives each action the discounted rewards up to it, and none of those that follow: the loop "
            f"goes through {found.rewards} from the first to the last",
            symptom="grad_wrong",
            why="an action has no influence on the rewards before it, so that the gradient is mostly noise",
            fix=f"go from the end to the beginning, for ... in reversed(...), and put each sum in front: "
            f"{found.sums}.insert(0, R)",
            location=Location(file, found.line),
            symptom_location=used if used.line != found.line else None,
        )


_LOG_PROBABILITIES = re.compile(r"log_?p|log_softmax|logprob|cross_entropy|nll", re.IGNORECASE)
_DRAWS = frozenset({"multinomial", "normal", "bernoulli", "rand", "gumbel_softmax"})
_WEIGHS = frozenset({"mul", "dot", "einsum", "inner", "vdot", "vecdot"})
_COMPARES = frozenset({"sub", "add"})
_ROWS = frozenset({"getitem", "index_select"})
_CUTS = _ROWS | {"detach", "squeeze", "view", "reshape", "flatten", "unsqueeze"}
_MAX_FOLLOWED = 60
_LINES_OF_A_LOOP = 4


def _is_taken_away(flow: Dataflow, row: int) -> bool:
    """Whether a program takes a result away from another one: the sum of all rewards less those before."""
    result = flow.log.calls[row].outputs[0].tensor
    users = (flow.log.calls[user] for user in flow.users(result, row))
    return any(
        plain_name(call.function) == "sub" and len(call.inputs) > 1 and call.inputs[1].tensor == result
        for call in users
    )


def _line_of_append(lines: dict[int, str], found: ForwardSum) -> int:
    loop = range(found.line, found.last_line + 1)
    return next((number for number in loop if f"{found.sums}.append(" in lines[number]), found.line)


def _draws_actions(flow: Dataflow) -> bool:
    """Whether it draws from a distribution that it has computed; to fill a weight is none."""
    return any(plain_name(call.function) in _DRAWS and call.inputs and not call.changed for call in flow.log.calls)


def _learns_the_discount(flow: Dataflow, file: str, found: ForwardSum) -> bool:
    """Whether the loop multiplies what it keeps by something that is computed with parameters, too: the state of a
    model, which sees the past only."""
    loop = range(found.line, found.last_line + 1)
    products = (row for row, call in enumerate(flow.log.calls) if plain_name(call.function) in _WEIGHS)
    lines = (location_of_call(flow, row) for row in products if len(flow.log.calls[row].live_inputs) > 1)
    return any(line is not None and line.file == file and line.line in loop for line in lines)


def _weighs_at(case: Case, file: str, found: ForwardSum) -> Location | None:
    """The first line that multiplies what a loop has made with something that has a gradient."""
    flow = case.dataflow
    lines = _lines_with(case.capture.sources[file], found)
    for row, call in enumerate(flow.log.calls):
        location = location_of_call(flow, row) if call.kind == "operation" and call.outputs else None
        is_there = location is not None and location.file == file and location.line in lines
        if not is_there or location is None or not flow.has_step_after(row):
            continue
        if plain_name(call.function) == "mul" and call.live_inputs:
            return location
        is_pair = plain_name(call.function) in _COMPARES and len(call.live_inputs) == 1 < len(call.inputs)
        product = _product_with(flow, row) if is_pair or not call.live_inputs else None
        if product is not None:
            return location_of_call(flow, product)
    return None


def _lines_with(lines: dict[int, str], found: ForwardSum) -> set[int]:
    """The lines that name the sums, or what the function around the loop returns, and those of loops through them."""
    names = {found.sums}
    if found.function is not None:
        call = re.compile(rf"(\w+)\s*=.*\b{re.escape(found.function)}\(")
        names |= {found.function, *(each.group(1) for text in lines.values() if (each := call.search(text)))}
    mentions = re.compile(rf"\b({'|'.join(map(re.escape, sorted(names)))})\b")
    named = [
        number
        for number, text in lines.items()
        if mentions.search(text.partition("#")[0]) and not found.line <= number <= found.last_line
    ]
    loops = (number for number in named if lines[number].lstrip().startswith("for "))
    return {*named, *(number + offset for number in loops for offset in range(_LINES_OF_A_LOOP))}


def _product_with(flow: Dataflow, row: int) -> int | None:
    """The product with something that has a gradient into which the elements of a call's result go, one by one: also
    where values with a gradient are subtracted from them, and the difference is detached."""
    waiting = [(use.tensor, row) for use in flow.log.calls[row].outputs]
    seen = {tensor for tensor, _ in waiting}
    while waiting and len(seen) < _MAX_FOLLOWED:
        tensor, after = waiting.pop()
        for user in flow.users(tensor, after):
            call = flow.log.calls[user]
            name = plain_name(call.function)
            is_live = any(use.tensor == tensor and use.requires_grad for use in call.inputs)
            if call.live_inputs and not is_live and name in _WEIGHS:
                return user
            if (call.live_inputs and name not in _COMPARES and not is_live) or (is_live and name not in _CUTS):
                continue
            for use in call.outputs:
                is_smaller = _count(flow, use.tensor) != _count(flow, tensor)
                if is_smaller == _takes_rows(call) and use.tensor not in seen:
                    seen.add(use.tensor)
                    waiting.append((use.tensor, user))
    return None


def _takes_rows(call: Call) -> bool:
    """Whether a tensor of indices picks elements: those of a batch, or all of them in another order."""
    return plain_name(call.function) in _ROWS and len(call.inputs) > 1


def _count(flow: Dataflow, tensor: int) -> int:
    count = 1
    for size in shape_of(flow, tensor):
        count *= size
    return count
