"""GV979."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.tensor_words import names_of, together
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.parameters.modules_of_defaults import (
    Default,
    ModuleOfDefault,
    modules_of_defaults,
)


class DefaultIsOneModule(Rule):
    """A default is one module with parameters, and all objects that take it share them.

    What it finds
    -------------
    A layer with parameters that is the default of an argument, or that the body of a class makes, as for a field of a
    dataclass, where several modules took this one layer: they have it among their own, or call it. One object that
    gives its layer to several parts shares it on purpose. It is a note where the name, a comment or the docstring says
    that the layer is shared, or where the program takes it from the class by name.

    Why it matters
    --------------
    Python evaluates a default once, when it defines the function or the class. So there is one layer for all objects:
    it gets the sum of their gradients, and what one part of the network needs is changed for another. What a class only
    has as an attribute is, besides, not among the parameters of any module, and no optimizer gets it from there.

    Example
    -------
    class Block(torch.nn.Module):
        def __init__(self, size, norm=torch.nn.LayerNorm(4)):
            super().__init__()
            self.linear, self.norm = torch.nn.Linear(size, size), norm

        def forward(self, x):
            return x + self.linear(self.norm(x))

    model = torch.nn.Sequential(Block(4), Block(4), torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        optimizer.zero_grad()
        model(torch.randn(5, 4)).square().mean().backward()
        optimizer.step()

    Instead
    -------
    class Block(torch.nn.Module):
        def __init__(self, size):
            super().__init__()
            self.linear, self.norm = torch.nn.Linear(size, size), torch.nn.LayerNorm(4)

        def forward(self, x):
            return x + self.linear(self.norm(x))

    model = torch.nn.Sequential(Block(4), Block(4), torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        optimizer.zero_grad()
        model(torch.randn(5, 4)).square().mean().backward()
        optimizer.step()
    """

    code = "GV979"
    name = "default_is_one_module"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        told = set[Location]()
        for shared in modules_of_defaults(case):
            location = Location(shared.default.file, shared.default.line)
            is_trained = not case.histories.trained.isdisjoint(shared.parameters)
            # What no module has and an optimizer steps was given to it by name, and what nothing trains may be fixed.
            is_lost = not is_trained and case.dataflow.log.calls[shared.row].function.startswith("torch.nn.")
            if location not in told and (is_trained if shared.is_registered else is_lost):
                told.add(location)
                yield self._finding(case, shared, location)

    def _finding(self, case: Case, shared: ModuleOfDefault, location: Location) -> Finding:
        flow, default = case.dataflow, shared.default
        kind = flow.log.calls[shared.row].function.rpartition(".")[2]
        is_of_class = isinstance(default.owner, ast.ClassDef)
        owner = f"the class {default.owner.name}" if is_of_class else f"{default.function}()"
        return self.finding(
            f"{default.name} of {owner} is one {kind} that {len(shared.owners):,} modules use: "
            f"{together(shared.owners)} share its parameters",
            severity="note" if shared.is_meant else self.severity,
            symptom="grad_wrong",
            why="Python evaluates "
            + ("what a class body assigns" if is_of_class else "a default argument")
            + f" once, when it defines the {'class' if is_of_class else 'function'}, not for each object"
            + ("" if shared.is_registered else "; and no module has it among its parameters, so no optimizer gets it"),
            fix=("if they are not to share it, " if shared.is_meant else "") + _advice(default),
            location=location,
            tensors=names_of(flow, shared.parameters),
            evidence={"modules": len(shared.owners)},
        )


def _advice(default: Default) -> str:
    made, owner = default.text, default.owner
    if not isinstance(owner, ast.ClassDef):
        return f"take {default.name}=None as the default, and make {made} in the body where it is None"
    in_init = f"make it in __init__ of each of them: self.{default.name} = {made}"
    if not any("dataclass" in ast.unparse(each) for each in owner.decorator_list):
        return in_init
    return (
        f"{default.name} = field(default_factory=lambda: {made}), and one {owner.name} for each of them; or {in_init}"
    )
