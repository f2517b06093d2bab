"""GV655."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import at_line, call_words, calls_named, location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.tensor_words import axes_words, leaf_names_above
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.vector_lengths import Scaled, factors, foreign_lengths, scaled_above
from gradviz.graph.call_log import TensorUse


class NoUnitVectors(Rule):
    """Vectors are divided by a length that is not their own, before products that should be cosines.

    What it finds
    -------------
    A product of two tensors that were both divided by Euclidean norms (``normalize()``, ``x / x.norm()``, or by hand),
    where a norm was taken over another axis than the one that the product sums over: ``normalize()`` works along axis 1
    unless told otherwise, which is the axis of tokens in a batch of sequences. Also a norm of a whole batch before
    similarities of its samples, vectors that are divided by the norms of those with which they are compared, and norms
    over the samples before distances (``cdist()``, ``triplet_margin_loss()``).

    Why it matters
    --------------
    The products are no cosines: long vectors count more, what a temperature or a margin means depends on the size of
    the batch, and each similarity depends on other samples or tokens.

    Example
    -------
    encoder = torch.nn.Linear(6, 4)
    optimizer = torch.optim.SGD(encoder.parameters(), lr=0.1)
    x = torch.randn(16, 6)
    for step in range(3):
        a, b = encoder(x), encoder(x + 0.1 * torch.randn(16, 6))
        a, b = a / a.norm(), b / b.norm()
        loss = torch.nn.functional.cross_entropy(a @ b.t() / 0.1, torch.arange(16))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    encoder = torch.nn.Linear(6, 4)
    optimizer = torch.optim.SGD(encoder.parameters(), lr=0.1)
    x = torch.randn(16, 6)
    for step in range(3):
        a, b = encoder(x), encoder(x + 0.1 * torch.randn(16, 6))
        a, b = a / a.norm(dim=-1, keepdim=True), b / b.norm(dim=-1, keepdim=True)
        loss = torch.nn.functional.cross_entropy(a @ b.t() / 0.1, torch.arange(16))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV655"
    name = "no_unit_vectors"
    severity = "warning"
    yields_to = ("wrong_axis",)

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        seen, told = set[int | None](), set[int | None]()
        for row, call in calls_named(flow, _PRODUCTS | _DISTANCES):
            if not call.live_inputs or call.call_site in seen:
                continue
            if call.kind != "operation" or not flow.has_step_after(row):
                continue
            seen.add(call.call_site)
            foreign = foreign_lengths(flow, row)
            if foreign is not None and _is_of_networks(flow, foreign) and _is_of_similarities(flow, row):
                yield self._of_others(case, row, *foreign)
                continue
            wrong = _wrongly_scaled(flow, row)
            site = None if wrong is None else flow.log.calls[wrong.row].call_site
            if wrong is not None and site not in told:
                told.add(site)
                yield self._finding(case, row, wrong)

    def _of_others(self, case: Case, row: int, wrong: int, right: int) -> Finding:
        flow = case.dataflow
        location, used = location_of_call(flow, wrong), location_of_call(flow, row)
        made = flow.log.calls[wrong].outputs[0].tensor
        return self.finding(
            f"vectors are divided by the lengths of other vectors, those{at_line(location_of_call(flow, right))}, and "
            f"the product{at_line(used)} takes both as if their lengths were 1",
            symptom="grad_wrong",
            why="the products are no cosines: vectors that are longer than their partners count for more",
            fix="take the length of each vector by itself: F.normalize(x, dim=-1)",
            location=location,
            symptom_location=used if used != location else None,
            tensors=leaf_names_above(flow, made, wrong + 1, since=flow.step_before(wrong)),
        )

    def _finding(self, case: Case, row: int, scaled: Scaled) -> Finding:
        flow = case.dataflow
        call, call_used = flow.log.calls[scaled.row], flow.log.calls[row]
        shape = shape_of(flow, call.outputs[0].tensor)
        location, used = location_of_call(flow, scaled.row), location_of_call(flow, row)
        words = f"{call_words(call)} scales" if plain_name(call.function) == "normalize" else "the norm is taken"
        axes = sorted(scaled.axes)
        over = "all of" if len(axes) == sum(size > 1 for size in shape) else axes_words(axes) + " of"
        where = "" if used == location else at_line(used)
        is_distance = plain_name(call_used.function) in _DISTANCES
        met = f"the distances{where} are of vectors along" if is_distance else f"the product{where} sums over"
        return self.finding(
            f"{words} over {over} ({', '.join(map(str, shape))}), but {met} axis {scaled.axis}",
            symptom="grad_wrong",
            why=f"the vectors along axis {scaled.axis} have other lengths than 1, so the "
            f"{'distances have no bound' if is_distance else 'products are no cosines'}, and "
            "other samples or positions decide on their scale",
            fix=f"take the length of each vector by itself: F.normalize(x, dim={scaled.axis - len(shape)}), or "
            f"x / x.norm(dim={scaled.axis - len(shape)}, keepdim=True)",
            location=location,
            symptom_location=used if used != location else None,
            tensors=leaf_names_above(flow, call.outputs[0].tensor, scaled.row + 1, since=flow.step_before(scaled.row)),
            evidence={"summed_over": scaled.axis, "norm_over": ", ".join(map(str, axes))},
        )


