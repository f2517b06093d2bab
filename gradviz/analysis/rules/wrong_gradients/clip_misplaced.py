"""GV610."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import at_line, call_words, location_of_call, two_lines
from gradviz.analysis.dataflow.tensor_words import names_of
from gradviz.analysis.finding import Finding, Location, Symptom
from gradviz.analysis.gradients.gradient_changes import (
    MisplacedChange,
    changes_before_unscale,
    changes_nobody_uses,
    clips_gradients_at,
    clips_of_sums,
    clips_without_parameters,
    steps_with_scaled,
)
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.samples.inverted_clips import InvertedClip, inverted_clips
from gradviz.analysis.rules.bases.sources.hooks_after_steps import ChangeAfterStep, changes_in_hooks_after_steps
from gradviz.analysis.rules.bases.sources.iterators.clipped_iterators import line_of_empty_iterator
from gradviz.analysis.rules.bases.sources.lines.lines_that_order import turn_of_two


class ClipMisplaced(Rule):
    """Gradients are clipped or changed at a time when it has no effect, or another one.

    What it finds
    -------------
    Changes of ``.grad`` after the step that used it and before it is cleared, also in a hook that the optimizer runs
    after its step; clipping before ``backward()``, when there is no gradient yet (``clip_grad_value_()`` raises then);
    clipping of no parameters, because another call has used up the iterator over them (a generator, ``filter()``,
    ``model.parameters()`` kept in a variable); clipping before ``GradScaler.unscale_()`` or another division by the
    scale of the loss, when gradients are still scaled (where plugins of the program do both, at the line that orders
    them); steps of the optimizer itself, without the scaler, which never unscale them; and clips by hand whose factor
    is upside down, ``min(1, norm / bound)``.

    Why it matters
    --------------
    The step uses what is in ``.grad`` when ``step()`` runs. Clipping that comes later or earlier protects nothing, and
    clipping of scaled gradients makes each of them tiny after they are unscaled.

    Example
    -------
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        optimizer.zero_grad()
        model(torch.randn(5, 4)).square().mean().backward()
        optimizer.step()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)

    Instead
    -------
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        optimizer.zero_grad()
        model(torch.randn(5, 4)).square().mean().backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()
    """

    code = "GV610"
    name = "clip_misplaced"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        histories = case.histories
        yield from self._of_none(case)
        if not histories.reached_by:
            return
        events = case.gradient_events.events
        for change in changes_nobody_uses(histories, events, case.source_line):
            yield self._unused(case, change)
        for hooked in changes_in_hooks_after_steps(case):
            yield self._in_hook(case, hooked)
        for change in clips_without_parameters(histories, events, case.source_line):
            yield from self._of_no_parameters(case, change)
        for change in clips_of_sums(histories, events):
            yield self._of_sum(case, change)
        for change in changes_before_unscale(histories):
            yield self._scaled(case, change)
        for inverted in inverted_clips(case):
            yield self._inverted(case, inverted)
        error = case.capture.error
        is_refused = error is not None and _REFUSED in error.message
        for step in steps_with_scaled(histories, 1 if is_refused else _MIN_SCALED):
            yield self._stepped_scaled(case, step, "raises" if is_refused else "grad_wrong")

    def _of_none(self, case: Case) -> Iterator[Finding]:
        error = case.capture.error
        here = None if error is None or error.call_site is None else Location(*error.call_site)
        if error is not None and _NO_GRADIENTS in error.message and _BY_VALUE in (case.source_line(here) or ""):
            yield self.finding(
                f"{_BY_VALUE}() found no gradient, and raised: nothing has filled .grad since it was cleared",
                severity="error",
                symptom="raises",
                why="backward() computes the gradients; before it, .grad is None, and torch words this as "
                f"{_NO_GRADIENTS}",
                fix="clip between backward() and step()",
                location=here,
            )

    def _unused(self, case: Case, change: MisplacedChange) -> Finding:
        calls, flow = case.dataflow.log.calls, case.dataflow
        when = (
            "after the step that used them"
            if change.step is not None
            else "before backward() computes them: "
            + ("all of them are zero" if change.tensors else "there are none yet")
        )
        what = "gradients are changed" if change.tensors else "gradients are clipped"
        return self.finding(
            f"{what} {when}",
            symptom="grad_wrong",
            why="a step uses what is in .grad when it runs, so this change has no effect",
            fix="do it between backward() and step()",
            location=location_of_call(flow, change.call),
            symptom_location=None if change.step is None else location_of_call(flow, change.step),
            tensors=names_of(flow, change.tensors),
            evidence={"call": call_words(calls[change.call]), "times": change.times},
        )

    def _inverted(self, case: Case, clip: InvertedClip) -> Finding:
        location, scaled = two_lines(case.dataflow, clip.factor, clip.scaled)
        return self.finding(
            "gradients are multiplied by their norm over a bound, at most 1: large ones stay as they are, and small "
            "ones become smaller",
            symptom="grad_wrong",
            why="a clip divides by the norm: the factor is upside down",
            fix="multiply by the bound over the norm: (bound / (norm + 1e-6)).clamp(max=1)",
            location=location,
            symptom_location=scaled,
        )

    def _in_hook(self, case: Case, change: ChangeAfterStep) -> Finding:
        flow = case.dataflow
        where = at_line(location_of_call(flow, change.call))
        return self.finding(
            f"gradients are changed{where} by a hook that runs after the step, which has used them already, all "
            f"{change.times:,} times",
            symptom="grad_wrong",
            why="a step uses what is in .grad when it runs; what a post hook changes there is cleared later",
            fix="register the hook before the step: register_step_pre_hook()",
            location=change.registered,
            symptom_location=location_of_call(flow, change.step),
            tensors=names_of(flow, change.tensors),
            evidence={"call": call_words(flow.log.calls[change.call]), "times": change.times},
        )

    def _of_no_parameters(self, case: Case, change: MisplacedChange) -> Iterator[Finding]:
        clip = location_of_call(case.dataflow, change.call)
        clips_some = clips_gradients_at(case.histories, clip)
        lines = {} if clip is None else case.capture.sources.get(clip.file, {})
        line = None if clip is None else line_of_empty_iterator(lines, clip.line, is_used_by_clip=clips_some)
        if clip is not None and line is not None:
            yield self.finding(
                "clip_grad_norm_() clips nothing: it was given no parameters, because the iterator over them was used "
                + ("up by its first call" if clips_some else "up before"),
                severity="error",
                symptom="grad_wrong",
                why="an iterator gives its elements once: afterwards it is empty",
                fix="make it a list: list(...)",
                location=Location(clip.file, line),
                symptom_location=clip,
                tensors=names_of(case.dataflow, sorted(case.histories.trained)),
                evidence={"times": change.times},
            )

    def _of_sum(self, case: Case, change: MisplacedChange) -> Finding:
        return self.finding(
            f"{change.times:,} times gradients are clipped before the next backward() adds to them: the sum so far is "
            "clipped once more each time, and not the gradient of one backward()",
            symptom="grad_wrong",
            why="backward() adds to .grad: the first gradients are made smaller again and again, and the sum never "
            "becomes longer than one of them may be",
            fix="clip once, after the last backward() before the step; to clip the gradient of each sample, clear "
            ".grad after each backward() and add up the clipped ones elsewhere",
            location=location_of_call(case.dataflow, change.call),
            tensors=names_of(case.dataflow, change.tensors),
            evidence={"times": change.times},
        )

    def _scaled(self, case: Case, change: MisplacedChange) -> Finding:
        flow, unscaled = case.dataflow, change.step
        clip, line = location_of_call(flow, change.call), None if unscaled is None else location_of_call(flow, unscaled)
        turn = None if unscaled is None else turn_of_two(case, change.call, unscaled)
        return self.finding(
            "gradients are clipped while they are still scaled: "
            + (
                "they are unscaled later" if turn is None else f"{turn.first} runs before {turn.second}, which unscales"
            ),
            symptom="grad_wrong",
            why="the loss was multiplied by a scale, so all norms are too large by this factor, and "
            "clipping leaves almost nothing",
            fix="unscale them before the clipping, as scaler.unscale_(optimizer) does" if turn is None else turn.cure,
            location=clip if turn is None else turn.line,
            symptom_location=line if turn is None else clip,
            tensors=names_of(flow, change.tensors),
            evidence={"times": change.times},
        )

    def _stepped_scaled(self, case: Case, change: MisplacedChange, symptom: Symptom) -> Finding:
        flow = case.dataflow
        return self.finding(
            f"{'a step uses' if change.times == 1 else f'{change.times:,} steps use'} gradients that are still scaled: "
            "GradScaler multiplied the loss, and nothing unscales its gradients",
            severity="error" if symptom == "raises" else self.severity,
            symptom=symptom,
            why="scaler.step(optimizer) divides gradients by the scale and leaves out steps with Inf; optimizer.step() "
            "does neither",
            fix="call scaler.step(optimizer) and scaler.update() instead; for clipping, scaler.unscale_(optimizer) "
            "before it",
            location=location_of_call(flow, change.call),
            symptom_location=None if change.step is None else location_of_call(flow, change.step),
            tensors=names_of(flow, change.tensors),
            evidence={"times": change.times},
        )


_BY_VALUE = "clip_grad_value_"
_NO_GRADIENTS = "nested_tensorlist[0].empty()"
_REFUSED = "No inf checks were recorded prior to update"
"""``scaler.update()`` says so if no ``scaler.step()`` came before it."""
_MIN_SCALED = 2
