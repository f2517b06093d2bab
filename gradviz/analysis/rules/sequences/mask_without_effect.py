"""GV642."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.axes import axis_of, ends_of_axes
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import (
    at_line,
    call_words,
    calls_named,
    location_of_call,
    plain_name,
    two_lines,
)
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.scores_before_softmax import Edit, scores_of
from gradviz.analysis.rules.bases.sequences.attention.idle_masks import may_hide, what_hides_nothing
from gradviz.analysis.rules.bases.sequences.attention.masked_targets import targets_of_lengths, targets_without_these
from gradviz.analysis.rules.bases.sequences.attention.masks_of_scores import is_of_yes_and_no, varies_along
from gradviz.graph.call_log import Call, TensorUse


class MaskWithoutEffect(Rule):
    """A mask before a softmax does not hide anything.

    What it finds
    -------------
    Scores that are filled with a number among the other scores, such as 0, 1e-9 or -1, before ``softmax()`` or
    ``log_softmax()``; and scores that are multiplied by a mask of zeros and ones or to which one is added, or of which
    ``tril()`` keeps a triangle. Likewise ``scaled_dot_product_attention()`` and ``nn.MultiheadAttention``, which add a
    mask of numbers, with one of zeros and ones. Also a mask that hides positions from the softmax of the targets, and
    that is applied to the scores only behind their softmax; or not at all, where it is made from lengths. As a note:
    attention weights that are multiplied by a mask after the softmax, and not divided by their sum again. Rows that
    are filled as a whole are left alone, and so are masks that are applied to the weights once more.

    Why it matters
    --------------
    A softmax takes the exponential of the scores, and exp(0) is 1: the positions that should be hidden get as much
    weight as others. Only scores far below all others, such as -inf, get a weight of 0.

    Example
    -------
    key, head = torch.nn.Linear(4, 4), torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD([*key.parameters(), *head.parameters()], lr=0.1)
    for step in range(3):
        x, lengths = torch.randn(6, 5, 4), torch.randint(2, 5, (6, 1))
        padding = torch.arange(5) >= lengths
        scores = x @ key(x).transpose(1, 2)
        scores = scores.masked_fill(padding[:, None], 1e-9)
        h = torch.softmax(scores, dim=-1) @ x
        loss = torch.nn.functional.cross_entropy(head(h[:, 0]), torch.randint(0, 2, (6,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    key, head = torch.nn.Linear(4, 4), torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD([*key.parameters(), *head.parameters()], lr=0.1)
    for step in range(3):
        x, lengths = torch.randn(6, 5, 4), torch.randint(2, 5, (6, 1))
        padding = torch.arange(5) >= lengths
        scores = x @ key(x).transpose(1, 2)
        scores = scores.masked_fill(padding[:, None], float("-inf"))
        h = torch.softmax(scores, dim=-1) @ x
        loss = torch.nn.functional.cross_entropy(head(h[:, 0]), torch.randint(0, 2, (6,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV642"
    name = "mask_without_effect"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        healthy: set[int | None] = set()
        found: dict[int | None, Finding] = {}
        for row, call in calls_named(flow, _SOFTMAXES):
            is_softmax = bool(call.live_inputs) and bool(call.outputs)
            if not is_softmax or call.call_site in healthy or not flow.has_step_after(row):
                continue
            finding = self._finding_at(case, row, call)
            if finding is None:
                healthy.add(call.call_site)
            else:
                found.setdefault(call.call_site, finding)
        yield from (finding for site, finding in found.items() if site not in healthy)
        yield from self._of_attention(case)

    def _of_attention(self, case: Case) -> Iterator[Finding]:
        """Of masks of zeros and ones that a call of torch adds to the scores of attention, one for each line."""
        flow = case.dataflow
        seen = set[int | None]()
        for row, call in calls_named(flow, _ATTENTION):
            if call.call_site in seen or not call.live_inputs:
                continue
            mask = next((use for use in call.inputs if _is_added_mask(flow, row, call, use)), None)
            if mask is None or not flow.has_step_after(row):
                continue
            seen.add(call.call_site)
            made = flow.log.tensors[mask.tensor].first_seen
            name = call_words(call)
            location, used = two_lines(flow, row if made is None else made, row)
            yield self.finding(
                f"{name} adds {case.tensor_name(mask.tensor)}, a mask of zeros and ones, to the scores: it changes "
                "them by 1 at most, and what should be hidden keeps its weight",
                symptom="grad_wrong",
                why="only a mask of booleans says what is hidden; one of numbers is added, so it has to be -inf there",
                fix="give it booleans: mask.bool(), which is true where "
                + ("a position is seen" if name.startswith("scaled") else "a position is hidden"),
                location=location,
                symptom_location=used,
            )

    def _finding_at(self, case: Case, row: int, call: Call) -> Finding | None:
        flow = case.dataflow
        axis = axis_of(call, len(shape_of(flow, call.inputs[0].tensor)))
        until = case.histories.backward_after(row)
        if axis is None or until is None:
            return None
        edits = scores_of(flow, row).edits
        masked = _masked_after(case, row, call, axis)
        if masked is not None and not edits and (targets := targets_without_these(flow, row, masked, until)):
            return self._of_targets(case, row, masked, targets)
        if masked is not None:
            return None if edits else self._of_weights(case, row, masked, axis, until)
        if any(may_hide(flow, edit) for edit in edits):
            return None
        if not edits and (targets := targets_of_lengths(flow, row, until)):
            return self._of_padded(case, row, targets)
        for edit in edits:
            what = what_hides_nothing(case, edit, axis)
            if what is not None:
                return self._of_scores(case, row, edit, what)
        return None

    def _of_scores(self, case: Case, row: int, edit: Edit, what: str) -> Finding:
        flow = case.dataflow
        location, used = two_lines(flow, edit.row, row)
        softmax = call_words(flow.log.calls[row])
        return self.finding(
            f"{what} before {softmax}{at_line(used)}: what should be hidden keeps its weight",
            symptom="grad_wrong",
            why=f"{softmax} takes the exponential of the scores: only those far below all others get a weight of 0",
            fix='fill in minus infinity: scores.masked_fill(mask, float("-inf")), with a mask that is true where it '
            "hides",
            location=location,
            symptom_location=used,
        )

    def _of_padded(self, case: Case, row: int, targets: int) -> Finding:
        flow = case.dataflow
        location, other = two_lines(flow, row, targets)
        return self.finding(
            f"the softmax of the targets{at_line(other)} leaves out what is beyond the length of each row, and "
            f"{call_words(flow.log.calls[row])} counts the scores of all positions",
            symptom="grad_wrong",
            why="the scores of padding take part in the sum: they get a gradient, and those of short rows are pushed "
            "up against them",
            fix='mask the scores, too: scores.masked_fill(mask, float("-inf")) before the softmax',
            location=location,
            symptom_location=other,
        )

    def _of_targets(self, case: Case, row: int, masked: int, targets: int) -> Finding:
        flow = case.dataflow
        location, used = two_lines(flow, row, masked)
        other = at_line(location_of_call(flow, targets))
        return self.finding(
            f"the mask is applied behind {call_words(flow.log.calls[row])}, and before the softmax of the "
            f"targets{other}: what the targets leave out takes part in the sum over the scores",
            symptom="grad_wrong",
            why="the scores of padding get a gradient, and those of short rows are pushed up against it",
            fix='mask the scores, too: scores.masked_fill(mask, float("-inf")) before the softmax',
            location=location,
            symptom_location=used,
        )

    def _of_weights(self, case: Case, row: int, masked: int, axis: int, until: int) -> Finding | None:
        flow = case.dataflow
        ends = list(ends_of_axes(flow, row, flow.log.calls[row].outputs[0].tensor, until))
        is_attention = any(end.kind == "contracted" and axis in end.axes and not end.is_divided for end in ends)
        if not is_attention or any(end.kind in ("summed", "normalized") and axis in end.axes for end in ends):
            return None
        location, made = two_lines(flow, masked, row)
        return self.finding(
            f"a mask multiplies the weights after {call_words(flow.log.calls[row])}"
            f"{at_line(made)}, and nothing divides them by their sum again",
            severity="note",
            symptom="grad_wrong",
            why="hidden positions took part in the sum: the others get too little weight, the less the more is hidden",
            fix='mask the scores instead: scores.masked_fill(mask, float("-inf")) before the softmax',
            location=location,
            symptom_location=made,
        )


_SOFTMAXES = frozenset({"softmax", "log_softmax"})
_ATTENTION = frozenset({"scaled_dot_product_attention", "multi_head_attention_forward"})
_PLACES = frozenset({"3", "attn_mask", "key_padding_mask"})
_PASSES = frozenset({"to", "float", "half", "type_as", "dropout", "view", "reshape", "contiguous", "exp"})
_MAX_PASSED = 4


def _is_added_mask(flow: Dataflow, row: int, call: Call, use: TensorUse) -> bool:
    """Whether a call adds an input to scores that has zeros and ones where it should have booleans, and is not the
    same for all keys."""
    is_whole = plain_name(call.function) == "scaled_dot_product_attention"
    if use.place not in _PLACES or (use.place == "3" and not is_whole) or use.requires_grad:
        return False
    shape, facts = shape_of(flow, use.tensor), flow.log.tensors[use.tensor].facts
    if not facts.dtype.startswith(("float", "bfloat")) or not shape or shape[-1] < _MIN_KEYS:
        return False
    return is_of_yes_and_no(flow, row, use.tensor)


_MIN_KEYS = 2


def _masked_after(case: Case, row: int, call: Call, axis: int) -> int | None:
    """The call that multiplies the weights by a mask along the axis of the softmax, or fills it with zeros."""
    flow, tensor = case.dataflow, call.outputs[0].tensor
    for _ in range(_MAX_PASSED):
        users = [(user, flow.log.calls[user]) for user in flow.users(tensor, row)]
        for user, used in users:
            name = plain_name(used.function)
            others = [use.tensor for use in used.inputs if not use.requires_grad]
            if name in ("masked_fill", "where", "tril", "triu", "setitem") or (
                name == "mul"
                and len(others) == 1
                and varies_along(flow, others[0], tensor, axis)
                and is_of_yes_and_no(flow, user, others[0])
            ):
                return user
        passed = next((each for each in users if plain_name(each[1].function) in _PASSES and each[1].outputs), None)
        if passed is None:
            return None
        row, tensor = passed[0], passed[1].outputs[0].tensor
    return None
