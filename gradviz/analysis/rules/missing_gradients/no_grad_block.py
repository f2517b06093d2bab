"""GV102."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.cuts.missing_gradients import CutOff
from gradviz.analysis.cuts.teachers import only_sets_targets
from gradviz.analysis.dataflow.call_words import at_line, callers, short_name, two_lines
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.tensor_words import tensor_words
from gradviz.analysis.finding import Finding, Location, location_of_line
from gradviz.analysis.rules.bases.cut_lines import BetterLine
from gradviz.analysis.rules.bases.cut_rule import CutRule
from gradviz.analysis.rules.bases.losses.scales.cut_statistics import CutStatistics, cut_statistics
from gradviz.analysis.rules.bases.sources.cached_results import function_on, line_that_keeps_result
from gradviz.analysis.rules.bases.sources.lines.lines_of_decorators import decorated_without_gradients
from gradviz.analysis.sources.source_tree import SourceTree, tree_of
from gradviz.graph.model import CallSite


class NoGradBlock(CutRule):
    """A tensor that should train was computed while gradients were switched off.

    What it finds
    -------------
    Calls under ``torch.no_grad()``, ``torch.inference_mode()`` or ``torch.set_grad_enabled(False)`` (as a block, as a
    decorator or left on by mistake) whose results are used in the loss, where some trained tensors have no other path
    to it. It does not report targets and metrics: there no tensor loses its gradient. Where a model of the optimizer
    only sets the targets of another one, as a teacher does, it is a note. Also the mean and the deviation by which a
    normalization in training divides: these are a warning, as other paths remain.

    Why it matters
    --------------
    In such a block autograd records nothing. The results are constants for the loss, and the parameters used inside
    never change. If the whole loss was computed so, ``backward()`` raises. Where only the statistics of a normalization
    are, its gradient lacks two of three terms (Ioffe & Szegedy 2015, https://arxiv.org/abs/1502.03167, section 3): each
    step also scales what the normalization takes back.

    Example
    -------
    encoder, head = torch.nn.Linear(8, 4), torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD([*encoder.parameters(), *head.parameters()], lr=0.1)
    with torch.no_grad():
        features = encoder(torch.randn(16, 8))
    head(features).square().mean().backward()
    optimizer.step()

    Instead
    -------
    encoder, head = torch.nn.Linear(8, 4), torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD([*encoder.parameters(), *head.parameters()], lr=0.1)
    features = encoder(torch.randn(16, 8))
    head(features).square().mean().backward()
    optimizer.step()
    """

    code = "GV102"
    name = "no_grad_block"

    def check(self, case: Case) -> Iterator[Finding]:
        yield from super().check(case)
        for found in cut_statistics(case.dataflow):
            yield self._of_statistics(case.dataflow, found)

    def _of_statistics(self, flow: Dataflow, found: CutStatistics) -> Finding:
        location, shown = two_lines(flow, found.mean, found.subtracted)
        normalized = flow.log.calls[found.subtracted].inputs[0].tensor
        return self.finding(
            f"the mean and the deviation of {tensor_words(flow, normalized)} are taken while gradients are off, and "
            f"normalize it{at_line(shown)} in training: two of the three terms of its gradient are lost",
            symptom="grad_wrong",
            why="for autograd both are constants, so no gradient comes back through them: it also pushes the mean and "
            "the scale of the batch, which the normalization removes again",
            fix="take both with gradients on, and switch gradients off only around the update of the running averages",
            location=location,
            symptom_location=shown,
            evidence={"times": found.times},
            severity="warning",
        )

    def culprit(self, flow: Dataflow, found: CutOff) -> str:
        call = flow.log.calls[found.cut.call]
        name = short_name(call.function)
        what = name if found.count == 1 else f"{found.count} calls ({name}, ...)"
        mode = "inference mode" if call.grad_mode == "inference" else "no_grad"
        return f"{what} under {mode}"

    def why(self, flow: Dataflow, found: CutOff) -> str:
        return "autograd records nothing while gradients are off, so for the loss these results are constants"

    def fix(self, flow: Dataflow, found: CutOff) -> str:
        name = _reassigned(flow, found)
        if name is not None:
            return (
                f"write the result into the leaf, under torch.no_grad(): {name}.copy_(...), or an operation in place; "
                f"after an assignment {name} is another tensor, which needs no gradient"
            )
        if found.is_refused:
            return "switch gradients off only around what needs none: the block of `with torch.no_grad():` has an end"
        if found.may_be_meant:
            return (
                "compute it with gradients on; a teacher that only sets targets stays as it is: keep it out of the "
                "optimizer, and freeze it with requires_grad_(False)"
            )
        return (
            "compute it with gradients on; if these tensors are not meant to train, "
            "keep them out of the optimizer and freeze them with requires_grad_(False)"
        )

    def may_be_meant(self, flow: Dataflow, found: CutOff) -> bool:
        is_whole = not (found.is_refused or found.is_partial or found.is_of_leaf)
        return is_whole and only_sets_targets(flow, found.cuts, found.backward)

    def better_line(self, case: Case, found: CutOff) -> BetterLine | None:
        made = _leaf_of_fixed_point(case.dataflow, found)
        location = None if made is None else case.location_of_call(made)
        if location is not None:
            return BetterLine(location, _SOLVED, _APPLY_AGAIN)
        return _line_that_keeps(case, found) or _line_of_decorator(case, found)


def _line_of_decorator(case: Case, found: CutOff) -> BetterLine | None:
    decorated = decorated_without_gradients(case, found.cut.call)
    if decorated is None:
        return None
    decorator, function = decorated.decorator, decorated.function
    return BetterLine(
        decorated.location,
        f"{decorator} runs {function}() without gradients wherever it is called",
        f"leave {decorator} out here, or have it return {function}() itself and keep what runs without gradients "
        "elsewhere",
    )


def _line_that_keeps(case: Case, found: CutOff) -> BetterLine | None:
    """The line that keeps a result without a history, if calls with gradients use it in other rounds of the program."""
    calls = case.dataflow.log.calls
    off = [row for row in found.cut_path.calls if calls[row].grad_mode != "enabled"]
    if not off or not calls[off[-1]].outputs:
        return None
    users = case.dataflow.users(calls[off[-1]].outputs[0].tensor, off[-1])
    steps = {case.dataflow.step_before(row) for row in users if calls[row].grad_mode == "enabled"}
    kept = _kept_inside(case, off[-1]) if len(steps) >= _MIN_ROUNDS else None
    if kept is None:
        return None
    location, name = kept
    forget = f"remove {name}" if name.startswith("@") else "forget it after each evaluation and each step"
    return BetterLine(
        location,
        f"{name} keeps what was computed so",
        f"compute {'it' if name.startswith('@') else name} anew with gradients on where training uses it: {forget}, or "
        "keep it only for evaluations",
    )


def _kept_inside(case: Case, row: int) -> tuple[Location, str] | None:
    """The line that keeps a result, with what keeps it: the line of the call itself, or one of the functions that it
    was called from, up to the one that switches gradients off."""
    flow, sources = case.dataflow, case.capture.sources
    lines = list(callers(flow, row))
    location = location_of_line(lines[0]) if lines else None
    itself = _KEEPS.match(case.source_line(location) or "")
    if location is not None and itself is not None:
        return location, itself[1]
    switch = flow.line(flow.log.calls[row].grad_mode_site)
    for line in lines:
        tree = tree_of(sources[line.file]) if line.file in sources else None
        if tree is None or (switch is not None and _is_in_function(tree, line, switch)):
            return None
        kept = line_that_keeps_result(tree, line.line)
        if kept is not None:
            return Location(line.file, kept.line), kept.name
    return None


def _is_in_function(tree: SourceTree, line: CallSite, switch: CallSite) -> bool:
    """Whether a line is in the function that switches gradients off, by a block or by a decorator."""
    return line.file == switch.file and function_on(tree, line.line) is function_on(tree, switch.line)


_KEEPS = re.compile(r"\s*((?:\w+\.)+\w+|(?:\w+\.)*\w+\[[^\]]+\])\s*=(?!=)")
_SOLVED = "what a loop has found so becomes a leaf"
_APPLY_AGAIN = (
    "apply the function of the loop once more with gradients on, as z = f(z.detach(), x): the loop itself needs none"
)
_MIN_ROUNDS = 3
_LEAF = frozenset({"requires_grad_", "requires_grad.__set__"})


def _leaf_of_fixed_point(flow: Dataflow, found: CutOff) -> int | None:
    """The call that makes a leaf of what several rounds of the same weights have computed without gradients."""
    calls = flow.log.calls
    off = [row for row in found.cut_path.calls if calls[row].grad_mode != "enabled"]
    states = {use.tensor for row in found.cut_path.calls[:-1] for use in calls[row].outputs if not use.has_grad_fn}
    rows = {row for state in states for row in flow.users(state, off[-1]) if row < found.backward} if off else set()
    made = min((row for row in rows if calls[row].function.removeprefix("torch.Tensor.") in _LEAF), default=None)
    if made is None:
        return None
    above = flow.ancestors(calls[off[-1]].outputs[0].tensor, off[-1] + 1, flow.step_before(off[-1]))
    wanted = {*found.tensors}
    uses = Counter(use.tensor for row in above for use in calls[row].inputs if use.tensor in wanted)
    return made if max(uses.values(), default=0) >= _MIN_ROUNDS else None


def _reassigned(flow: Dataflow, found: CutOff) -> str | None:
    """The variable that held a leaf and then its new value: ``w = w - lr * w.grad``."""
    call, tensors = flow.log.calls[found.cut.call], flow.log.tensors
    results = {name for use in call.outputs for name in tensors[use.tensor].names}
    taken = (use.tensor for use in call.inputs if use.tensor in found.tensors)
    return next((name for tensor in taken for name in tensors[tensor].names if name in results), None)
