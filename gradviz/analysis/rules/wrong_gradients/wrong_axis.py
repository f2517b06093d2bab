"""GV615."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.axes import End, axis_of, ends_of_axes
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import at_line, location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.einsum_equations import equation_of
from gradviz.analysis.dataflow.tensor_words import leaf_names_above
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.evaluations.choices_across_samples import choices_across_samples
from gradviz.analysis.rules.bases.losses.class_axes import classes_of_divergence
from gradviz.analysis.rules.bases.losses.targets.totals_of_scores import totals_beside_choices
from gradviz.analysis.rules.bases.sequences.attention.normalized_scores import normalized_axis, words_of_normalizer
from gradviz.analysis.rules.bases.sequences.transition_tables import tables_summed_over_their_own_axis
from gradviz.graph.call_log import Call


class WrongAxis(Rule):
    """Values are normalized over one axis, and used as if it had been another one.

    What it finds
    -------------
    A softmax over one axis, also by its formula, whose result is then used as probabilities or weights along another
    one, and never along its own: a categorical distribution, a loss with classes, attention weights that a matrix
    product or an ``einsum`` sums over the other of two positions, weights over the first axis whose products are summed
    over another one, also by ``bmm()`` row by row, a divergence of scores of which a ``cross_entropy`` or an ``argmax``
    takes the classes along another axis. And vectors that ``normalize()`` scales over the first axis, before products
    over the last one that should be cosines. A softmax over one axis of a map, of which sums over both axes are taken
    as its margins: the sum over its own axis is 1 everywhere, whatever the map. Also ``logsumexp()`` of scores over the
    samples, beside one score of each that ``gather()`` takes along another axis. And a softmax over the samples of an
    evaluation, of which ``argmax()`` chooses among the classes what is compared with labels. Likewise a table of
    log-probabilities of the next state that the forward recursion of a hidden Markov model sums over its own axis.

    Why it matters
    --------------
    Nothing raises. Samples of a batch, or queries, then share one sum of 1 and compete with each other, and what should
    sum to 1 does not. The model trains, and stays bad.

    Example
    -------
    key, value = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD([*key.parameters(), *value.parameters()], lr=0.1)
    for step in range(3):
        x = torch.randn(2, 5, 4)
        scores = x @ key(x).transpose(1, 2)
        attention = torch.softmax(scores, dim=1)
        loss = (attention @ value(x) - x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    key, value = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD([*key.parameters(), *value.parameters()], lr=0.1)
    for step in range(3):
        x = torch.randn(2, 5, 4)
        scores = x @ key(x).transpose(1, 2)
        attention = torch.softmax(scores, dim=2)
        loss = (attention @ value(x) - x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV615"
    name = "wrong_axis"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        seen, told = set[tuple[int | None, int]](), set[int]()
        for row, call in enumerate(flow.log.calls):
            axis = normalized_axis(flow, row, call) if call.live_inputs else None
            rank = len(shape_of(flow, call.outputs[0].tensor)) if axis is not None else 0
            place = call.call_site, rank
            if rank < 2 or axis is None or place in seen or not flow.has_step_after(row):
                continue
            backward = case.histories.backward_after(row)
            if backward is None:
                break
            seen.add(place)
            margins = _margins(case, row, call, axis, backward)
            if margins is not None and margins[0].call not in told:
                told.add(margins[0].call)
                yield self._of_margins(case, row, axis, *margins)
                continue
            end = _use_along_another(case, row, call, axis, backward)
            if end is not None and end.call not in told:
                told.add(end.call)
                yield self._finding(case, row, axis, end)
        yield from self._of_transitions(case)
        for normalized, chosen in choices_across_samples(flow):
            yield self._of_choice(flow, normalized, chosen)
        for total, chosen in totals_beside_choices(case):
            yield self._of_total(flow, total, chosen)

    def _of_total(self, flow: Dataflow, total: int, chosen: int) -> Finding:
        """``logsumexp(scores, 0) - scores.gather(1, actions)``."""
        call, taken = flow.log.calls[total], flow.log.calls[chosen]
        shape = shape_of(flow, call.inputs[0].tensor)
        axis, other = axis_of(call, len(shape)), axis_of(taken, len(shape))
        location, used = location_of_call(flow, total), location_of_call(flow, chosen)
        return self.finding(
            f"logsumexp() adds up axis {axis} of {_shape(shape)}, but{at_line(used)} one score of each row is chosen "
            f"along axis {other}",
            symptom="grad_wrong",
            why="the difference of the two is a log-probability only if both are over the same choices; like this, the "
            "samples of a batch compete with each other",
            fix=f"add up the choices: logsumexp(scores, dim={other})",
            location=location,
            symptom_location=used if used != location else None,
            evidence={"shape": _shape(shape), "axis": axis or 0, "used_along": other or 0},
        )

    def _of_choice(self, flow: Dataflow, row: int, chosen: int) -> Finding:
        """``softmax(scores, 0).argmax(1) == labels``."""
        location, used = location_of_call(flow, row), location_of_call(flow, chosen)
        shape = shape_of(flow, flow.log.calls[row].inputs[0].tensor)
        return self.finding(
            f"softmax normalizes over axis 0 of {_shape(shape)}, the samples, and{at_line(used)} the best class of "
            "each is chosen along axis 1",
            symptom="none",
            why="each class then has a sum of 1 over the samples that happen to be scored together: which class is the "
            "largest depends on the other samples",
            fix="normalize along the classes: softmax(scores, dim=1)",
            location=location,
            symptom_location=used if used != location else None,
            evidence={"shape": _shape(shape), "axis": 0, "used_along": 1},
        )

    def _of_transitions(self, case: Case) -> Iterator[Finding]:
        """Of tables of the next state, one for each line."""
        flow = case.dataflow
        lines = {
            location_of_call(flow, table.made): (table, row) for table, row in tables_summed_over_their_own_axis(flow)
        }
        for location, (table, row) in lines.items():
            used, other = location_of_call(flow, row), 1 - table.axis
            yield self.finding(
                f"a table of {table.size} by {table.size} is normalized over axis {table.axis}, and the recursion"
                f"{at_line(used)} sums over the same axis: what follows a state does not add up to 1",
                symptom="grad_wrong",
                why="the recursion sums over the states before, so the probabilities of the next state given each of "
                "them lie along the other axis",
                fix=f"normalize the table over axis {other}: log_softmax(table, dim={other})",
                location=location,
                symptom_location=used if used != location else None,
                tensors=leaf_names_above(
                    flow,
                    flow.log.calls[table.made].outputs[0].tensor,
                    table.made + 1,
                    since=flow.step_before(table.made),
                ),
                evidence={"axis": table.axis, "used_along": table.axis},
            )

    def _of_margins(self, case: Case, row: int, axis: int, own: End, end: End) -> Finding:
        flow = case.dataflow
        call = flow.log.calls[row]
        made, rank = call.outputs[0].tensor, len(shape_of(flow, call.outputs[0].tensor))
        location, constant = location_of_call(flow, row), location_of_call(flow, own.call)
        other = min(end.axes)
        return self.finding(
            f"{words_of_normalizer(call)} normalizes over axis {axis} of {_shape(shape_of(flow, made))} alone, and "
            f"sums over axis {other} and over axis {axis} are taken of it: the one over axis {axis}{at_line(constant)} "
            "is 1 everywhere",
            symptom="grad_wrong",
            why="a map whose margins are taken adds up to 1 over both axes; here each position of the other axis has a "
            "sum of 1 of its own, and no gradient reaches the map through the constant sum",
            fix=f"normalize over both axes together: softmax(map.flatten({min(axis, other) - rank}), -1).view_as(map)",
            location=location,
            symptom_location=constant if constant != location else None,
            tensors=leaf_names_above(flow, made, row + 1, since=flow.step_before(row)),
            evidence={"axis": axis, "used_along": other},
        )

    def _finding(self, case: Case, row: int, axis: int, end: End) -> Finding:
        flow = case.dataflow
        call = flow.log.calls[row]
        shape = shape_of(flow, call.outputs[0].tensor)
        other, used = min(end.axes), location_of_call(flow, end.call)
        words = words_of_normalizer(call)
        use = "vectors are multiplied along" if words == "normalize()" else _USES[end.kind]
        return self.finding(
            f"{words} normalizes over axis {axis} of {_shape(shape)}, but{at_line(used)} {use} axis {other}",
            symptom="grad_wrong",
            why=f"only along axis {axis} do they sum to 1: along axis {other} they do not, and the positions of axis "
            f"{axis} (samples, queries) compete with each other"
            if words != "normalize()"
            else f"each vector along axis {other} keeps its length, so these products are no cosines, and the other "
            "samples decide on their scale",
            fix=f"normalize along the axis in which the result is used: dim={other - len(shape)}",
            location=location_of_call(flow, row),
            symptom_location=used if used != location_of_call(flow, row) else None,
            tensors=leaf_names_above(flow, call.outputs[0].tensor, row + 1, since=flow.step_before(row)),
            evidence={"shape": _shape(shape), "axis": axis, "used_along": other},
        )


_USES: dict[str, str] = {
    "contracted": "a matrix product sums over",
    "summed": "what it weighs is summed over",
    "drawn": "values are drawn along",
    "classes": "the classes are taken along",
}


def _shape(shape: tuple[int, ...]) -> str:
    return f"({', '.join(map(str, shape))})"


def _margins(case: Case, row: int, call: Call, axis: int, backward: int) -> tuple[End, End] | None:
    """A sum over the axis of a softmax, and one over the axis next to it, both of which the loss uses as they are."""
    flow = case.dataflow
    if plain_name(call.function) != "softmax":
        return None
    sums = [end for end in ends_of_axes(flow, row, call.outputs[0].tensor, backward) if _is_plain_sum(flow, end)]
    own = next((end for end in sums if end.axes == {axis}), None)
    other = next((end for end in sums if end.axes in ({axis - 1}, {axis + 1})), None)
    return None if own is None or other is None else (own, other)


def _is_plain_sum(flow: Dataflow, end: End) -> bool:
    """Whether weights are only added up, and something other than a division uses the sum."""
    call = flow.log.calls[end.call]
    is_sum = end.kind == "summed" and plain_name(call.function) == "sum" and not (end.is_weighed or end.is_divided)
    users = [flow.log.calls[each] for each in flow.users(call.outputs[0].tensor, end.call)] if is_sum else []
    used = [user for user in users if any(use.requires_grad for use in user.outputs)]
    return bool(used) and all(plain_name(user.function) not in ("div", "sub") for user in used)


def _use_along_another(case: Case, row: int, call: Call, axis: int, backward: int) -> End | None:
    """The call that uses a result along another axis; None if one uses it along its own, or if it may be meant."""
    flow = case.dataflow
    ends = list(ends_of_axes(flow, row, call.outputs[0].tensor, backward))
    if any(axis in end.axes for end in ends):
        return None
    ends = [end for end in ends if end.axes]
    if plain_name(call.function) == "normalize":
        return next((end for end in ends if axis == 0 and _is_product_of_such(case, end)), None)
    for end in ends:
        if end.kind in ("drawn", "classes"):
            return end
        last = len(shape_of(flow, call.outputs[0].tensor)) - 1
        is_of_positions = end.axes == {last}
        if end.kind == "contracted" and is_of_positions and not end.is_divided and _is_attention(case, row, call):
            return end
        if end.kind == "contracted" and axis == 0 and not end.is_divided and _is_of_each_sample(case, row, end):
            return end
        if end.kind == "summed" and axis == 0 and end.is_weighed and not end.is_divided:
            return end
    return classes_of_divergence(flow, row, call, axis)


def _is_attention(case: Case, row: int, call: Call) -> bool:
    """Whether the scores are products of two tensors that are no parameters: then their axes are positions, where the
    last axis of what a layer returns has features or clusters."""
    flow = case.dataflow
    for _, maker in flow.makers(call.inputs[0].tensor, row, _MAX_ARITHMETIC):
        name = plain_name(maker.function)
        if name in ("matmul", "bmm", "mm") or (name == "einsum" and len(maker.inputs) > 1):
            return all(flow.log.tensors[use.tensor].role != "parameter" for use in maker.inputs[:2])
        if name not in _SCALE:
            return False
    return False


def _is_of_each_sample(case: Case, row: int, end: End) -> bool:
    """Whether a product takes the rows of two tensors together, as ``einsum("np,npd->nd")`` and ``bmm`` do, of weights
    with one row for each. What divides the result may be the sum of these weights."""
    flow = case.dataflow
    call, made = flow.log.calls[end.call], flow.log.calls[row].outputs[0].tensor
    result = call.outputs[0].tensor
    if plain_name(call.function) == "einsum":
        first = {term[:1] for term in (*equation_of(call).terms, equation_of(call).result)}
        is_together = len(first) == 1 and "" not in first
    else:
        is_together = all(len(shape_of(flow, use.tensor)) == 3 for use in call.inputs[:2])
    firsts = {shape_of(flow, each)[:1] for each in (made, *(use.tensor for use in call.inputs[:2]), result)}
    users = (flow.log.calls[each] for each in flow.users(result, end.call))
    return is_together and len(firsts) == 1 and not any(plain_name(user.function) == "div" for user in users)


_MAX_ARITHMETIC = 6
_SCALE = frozenset({"mul", "div", "add", "sub", "masked_fill", "where", "dropout", "float", "to", "exp"})


def _is_product_of_such(case: Case, end: End) -> bool:
    """Whether a matrix product is one of two tensors that were both normalized over their first axis."""
    flow = case.dataflow
    if end.kind != "contracted":
        return False
    for use in flow.log.calls[end.call].inputs[:2]:
        row, tensor = end.call, use.tensor
        made = flow.producers(tensor, row)
        if made and plain_name(flow.log.calls[made[-1]].function) in ("t", "T", "mT", "transpose"):
            row = made[-1]
            made = flow.producers(flow.log.calls[row].inputs[0].tensor, row)
        maker = flow.log.calls[made[-1]] if made else None
        if maker is None or plain_name(maker.function) != "normalize" or maker.scalars.get("dim") != 0:
            return False
    return True
