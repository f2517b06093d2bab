"""GV606."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.backward_calls import RaisedBackward
from gradviz.analysis.dataflow.custom_functions import return_location
from gradviz.analysis.dataflow.hook_changes import Alteration, HookedGradient, Hooks, hooked_gradients
from gradviz.analysis.dataflow.tensor_words import leaf_names, names_of
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule
from gradviz.graph.call_log import Definition
from gradviz.graph.model import Graph, Node
from gradviz.graph.traversal import ancestor_nodes

_CHANGED = re.compile(r"hook '(?P<name>[^']*)' has changed the (?P<what>size|type) of value")
_NO_TENSOR = re.compile(r"expected Variable, but hook returned '(?P<kind>[\w.]+)'")


class HookAltersGrad(Rule):
    """A hook returns a value, and this value replaces the gradient.

    What it finds
    -------------
    Hooks of tensors (``register_hook``) and of modules (``register_full_backward_hook``) that turn the gradient into
    another one: of another shape (torch raises), zero or less than a thousandth of it, not finite, with the same value
    everywhere, without its signs. Also hooks that change the gradient in place and return nothing, and hooks of which
    every step adds another copy to
    the same tensor. A hook that scales, clips or masks a gradient is only a note.

    Why it matters
    --------------
    The value that a hook returns replaces the gradient for everything behind it. A hook that only looks must return
    nothing.

    Example
    -------
    seen = []

    def watch(grad):
        size = grad.abs()
        seen.append(size.max().item())
        return size

    layer = torch.nn.Linear(3, 3)
    h = layer(torch.randn(4, 3))
    h.register_hook(watch)
    h.square().sum().backward()

    Instead
    -------
    seen = []

    def watch(grad):
        size = grad.abs()
        seen.append(size.max().item())

    layer = torch.nn.Linear(3, 3)
    h = layer(torch.randn(4, 3))
    h.register_hook(watch)
    h.square().sum().backward()
    """

    code = "GV606"
    name = "hook_alters_grad"
    severity = "warning"
    yields_to = ("frozen_still_moves",)

    def check(self, case: Case) -> Iterator[Finding]:
        hooks = Hooks(case.dataflow)
        for failed in case.backward_calls.raised:
            if finding := self._refused(case, hooks, failed):
                yield finding
        reported: dict[Location | None, Finding] = {}
        stepped = set(names_of(case.dataflow, case.histories.stepped_by_hooks))
        for number in case.measured_graphs:
            graph = case.graphs[number]
            for hooked in hooked_gradients(graph):
                if stepped.intersection(hooked.node.names):
                    continue  # A hook that has used a gradient may clear it.
                definition = _own(hooks, graph, hooked.node, None)
                location = _location(case, number, hooked.node.id, definition)
                known, is_harmless = reported.get(location), _is_harmless(hooks, hooked, definition)
                # A factor that grows with the steps begins at 0: what the hook does later counts.
                may_be_ramp = known is not None and known.is_alarm and known.symptom in _OF_A_RAMP and is_harmless
                if known is not None and not may_be_ramp and (known.is_alarm or is_harmless):
                    continue
                found = self._altered(case, hooks, number, hooked, definition)
                if known is None or not may_be_ramp or found.tensors == known.tensors:
                    reported[location] = found
        piled_up = tuple(self._piled_up(case, hooks))
        yield from piled_up
        many = {name for finding in piled_up for name in finding.tensors}
        yield from (finding for finding in reported.values() if many.isdisjoint(finding.tensors))

    # -- what torch refuses --------------------------------------------------------------------------------------

    def _refused(self, case: Case, hooks: Hooks, failed: RaisedBackward) -> Finding | None:
        changed, no_tensor = _CHANGED.search(failed.message), _NO_TENSOR.search(failed.message)
        if changed is None and no_tensor is None:
            return None
        name = changed["name"] if changed is not None else None
        definition = _own(hooks, case.graphs[failed.graph], failed.node, name) if failed.node is not None else None
        called = _words(definition.name if definition is not None else None)
        what = f"a gradient of another {changed['what']}" if changed else f"a {no_tensor['kind']}" if no_tensor else ""
        return self.finding(
            f"{called} returns {what}, which replaces the gradient",
            severity="error",
            symptom="raises",
            why="the value that a hook returns replaces the gradient that the hook got",
            fix="return nothing if it should only look, otherwise a tensor like the one that it got",
            location=_location(case, failed.graph, failed.node.id if failed.node is not None else None, definition),
            symptom_location=case.location_of_backward(failed.graph),
            op=failed.node.name if failed.node is not None else None,
            tensors=failed.starved,
            nodes=case.nodes_in(failed.graph, (failed.node.id,)) if failed.node is not None else (),
            evidence={"raised": failed.message},
        )

    # -- what torch accepts --------------------------------------------------------------------------------------

    def _altered(
        self, case: Case, hooks: Hooks, number: int, hooked: HookedGradient, definition: Definition | None
    ) -> Finding:
        called = definition.name if definition is not None else next(iter(hooked.node.hooks), None)
        in_place = _is_in_place(hooks, hooked.node, definition)
        is_harmless = _is_harmless(hooks, hooked, definition)
        verdict = _VERDICTS[hooked.alteration].format(
            before=f"{hooked.before.norm or 0:.3g}",
            after=f"{hooked.after.norm or 0:.3g}",
            zeros=f"{hooked.after.zeros - hooked.before.zeros:,}",
            count=f"{hooked.after.count:,}",
        )
        graph = case.graphs[number]
        behind = (*ancestor_nodes(graph, hooked.node), hooked.node)
        return self.finding(
            f"{_words(called)} {verdict}{', in place' if in_place else ''}",
            severity="note" if is_harmless else self.severity,
            symptom=_SYMPTOMS.get(hooked.alteration, "grad_wrong"),
            why="it returns nothing, but it changes the gradient itself in place"
            if in_place
            else "the value that a hook returns replaces the gradient for everything behind it",
            fix="work on a copy (grad.clone()), or return the new gradient"
            if in_place
            else "leave it if that is what it is for; a hook that should only look returns nothing"
            if is_harmless
            else "return nothing if it should only look",
            location=_location(case, number, hooked.node.id, definition),
            op=hooked.node.name,
            tensors=leaf_names(behind),
            nodes=case.nodes_in(number, (hooked.node.id,)),
            evidence={"norm_before": hooked.before.norm, "norm_after": hooked.after.norm},
        )

    def _piled_up(self, case: Case, hooks: Hooks) -> Iterator[Finding]:
        """Leaves on which every step registers the same hook again, so that its effect accumulates."""
        first: dict[str, HookedGradient] = {}
        reported: set[str] = set()
        for number in case.measured_graphs:
            for hooked in hooked_gradients(case.graphs[number]):
                node = hooked.node
                if not node.is_leaf or not node.names or node.names[0] in reported:
                    continue
                earlier = first.setdefault(node.names[0], hooked)
                more = len(node.hooks) - len(earlier.node.hooks)
                if more > 0 and set(node.hooks) == set(earlier.node.hooks) and _is_stronger(earlier, hooked):
                    reported.add(node.names[0])
                    yield self._piled_up_finding(case, hooks, number, earlier, hooked)

    def _piled_up_finding(
        self, case: Case, hooks: Hooks, number: int, earlier: HookedGradient, hooked: HookedGradient
    ) -> Finding:
        name, count = hooked.node.names[0], len(hooked.node.hooks)
        rows = hooks.registrations_on(name)
        return self.finding(
            f"{count} copies of {_words(hooked.node.hooks[0])} are on {name}: its gradient is multiplied by "
            f"{hooked.factor or 0:.3g}, but one copy multiplies it by {earlier.factor or 0:.3g}",
            symptom="grad_wrong",
            why="each call of register_hook adds one more hook, and they all run, one after the other",
            fix="register it once, before the loop, or remove it with the handle that register_hook returns",
            location=case.location_of_call(rows[-1]) if rows else None,
            tensors=(name,),
            nodes=case.nodes_in(number, (hooked.node.id,)),
            evidence={"hooks": count},
        )


_VERDICTS: dict[Alteration, str] = {
    "not_finite": "turns a finite gradient into NaN or Inf",
    "zero": "sets the gradient to zero",
    "constant": "replaces all elements of the gradient with one value",
    "without_sign": "removes the signs of the gradient: no element is negative any more",
    "shrunk": "leaves almost nothing of the gradient: its norm was {before}, and becomes {after}",
    "masked": "masks the gradient: {zeros} of its {count} elements become zero, and its norm {before} becomes {after}",
    "changed": "changes the gradient, from norm {before} to {after}",
}
_SYMPTOMS = {"not_finite": "grad_nan", "zero": "grad_zero", "shrunk": "vanishing"}
_OF_A_RAMP = frozenset({"grad_zero", "vanishing"})


def _words(name: str | None) -> str:
    """A hook by its own name, without the functions around it: ``DEQ.forward.<locals>.adjoint`` is ``adjoint``."""
    own = "" if name is None else name.rpartition("<locals>.")[2]
    return f"the hook {own}" if own and own != "<lambda>" else "the hook, a lambda," if own else "a hook"


def _is_stronger(earlier: HookedGradient, later: HookedGradient) -> bool:
    one, other = earlier.factor, later.factor
    return one is not None and other is not None and abs(other - one) > 0.01 * one


def _is_in_place(hooks: Hooks, node: Node, definition: Definition | None) -> bool:
    """Whether the only hook there returns nothing, so that it changed the gradient itself, before it was complete."""
    if definition is None or definition.returns or len(set(node.hooks)) > 1:
        return False
    return not hooks.is_of_grad(definition)


def _is_harmless(hooks: Hooks, hooked: HookedGradient, definition: Definition | None) -> bool:
    """Whether the hook only masked, rescaled or otherwise changed the gradient, by returning a new one, or ``.grad``
    once that was complete."""
    return hooked.alteration in ("masked", "changed") and not _is_in_place(hooks, hooked.node, definition)


def _own(hooks: Hooks, graph: Graph, node: Node, name: str | None) -> Definition | None:
    """The definition of the hook: by the short name in torch's message, or else the last one that returns a value."""
    known = hooks.definitions(graph, node)
    if name is not None:
        known = tuple(each for each in known if each.name.rpartition(".")[2] == name) or known
    giving = [each for each in known if each.returns]
    return giving[-1] if giving else known[-1] if known else None


def _location(case: Case, number: int, node: int | None, definition: Definition | None) -> Location | None:
    if definition is not None and definition.in_place and not definition.returns:
        return Location(definition.file, definition.in_place[0])
    if definition is not None:
        return return_location(definition)
    return case.location_of(number, node) if node is not None else None
