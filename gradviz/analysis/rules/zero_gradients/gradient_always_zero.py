"""GV206."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import at_line, call_words, plain_name
from gradviz.analysis.dataflow.tensor_words import together
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.numbers.dead_leaves import MIN_LAST
from gradviz.analysis.numbers.zero_gradients import UnexplainedZero
from gradviz.analysis.parameters.unchanged_parameters import unchanged_parameters
from gradviz.analysis.rule import Rule
from gradviz.graph.query.operation_names import operation_word


class GradientAlwaysZero(Rule):
    """The gradient of a parameter is exactly zero at every step, and no other rule knows why.

    What it finds
    -------------
    Trained parameters that got a gradient of exactly zero at all recorded steps, or at all of the last ones, where none
    of the other rules names the cause. It names the operation nearest to the loss that got a gradient and sent zero, or
    the one before which paths cancel: of a single layer or a bias that is a note, as it may be meant. In fewer than
    three steps it is a note.

    Why it matters
    --------------
    A step with a gradient of zero changes nothing, or only what momentum and weight decay change. The parameter has a
    gradient and an optimizer, and learns nothing.

    Example
    -------
    block, gate = torch.nn.Linear(4, 4), torch.nn.Parameter(torch.zeros(4))
    optimizer = torch.optim.SGD(block.parameters(), lr=0.1)
    for step in range(4):
        x = torch.randn(5, 4)
        loss = (x + gate * torch.tanh(block(x))).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    block, gate = torch.nn.Linear(4, 4), torch.nn.Parameter(torch.zeros(4))
    optimizer = torch.optim.SGD([*block.parameters(), gate], lr=0.1)
    for step in range(4):
        x = torch.randn(5, 4)
        loss = (x + gate * torch.tanh(block(x))).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV206"
    name = "gradient_always_zero"
    severity = "warning"
    is_last_resort = True

    def check(self, case: Case) -> Iterator[Finding]:
        groups: dict[Location | None, list[UnexplainedZero]] = defaultdict(list)
        unmoved = _without_learning_rate(case) if case.unexplained_zeros else frozenset()
        for zero in case.unexplained_zeros:
            if zero.leaf.name not in unmoved:
                groups[_location(case, zero)].append(zero)
        tensors = map(case.histories.tensor, case.histories.trained) if groups else ()
        trained = {name: len(each.facts.shape) for each in tensors for name in each.names}
        for location, zeros in groups.items():
            yield self._finding(case, location, zeros, trained)

    def _finding(
        self, case: Case, location: Location | None, zeros: list[UnexplainedZero], trained: Mapping[str, int]
    ) -> Finding:
        """One for each line; `trained` has the number of axes of each trained parameter."""
        first = zeros[0]
        names = tuple(dict.fromkeys(zero.leaf.name for zero in zeros))
        steps = max(zero.leaf.steps for zero in zeros)
        since = f", from {_operation(case, first)}{at_line(location)} on" if first.node is not None else ""
        of_which = "the last" if first.leaf.was_alive else "all"
        when = f"in {of_which} {steps:,} measured steps" if steps > 1 else "in the only recorded step"
        is_early = steps < MIN_LAST
        # A loss that has reached zero, and a bias that cancels in a difference, may be right; and a factor that started
        # at zero moves with the next step.
        is_certain = (first.node is not None and not _cancels(first)) or first.may_be_inside or first.is_unreached
        is_network = first.split is not None and sum(trained.get(name, 0) >= _MATRIX for name in names) >= _LAYERS
        is_bounded = _is_bounded_from_better(case, first)
        is_at_its_end = first.leaf.is_loss_zero and not is_bounded
        may_be_right = is_at_its_end or not (is_certain or is_network) or is_early
        is_alarm = not may_be_right and not trained.keys().isdisjoint(names)
        known = _AT_A_BOUND if is_bounded else _found(first)
        return self.finding(
            f"the gradient of {together(names)} is exactly zero {when}{since}{known}",
            severity="warning" if is_alarm else "note",
            symptom="grad_zero",
            why="beyond its bounds the slope of a clamp is 0, also towards them" if is_bounded else _why(first),
            fix="widen the bounds, or bound only what is shown, and not what is trained with"
            if is_bounded
            else "multiply it with what differs between the two, or leave it out"
            if is_network
            else _fix(first, is_early=is_early),
            location=location,
            tensors=names,
            nodes=case.nodes_in(first.leaf.graph, (first.node, *(zero.leaf.node for zero in zeros)))
            if first.node is not None
            else (),
            evidence={"steps": steps, "leaves": len(names)},
        )


