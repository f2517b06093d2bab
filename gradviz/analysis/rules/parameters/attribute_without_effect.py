"""GV726."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.tensor_words import names_of, together
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.parameters.switched_children import NotReached, not_reached
from gradviz.analysis.sources.source_tree import called_name
from gradviz.graph.modules_and_schedules import IdleAttribute


class AttributeWithoutEffect(Rule):
    """Parameters are frozen by an attribute that torch does not know, or a switch does not reach all modules.

    What it finds
    -------------
    ``module.requires_grad = False``, and misspelt attributes such as ``parameter.require_grad = False``, or
    ``requires_grad_ = False`` instead of a call, where the parameters get gradients all the same; also
    ``module.trainable = False``, which other libraries know, where no line of the program reads it. Modules whose class
    sets or defines such an attribute for itself are left alone. Also a loop over ``children()`` that switches the
    modules of a class (``m.enabled = False``, ``m.eval()``), where others of that class lie deeper in the model.

    Why it matters
    --------------
    Python lets any attribute be set on modules and parameters. What is meant to stay as it is, such as a pretrained
    body, is trained along. ``children()`` gives only the modules directly in a model: those in its blocks keep their
    state.

    Example
    -------
    body, head = torch.nn.Linear(4, 8), torch.nn.Linear(8, 1)
    body.requires_grad = False
    optimizer = torch.optim.SGD([*body.parameters(), *head.parameters()], lr=0.1)
    for step in range(3):
        optimizer.zero_grad()
        head(torch.relu(body(torch.randn(5, 4)))).square().mean().backward()
        optimizer.step()

    Instead
    -------
    body, head = torch.nn.Linear(4, 8), torch.nn.Linear(8, 1)
    body.requires_grad_(False)
    optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
    for step in range(3):
        optimizer.zero_grad()
        head(torch.relu(body(torch.randn(5, 4)))).square().mean().backward()
        optimizer.step()
    """

    code = "GV726"
    name = "attribute_without_effect"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        log, reached = case.dataflow.log, case.histories.reached
        groups: dict[tuple[str, bool, tuple[tuple[str, int], ...]], list[IdleAttribute]] = defaultdict(list)
        for each in log.idle_attributes:
            if not each.value and each.lines and not reached.isdisjoint(each.tensors):
                groups[each.name, each.is_of_module, each.lines].append(each)
        for found in groups.values():
            yield self._finding(case, found)
        for missed in not_reached(case):
            yield self._of_children(missed)

    def _of_children(self, found: NotReached) -> Finding:
        switch, kinds = found.switch, together(found.kinds)
        method = called_name(switch.call)
        others = together(found.deeper)
        return self.finding(
            f"{switch.words} for each child reaches {together(found.reached)}, not {others}, deeper in the model"
            if found.reached
            else f"{switch.words} for each child reaches no {kinds}: {others} lie deeper in the model",
            symptom="grad_wrong",
            why=f"{method}() gives the modules directly in a model, not those in its blocks: they keep their state",
            fix=f"write {'named_modules' if method == 'named_children' else 'modules'}() instead of {method}()",
            location=Location(found.file, switch.line),
            evidence={"reached": len(found.reached), "deeper": len(found.deeper)},
        )

    def _finding(self, case: Case, found: list[IdleAttribute]) -> Finding:
        histories, first = case.histories, found[0]
        tensors = list(dict.fromkeys(tensor for each in found for tensor in each.tensors))
        live = [number for number in tensors if number in histories.reached]
        owners = together(dict.fromkeys(each.owner or "a module" for each in found))
        kind = "modules" if first.is_of_module else "parameters"
        return self.finding(
            f"{first.name} = False on {owners} freezes nothing: {histories.together(live)} "
            f"{'gets a gradient' if len(live) == 1 else 'get gradients'}",
            symptom="grad_wrong",
            why=f"{kind} have no attribute {first.name} of torch: Python makes a new one, which nothing reads"
            if not first.name.endswith("_")
            else "requires_grad_ is a method: the assignment hides it, and calls nothing",
            fix="call module.requires_grad_(False)" if first.is_of_module else "set parameter.requires_grad = False",
            location=Location(*first.lines[0]),
            symptom_location=Location(*first.lines[1]) if len(first.lines) > 1 else None,
            tensors=names_of(case.dataflow, live),
            evidence={"attribute": first.name, "parameters": len(live)},
        )
