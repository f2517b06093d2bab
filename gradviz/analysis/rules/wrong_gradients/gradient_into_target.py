"""GV612."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from gradviz.analysis.case import Case
from gradviz.analysis.cuts.twin_calls import TwinCalls, twin_calls
from gradviz.analysis.dataflow.call_words import (
    at_line,
    call_words,
    callers,
    line_outside_modules,
    line_that_gave,
    location_of_call,
    plain_name,
)
from gradviz.analysis.dataflow.tensor_words import names_of
from gradviz.analysis.finding import Finding, Location, location_of_line
from gradviz.analysis.parameters.copied_parameters import compared_copies, is_anchor
from gradviz.analysis.parameters.creation_lines import line_apart
from gradviz.analysis.parameters.own_targets import OwnTarget, own_targets
from gradviz.analysis.parameters.parameter_histories import HandedOnGradients, ParameterHistories
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.targets.imitated_targets import Imitated, imitated_targets
from gradviz.analysis.rules.bases.sources.iterators.late_generators import LateGenerator, late_generators
from gradviz.analysis.rules.bases.sources.own_files import own_files
from gradviz.graph.model import CallSite


class GradientIntoTarget(Rule):
    """A gradient flows into a target, which should be a constant for the loss.

    What it finds
    -------------
    Parameters that no optimizer has, that get gradients from a loss, and that the program itself overwrites with those
    of a trained model (a target network, a moving average), or whose results are compared with those of the model that
    they are copies of. A target that is made of data and of a discounted output of the trained model itself
    (``reward + 0.99 * value(next_state)``), also over several steps. The weight of a log-probability (an advantage)
    that a trained model computes, and the weight of an error that is one over a probability which labels train (an
    inverse propensity). One of two like comparisons in a loss, where only the other one detaches an operand.
    Probabilities of a layer that labels train, which another layer imitates with ``kl_div()`` or ``cross_entropy()``.
    What a generator expression or ``map()`` under ``no_grad()`` computes when the block has ended.
    Comparisons of two outputs that are treated alike are left alone.

    Why it matters
    --------------
    The target is then a part of what is differentiated: the loss also falls by moving the target, and gradients that
    go through the target into what it was computed from are wrong.

    Example
    -------
    online, target = torch.nn.Linear(4, 1), torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(online.parameters(), lr=0.1)
    for step in range(3):
        x = torch.randn(5, 4)
        loss = (online(x) - 0.9 * target(x + 1)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        target.load_state_dict(online.state_dict())

    Instead
    -------
    online, target = torch.nn.Linear(4, 1), torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(online.parameters(), lr=0.1)
    for step in range(3):
        x = torch.randn(5, 4)
        with torch.no_grad():
            wanted = 0.9 * target(x + 1)
        loss = (online(x) - wanted).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        target.load_state_dict(online.state_dict())
    """

    code = "GV612"
    name = "gradient_into_target"
    severity = "warning"
    yields_to = ("straight_through_reversed", "stale_optimizer_params")

    def check(self, case: Case) -> Iterator[Finding]:
        histories = case.histories
        calls = histories.log.calls
        reached = {
            leaf: row
            for row, leaves in histories.reached_by.items()
            if calls[row].function.endswith(".backward")
            for leaf in leaves
        }
        following = [
            leaf
            for leaf in sorted(reached)
            if leaf not in histories.trained
            and histories.tensor(leaf).role == "parameter"
            and histories.steps
            and _follows_trained(histories, leaf)
            and not is_anchor(histories, leaf)
        ]
        if following:
            handed_on = HandedOnGradients(histories.log)  # As from a working copy in low precision to its master.
            following = [leaf for leaf in following if not handed_on.is_of(leaf)]
        copies = [leaf for leaf in compared_copies(histories) if leaf in reached] if not following else []
        used_instead = {copy for found in case.copies_used for copy in found.copies.values()}
        targets, words = (following, _FOLLOWS) if following else (copies, _IS_A_COPY)
        if targets and used_instead.isdisjoint(targets):
            yield self._finding(histories, targets, reached[targets[0]], words)
        late = [*self._of_late_generators(case)]
        # Where a generator runs too late, the targets that it computes have a gradient for this reason.
        yield from late or self._of_the_model_itself(case)
        for twins in twin_calls(histories, case.backward_calls):
            yield self._forgotten(case, twins)
        for imitated in imitated_targets(case):
            yield self._imitated(case, imitated)

    def _of_late_generators(self, case: Case) -> Iterator[Finding]:
        found = ((file, generator) for file, tree in own_files(case) for generator in late_generators(tree))
        for file, generator in found:
            rows = _computed_late(case, file, generator)
            if rows and any(_reaches_backward(case, row) for row in {rows[0], rows[-1]}):
                yield self._late(case, Location(file, generator.lines[0]), generator, rows)

    def _imitated(self, case: Case, imitated: Imitated) -> Finding:
        flow, names = case.dataflow, case.histories.together(imitated.parameters)
        location, compared = location_of_call(flow, imitated.softmax), location_of_call(flow, imitated.row)
        loss = call_words(flow.log.calls[imitated.row])
        return self.finding(
            f"the target of {loss}{at_line(compared)} is computed by {names}, which labels train, too: gradients go "
            "into the target, and draw it towards what should imitate it",
            symptom="grad_wrong",
            why="the loss also falls by moving the target to the prediction, which is not what the labels ask for",
            fix="detach() the scores of which the target is made",
            location=location,
            symptom_location=compared if compared != location else None,
            tensors=names_of(flow, imitated.parameters),
            evidence={"parameters": len(imitated.parameters)},
        )

    def _forgotten(self, case: Case, twins: TwinCalls) -> Finding:
        flow = case.dataflow
        what, like = case.tensor_name(twins.forgotten), case.tensor_name(twins.detached)
        function = call_words(flow.log.calls[twins.open])
        here, there = location_of_call(flow, twins.open), location_of_call(flow, twins.cut)
        leaves, _ = case.histories.live_leaves((use.tensor for use in flow.log.calls[twins.open].inputs), twins.open)
        where = "in the other call of the same line" if here == there else f"in that{at_line(there)}"
        return self.finding(
            f"{function} sends gradients into both operands; {where}, {like} is detached, and here {what} is not",
            symptom="grad_wrong",
            why="of two like comparisons, only one treats an operand as a constant: the other also moves its target",
            fix=f"detach() {what} here, if each comparison should move one operand only",
            location=here,
            symptom_location=there if there != here else None,
            tensors=names_of(flow, sorted(leaves & case.histories.trained)),
        )

    def _of_the_model_itself(self, case: Case) -> Iterator[Finding]:
        told: set[Location | None] = set()
        for target in own_targets(case.histories, case.backward_calls):
            location = _line_of_target(case, target)
            if location not in told:
                told.add(location)
                yield self._own_target(case, target, location)

    def _own_target(self, case: Case, target: OwnTarget, location: Location | None) -> Finding:
        flow, names = case.dataflow, case.histories.together(target.parameters)
        used = location_of_call(flow, target.call)
        words = _WORDS[target.kind]
        return self.finding(
            words.message.format(at=at_line(used), names=names),
            symptom="grad_wrong",
            why=words.why,
            fix=words.fix,
            location=location if target.kind == "bootstrapped" else used,
            symptom_location=location_of_call(flow, target.backward),
            tensors=names_of(flow, target.parameters),
            evidence={"parameters": len(target.parameters)},
        )

    def _finding(self, histories: ParameterHistories, targets: list[int], backward: int, words: str) -> Finding:
        flow = histories.flow
        uses = [row for row in histories.forward_uses(targets[0]) if row < backward and _is_live(histories, row)]
        here = _line_of_use(histories, uses[-1]) if uses else None
        return self.finding(
            f"{histories.together(targets)} {'gets' if len(targets) == 1 else 'get'} gradients from the loss, but "
            f"{words}: they belong to a target",
            symptom="grad_wrong",
            why="a target should be a constant for the loss, or its gradient also moves what the target was made from",
            fix="compute the target under torch.no_grad()"
            + ("; if the copies should train, give them to an optimizer" if words == _IS_A_COPY else ""),
            location=location_of_line(here),
            symptom_location=location_of_call(flow, backward),
            tensors=names_of(flow, targets),
            evidence={"parameters": len(targets)},
        )

    def _late(self, case: Case, location: Location, generator: LateGenerator, rows: list[int]) -> Finding:
        flow = case.dataflow
        leaves, _ = case.histories.live_leaves((use.tensor for use in flow.log.calls[rows[-1]].live_inputs), rows[-1])
        trained = sorted(leaves & case.histories.trained)
        around = list(callers(flow, rows[-1]))
        own = next(number for number, line in enumerate(around) if _is_of(line, location.file, generator))
        asking = location_of_line(around[own + 1] if around[own + 1 :] else None)
        return self.finding(
            f"a generator under no_grad() at line {generator.block} computes with gradients: it runs when something "
            f"goes through it{at_line(asking)}, and the block has ended",
            symptom="grad_wrong",
            why="a generator expression or map() computes nothing before it is asked; the loss now also moves "
            f"{case.histories.together(trained)} by what should be a constant",
            fix="make a list of it inside the block: square brackets, or list(...)",
            location=location,
            symptom_location=asking,
            tensors=names_of(flow, trained),
            evidence={"parameters": len(trained)},
        )


def _computed_late(case: Case, file: str, generator: LateGenerator) -> list[int]:
    """The calls below a generator that computed with gradients."""
    flow = case.dataflow
    rows = (row for row in flow.rows_of_kind("operation") if flow.log.calls[row].live_inputs)
    return [row for row in rows if any(_is_of(line, file, generator) for line in callers(flow, row))]


def _is_of(line: CallSite, file: str, generator: LateGenerator) -> bool:
    return line.file == file and line.line in generator.lines


def _reaches_backward(case: Case, row: int) -> bool:
    calls = case.dataflow.log.calls
    made = [use.tensor for use in calls[row].outputs if use.requires_grad]
    below = (each for tensor in made for each in case.dataflow.descendants(tensor, row, live=True))
    return any(calls[each].kind == "backward" for each in below)


class _Words(NamedTuple):
    message: str
    why: str
    fix: str


_WORDS = {
    "bootstrapped": _Words(
        "a target{at} is computed by {names}, which the same loss trains: gradients go into the target, too",
        "the loss also falls by moving the target to the prediction, which is not what the data ask for",
        "compute the target under torch.no_grad()",
    ),
    "weight": _Words(
        "the weight of a log-probability{at} is computed by {names}, and the loss sends gradients there",
        "a score function weighs log-probabilities with constants; else the model of the weights is moved to lower the "
        "loss of the policy",
        "detach() the weight where it is multiplied",
    ),
    "propensity": _Words(
        "the weight of an error{at} is one over a probability of {names}, which labels train, and the loss sends "
        "gradients there",
        "the loss also falls by raising the probability of samples that are fitted badly, and the probabilities are no "
        "longer those of the labels",
        "detach() the weight where it is multiplied",
    ),
}


def _line_of_use(histories: ParameterHistories, row: int) -> CallSite | None:
    """The line that computes with a target outside of its modules; where the trained model runs it, too, as a method
    does that both have, the line that calls it for the target."""
    flow = histories.flow
    here = line_outside_modules(flow, row)
    since = flow.step_before(row)
    for leaf in histories.trained if here is not None else ():
        for used in histories.forward_uses(leaf, since):
            if used != row and location_of_line(line_outside_modules(flow, used)) == location_of_line(here):
                return line_apart(flow, row, used)
    return here


def _line_of_target(case: Case, target: OwnTarget) -> Location | None:
    """Where to cut off a target: at the model that computes it; if the prediction is of the same call, where the target
    takes its part, or where the function that does so is given the whole."""
    flow = case.dataflow
    given = line_that_gave(flow, target.source, target.model) if target.source != target.model else None
    return location_of_line(given or line_outside_modules(flow, target.source))


_FOLLOWS = "the program overwrites them with trained parameters"
_IS_A_COPY = "they are copies of parameters that this loss trains, and no optimizer has the copies"


def _follows_trained(histories: ParameterHistories, leaf: int) -> bool:
    """Whether values of trained parameters are written into it, without a history, while training runs."""
    calls, flow = histories.log.calls, histories.flow
    for row in flow.changes(leaf, histories.steps[0], len(calls)):
        for use in calls[row].inputs:
            if use.tensor == leaf or use.tensor in flow.sharing_memory(leaf):
                continue
            if _is_of_trained(histories, use.tensor, row):
                return True
    return False


def _is_of_trained(histories: ParameterHistories, tensor: int, before: int) -> bool:
    """Whether a tensor is a trained parameter, shares its memory, or was computed from one by calls just before, as
    ``0.99 * old + 0.01 * new``."""
    flow = histories.flow
    waiting, looked = [(tensor, before, 0)], 0
    while waiting and looked < _MAX_LOOKED:
        given, row, depth = waiting.pop(0)
        looked += 1
        if not histories.trained.isdisjoint(flow.sharing_memory(given)):
            return True
        made = flow.newest_producer(given, row)
        is_average = depth == 0 or (made is not None and plain_name(histories.log.calls[made].function) in _AVERAGES)
        if made is not None and depth < _MAX_DEPTH and is_average:
            waiting += [(use.tensor, made, depth + 1) for use in histories.log.calls[made].inputs]
    return False


_AVERAGES = frozenset({"add", "sub", "mul", "div", "lerp", "clone", "detach", "data"})
_MAX_DEPTH = 3
_MAX_LOOKED = 12


def _is_live(histories: ParameterHistories, row: int) -> bool:
    return any(use.requires_grad for use in histories.log.calls[row].outputs)