_PRODUCTS = frozenset({"matmul", "mm", "bmm", "linear", "einsum", "sum", "vecdot"})
_DISTANCES = frozenset({"cdist", "pairwise_distance", "triplet_margin_loss"})


def _wrongly_scaled(flow: Dataflow, row: int) -> Scaled | None:
    """The division by a wrong length above one of two factors, if both are divided by lengths."""
    pair = _compared(flow, row)
    scaled = [found for use, axis in pair if (found := scaled_above(flow, row, use, axis)) is not None]
    wrong = [each for each in scaled if not each.is_of_each and each.axes and _is_computed_and_wide(flow, each)]
    if len(scaled) != _BOTH or not wrong:
        return None
    is_shared = all(each.axis in each.axes for each in wrong)
    if is_shared and not (0 in wrong[0].axes and wrong[0].axis != 0 and _is_of_similarities(flow, row)):
        return None
    return wrong[0]


_BOTH = 2
_MAX_USES = 40


def _compared(flow: Dataflow, row: int) -> tuple[tuple[TensorUse, int], ...]:
    """The two tensors of a product, or of distances, each with the axis along which their vectors lie."""
    call = flow.log.calls[row]
    if plain_name(call.function) not in _DISTANCES:
        return factors(flow, row, call)
    return tuple((use, len(shape_of(flow, use.tensor)) - 1) for use in call.inputs[:_BOTH])


def _is_of_networks(flow: Dataflow, rows: tuple[int, int]) -> bool:
    """Whether both kinds of vectors were computed, with a gradient."""
    return all(any(use.has_grad_fn for use in flow.log.calls[row].inputs) for row in rows)


def _is_computed_and_wide(flow: Dataflow, scaled: Scaled) -> bool:
    """Whether a network computed the vectors, and the product sums over several numbers of each, not over samples."""
    call = flow.log.calls[scaled.row]
    return scaled.axis > 0 and call.inputs[0].has_grad_fn and shape_of(flow, call.outputs[0].tensor)[scaled.axis] > 1


def _is_of_similarities(flow: Dataflow, row: int) -> bool:
    """Whether the products of samples are compared: a kernel of a whole data set is scaled as a whole on purpose."""
    call = flow.log.calls[row]
    given, made = (len(shape_of(flow, use.tensor)) for use in (call.inputs[0], call.outputs[0]))
    name = plain_name(call.function)
    if name in ("sum", "vecdot", "triplet_margin_loss") or (name == "einsum" and made < given):
        return True  # one product of each pair
    after = flow.descendants(flow.log.calls[row].outputs[0].tensor, row, live=True)[:_MAX_USES]
    return any(plain_name(flow.log.calls[each].function) in _COMPARE for each in after)


_COMPARE = frozenset({
    "cross_entropy", "log_softmax", "softmax", "logsumexp", "exp", "relu", "clamp", "max", "margin_ranking_loss",
    "logaddexp", "binary_cross_entropy_with_logits", "sigmoid", "logsigmoid", "softplus",
})  # fmt: skip
