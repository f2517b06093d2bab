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
from gradviz.analysis.rules.bases.parameters.modules_of_factories import ModuleOfFactory, modules_of_factories
from gradviz.analysis.rules.bases.parameters.shared_statistics import SharedStatistics, shared_statistics
from gradviz.analysis.rules.bases.sources.kept_factories import KeptFactory


class DefaultIsOneModule(Rule):
    """A default, or what a function keeps for its next call, is one module, and all that take it share its parameters.

    What it finds
    -------------
    A layer with parameters that is the default of an argument, or that the body of a class makes, as for a field of a
    dataclass, where several modules took this one layer: they have it among their own, or call it. One object that
    gives its layer to several parts shares it on purpose. Also a module from a function that keeps what it has made, by
    ``@lru_cache``, a decorator of the program's own, or a dict that lives on, where two attributes, several objects of
    a class, or the places of a list each asked it for a module, with equal arguments. Also one batch normalization that
    several modules of a class were given, from a configuration for instance, where each has layers of its own beside
    it: they share its running statistics, too. It is a note where the name, a
    comment or the docstring says that the layer is shared, where the program takes it from the class by name, where
    the function takes no argument, and where classes ask for it that have nothing to do with each other.

    Why it matters
    --------------
    Python evaluates a default once, when it defines the function or the class, and a function that keeps its results
    runs once for equal arguments. So there is one layer for all objects: it gets the sum of their gradients, and what
    one part of the network needs is changed for another. Two towers are one network. What a class only has as an
    attribute is, besides, not among the parameters of any module, and no optimizer gets it from there.

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
        for kept in sorted(modules_of_factories(case), key=lambda each: each.is_meant):
            location = Location(kept.factory.file, kept.factory.line)
            if location not in told:
                told.add(location)
                yield self._of_factory(case, kept, location)
        if not told:
            yield from (self._of_statistics(case, each) for each in shared_statistics(case))

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

    def _of_statistics(self, case: Case, shared: SharedStatistics) -> Finding:
        paths, attribute = shared.paths, shared.attribute
        return self.finding(
            f"{together(paths)} are one {shared.kind}: {len(paths):,} objects of {shared.owner} were given it, each "
            "with layers of its own",
            severity="note" if shared.is_meant else self.severity,
            symptom="grad_wrong",
            why="its running statistics are a mixture of what all these layers return, and it gets the sum of their "
            "gradients",
            fix=("if they are not to share it, " if shared.is_meant else "")
            + f"give each its own: self.{attribute} = copy.deepcopy({shared.taken}), or make it in __init__",
            location=shared.location,
            tensors=names_of(case.dataflow, shared.parameters),
            evidence={"modules": len(paths)},
        )

    def _of_factory(self, case: Case, kept: ModuleOfFactory, location: Location) -> Finding:
        factory, asked = kept.factory, Location(*kept.asked)
        names = names_of(case.dataflow, kept.parameters)
        what = kept.path or f"a {kept.kind}"
        keeps = factory.keeper if factory.is_decorated else f"{factory.keeper} keeps what {factory.name}() made"
        return self.finding(
            f"{factory.name}() returns one {kept.kind} again, and {kept.places:,} places that asked for a module each "
            f"have it: {what} is all of them, and they share its parameters",
            severity="note" if kept.is_meant else self.severity,
            symptom="grad_wrong",
            why=f"{keeps} keeps the result, and gives it to each call with equal arguments"
            if factory.is_decorated
            else f"{keeps}, and each call with equal arguments gets that module",
            fix=("if they are not to share it, " if kept.is_meant else "") + _advice_of_factory(factory),
            location=location,
            symptom_location=asked if asked != location else None,
            tensors=names,
            evidence={"places": kept.places},
        )


def _advice_of_factory(factory: KeptFactory) -> str:
    copied = f"copy.deepcopy({factory.name}(...)) at each place but one"
    if factory.is_decorated:
        return f"take {factory.keeper} off {factory.name}, so that each call makes a module; or {copied}"
    return f"let {factory.name}() make a module at each call, and keep none in {factory.keeper}; or {copied}"


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