def _is_bounded_from_better(case: Case, zero: UnexplainedZero) -> bool:
    """Whether a clamp holds values at the end of its range from which the loss asks them to go away: at the end where a
    hinge has nothing to ask for, the loss is as small as it can be."""
    call = None if zero.call is None else case.dataflow.log.calls[zero.call]
    node = None if zero.node is None else case.graphs[zero.leaf.graph].nodes[zero.node]
    arrived = next(iter(node.arrived), None) if node is not None else None
    if call is None or zero.call is None or arrived is None or plain_name(call.function) not in ("clamp", "clip"):
        return False
    values = case.dataflow.values_of(call.inputs[0], zero.call)
    low, high = (call.scalars.get(name, call.scalars.get(place)) for name, place in (("min", "1"), ("max", "2")))
    if values is None or values.maximum is None or values.minimum is None:
        return False
    is_low = isinstance(low, int | float) and values.maximum <= low
    is_high = isinstance(high, int | float) and values.minimum >= high
    return (is_low and (arrived.maximum or 0) < 0) or (is_high and (arrived.minimum or 0) > 0)


def _without_learning_rate(case: Case) -> frozenset[str]:
    """The parameters that no step can move: factors that start at zero stay so."""
    groups = (each for each in unchanged_parameters(case.histories) if each.reason == "no learning rate")
    return frozenset(name for group in groups for each in group.tensors for name in case.histories.tensor(each).names)


_AT_A_BOUND = ": all values are beyond its bound, on the side from which the loss asks them to come back"
_MATRIX = 2
_LAYERS = 2
"""So many matrices are a network, and no shift that cancels, such as one for each user where items are compared."""


def _cancels(zero: UnexplainedZero) -> bool:
    """Whether its paths do not begin at one place, and none of them is hidden; or it is added to all samples."""
    is_open = zero.node is None and not zero.is_unreached and not zero.may_be_inside
    return zero.is_added_to_all or (is_open and not zero.leaf.is_loss_zero)


def _found(zero: UnexplainedZero) -> str:
    what = "for the samples" if zero.is_added_to_all else "on several paths"
    return f": what arrives {what} cancels out" if _cancels(zero) else "; cause not found"


def _why(zero: UnexplainedZero) -> str:
    if zero.leaf.is_loss_zero:
        return "the loss is exactly 0 there, and so is every slope of it"
    if zero.is_unreached:
        return (
            "compiled code uses it, and nothing of the loss comes from that: its result leaves compiled code without "
            "gradient, and compiled code sends zeros where uncompiled code sends nothing"
        )
    if zero.may_be_inside:
        return "it begins inside compiled code, where gradients were not measured"
    if _cancels(zero):
        return "what is added to both sides of a difference, as the last bias of a critic, has no influence on it"
    return "something on the way from the loss multiplies by 0, selects nothing, or has a slope of 0"


def _fix(zero: UnexplainedZero, *, is_early: bool) -> str:
    if zero.is_unreached:
        return "look where its result leaves compiled code: a number taken with .item(), a comparison, NumPy, a list"
    if zero.may_be_inside:
        return "gradviz check --inside measures them, and names the operation and its line"
    if is_early:
        return "record more steps: what starts at zero may move with the next one"
    if _cancels(zero):
        return "if it should train, look at what follows it: a difference, a normalization; else use bias=False"
    return "print the inputs of that operation, and look for a constant, an empty mask or a flat range"


def _location(case: Case, zero: UnexplainedZero) -> Location | None:
    if zero.call is not None:
        return case.location_of_call(zero.call)
    if zero.node is not None:
        return case.location_of(zero.leaf.graph, zero.node)
    if zero.split is not None and (location := case.location_of(zero.leaf.graph, zero.split)) is not None:
        return location
    return case.location_of_backward(zero.leaf.graph)


def _operation(case: Case, zero: UnexplainedZero) -> str:
    if zero.call is not None:
        return call_words(case.dataflow.log.calls[zero.call])
    return f"{operation_word(case.graphs[zero.leaf.graph].nodes[zero.node or 0].name)}()"
