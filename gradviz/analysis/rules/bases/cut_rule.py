"""What the rules on missing gradients share: a line cuts the path of gradients, and tensors above it get none."""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import PurePath

from msgspec.structs import replace

from gradviz.analysis.case import Case
from gradviz.analysis.cuts.cut_causes import blamed_call, cause_of
from gradviz.analysis.cuts.missing_gradients import CutOff
from gradviz.analysis.dataflow.call_words import location_of_call, plain_name, short_name
from gradviz.analysis.dataflow.cuts import REWRAPS
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.refused_calls import frozen_above
from gradviz.analysis.dataflow.tensor_words import name_of, together
from gradviz.analysis.finding import CutRoot, CutSeen, DeadInput, Finding, Location, NodeAt, Severity
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.cut_inputs import dead_inputs
from gradviz.analysis.rules.bases.cut_lines import (
    BetterLine,
    is_cut_on_condition,
    line_outside_helper,
    line_that_asks,
)
from gradviz.graph.call_log import Call

_MAX_CALLS = 6
_MAX_NODES = 20
_MAX_STEPS = 10_000
"""The most tensors that are visited to find a node that still exists."""


class CutRule(Rule):
    """Reports once for each line whose cut has the cause that the rule is named after.

    It is a warning if another line explains the same tensors, or if it is unknown whether they are trained.
    """

    severity = "error"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        explained: set[int] = set()
        for found in case.cut_off:
            # Several parameters may be made of one result.
            is_beside = _is_a_target(flow, found) or found.cut.kind == "parameter"
            is_told = explained.issuperset(found.tensors) and is_beside
            if cause_of(flow, found) == self.name and not is_told:
                seen = replace(found, may_be_meant=self.may_be_meant(flow, found))
                yield self._finding(case, flow, seen, self._severity(case, seen, explained))
            explained.update(found.tensors)
        for found in case.partial_cuts:
            if cause_of(flow, found) == self.name:
                yield self._finding(case, flow, found, "note" if found.may_be_meant else "warning")
        for found in case.stage_cuts:
            if cause_of(flow, found) == self.name:
                is_meant = found.may_be_meant or _is_a_target(flow, found) or is_cut_on_condition(case, found)
                seen = replace(found, may_be_meant=is_meant)
                yield self._finding(case, flow, seen, "note" if is_meant else "error")

    @abstractmethod
    def culprit(self, flow: Dataflow, found: CutOff) -> str:
        """What cuts, as the subject of a sentence: ``.detach()``."""

    @abstractmethod
    def why(self, flow: Dataflow, found: CutOff) -> str:
        """How it cuts."""

    @abstractmethod
    def fix(self, flow: Dataflow, found: CutOff) -> str:
        """What to do."""

    def may_be_meant(self, flow: Dataflow, found: CutOff) -> bool:
        """Whether programs cut so on purpose: then it is told as a note."""
        return found.may_be_meant

    def changed_line(self, text: str, found: CutOff) -> str | None:
        """The corrected line of the cut; None if that is not certain."""
        return None

    def better_line(self, case: Case, found: CutOff) -> BetterLine | None:
        """Another line to change, if what cuts has to be as it is."""
        return None

    def _finding(self, case: Case, flow: Dataflow, found: CutOff, severity: Severity) -> Finding:
        better = self.better_line(case, found) or line_outside_helper(case, found) or line_that_asks(case, found)
        cut = self._location(case, flow, found)
        location = cut if better is None else better.location
        text = None if better is not None else case.source_line(location)
        names = [case.tensor_name(number) for number in found.tensors]
        backward = flow.log.calls[found.backward]
        inputs = dead_inputs(case, flow, found)
        fix = ("if that is not meant, " if found.may_be_meant else "") + self.fix(flow, found) + _also(flow, found)
        symptom = case.location_of_site(backward.call_site) if found.is_refused else None
        return self.finding(
            self._message(case, flow, found, names) + ("" if better is None else f"; {better.words}"),
            severity=severity,
            symptom="raises" if found.is_refused else "grad_none",
            why=self.why(flow, found),
            fix=fix if better is None else better.fix,
            changed_line=None if text is None or _is_cut_again(flow, found) else self.changed_line(text, found),
            location=location,
            symptom_location=symptom if better is None else cut,
            tensors=tuple(names),
            nodes=_cut_from(case, found) if found.is_refused else _taken_at(case, found, inputs),
            cut=CutSeen(_cut_words(flow, found), inputs, _cut_root(case, found) if found.is_refused else None),
            path=self._path(case, flow, found),
            evidence={
                "cut": flow.log.calls[found.cut.call].function,
                "times": found.count,
                **({} if backward.name is None else {"backward": int(backward.name)}),
                "certainty": ("certain", "by value", "by order", "by a number", "it decides what runs")[
                    found.cut_path.doubt
                ],
            },
        )

    def _severity(self, case: Case, found: CutOff, explained: set[int]) -> Severity:
        if found.may_be_meant:
            return "note"
        is_guess = not case.missing_gradients.is_training
        is_second = explained.issuperset(found.tensors)
        if found.is_refused:
            # A frozen tensor that an optimizer has explains the refusal; a cut beside it may be meant.
            frozen = frozen_above(case.dataflow, found.backward, case.histories.trained)
            return "warning" if is_second or found.is_behind_another or frozen else "error"
        # Where another cut made backward raise, this one may be meant beside it.
        is_beside = any(other.is_refused for other in case.cut_off)
        return "warning" if is_second or is_guess or is_beside else "error"

    def _location(self, case: Case, flow: Dataflow, found: CutOff) -> Location | None:
        row = blamed_call(flow, found)
        return case.location_of_site(found.cut.call_site if row == found.cut.call else flow.log.calls[row].call_site)

    def _message(self, case: Case, flow: Dataflow, found: CutOff, names: Sequence[str]) -> str:
        culprit = self.culprit(flow, found)
        who = together(names)
        cuts = "cut" if culprit[:1].isdigit() else "cuts"
        if found.is_refused or found.is_of_leaf:
            return f"{case.tensor_name(found.root)} has no gradient to give: {culprit} {cuts} it off from {who}"
        if found.is_partial:
            path = f"{culprit} {cuts} one path back from {case.tensor_name(found.root)}"
            return f"{path}: {who} get gradients from others only"
        path = f"{culprit} {cuts} the path back from {case.tensor_name(found.root)}"
        if found.stage is not None:
            return f"no gradient for {who} in {_steps_of(case, found.stage)}: {path}"
        return f"no gradient for {who}: {path}"

    def _path(self, case: Case, flow: Dataflow, found: CutOff) -> tuple[str, ...]:
        above = case.tensor_name(found.tensors[0])
        cut, *rest = [_call_and_line(case, flow.log.calls[row]) for row in found.cut_path.calls]
        if len(rest) > _MAX_CALLS:
            left_out = len(rest) - _MAX_CALLS
            rest = [*rest[: _MAX_CALLS // 2], f"{left_out} more calls", *rest[-_MAX_CALLS // 2 :]]
        root = name_of(flow.log.tensors[found.root])
        return above, f"cut: {cut}", *rest, *((root,) if root is not None else ())


def _steps_of(case: Case, optimizer: int) -> str:
    """``any of the 15 steps of the optimizer of line 22``."""
    histories = case.histories
    made = next(iter(histories.given_at(optimizer)), None)
    line = None if made is None else location_of_call(histories.flow, made)
    where = (
        "an optimizer that holds them" if line is None else f"the optimizer of {PurePath(line.file).name}:{line.line}"
    )
    return f"any of the {len(histories.steps_by_optimizer[optimizer]):,} steps of {where}"


def _also(flow: Dataflow, found: CutOff) -> str:
    """The other lines that cut the same tensors off."""
    lines = sorted({line.line for row in found.beside if (line := flow.line_of(row)) is not None})
    return "" if not lines else f"; the detach() at line {', '.join(map(str, lines))} cuts it off, too"


def _is_a_target(flow: Dataflow, found: CutOff) -> bool:
    """Whether a detached tensor is only compared with one that is trained: it is a target on purpose, as in the loss of
    a codebook."""
    rows = found.cut_path.calls[1:2] if found.cut.kind == "detach" else ()
    return any(plain_name(flow.log.calls[row].function) in _COMPARE and flow.log.calls[row].live_inputs for row in rows)


_COMPARE = frozenset({"mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "sub", "cosine_similarity", "kl_div"})


def _is_cut_again(flow: Dataflow, found: CutOff) -> bool:
    """Whether the values go into another call that cuts: then a change of the first one is not enough."""
    return any(flow.log.calls[row].function in REWRAPS for row in found.cut_path.calls[1:])


def _call_and_line(case: Case, call: Call) -> str:
    location = case.location_of_site(call.call_site)
    name = short_name(call.function)
    return name if location is None else f"{name} (line {location.line})"


def _taken_at(case: Case, found: CutOff, inputs: Sequence[DeadInput]) -> tuple[NodeAt, ...]:
    """The nodes that used the result, in the graph where the gradient is missing; only the first of many."""
    number = case.backward_calls.graph_of(found.backward)
    return tuple(dead.at for dead in inputs if dead.at.graph == number)[:_MAX_NODES]


def _cut_root(case: Case, found: CutOff) -> CutRoot | None:
    """The root that has no gradient because of the cut; None if the capture has no graph of that backward."""
    root = case.backward_calls.refused_root(found.backward, found.root)
    if root is None:
        return None
    sources = tuple(at.node for at in _cut_from(case, found) if at.graph == root.graph)
    calls = (case.dataflow.log.calls[row] for row in found.cut_path.calls[1:])
    path = tuple(short_name(call.function) for call in calls)
    return replace(root, sources=sources, path=path, scope=case.scope_of_call(root.graph, found.cut.call))


def _cut_from(case: Case, found: CutOff) -> tuple[NodeAt, ...]:
    """The nodes whose results were cut, only the first of many; if they were freed, the nodes above them."""
    flow, nodes = case.dataflow, dict[NodeAt, None]()
    waiting = deque((cut.call, tensor) for cut in found.cuts for tensor in cut.live_inputs)
    seen = set(waiting)
    while waiting and len(nodes) < _MAX_NODES:
        before, tensor = waiting.popleft()
        row = flow.newest_producer(tensor, before)
        made = () if row is None else case.nodes_of_call(row)[-1:]
        nodes.update(dict.fromkeys(made))
        if row is not None and not made and len(seen) < _MAX_STEPS:
            above = {(row, use.tensor) for use in flow.log.calls[row].live_inputs} - seen
            seen |= above
            waiting += sorted(above)
    return tuple(nodes)


def _cut_words(flow: Dataflow, found: CutOff) -> str:
    """``detach``, ``linear under no_grad``."""
    if found.cut.kind == "parameter":
        return "nn.Parameter"
    name = short_name(flow.log.calls[blamed_call(flow, found)].function).strip("_")
    return name + {"no_grad": " under no_grad", "inference": " under inference mode"}.get(found.cut.kind, "")
