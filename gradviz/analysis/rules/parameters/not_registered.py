"""GV703."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import groupby

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.tensor_words import names_of
from gradviz.analysis.finding import Finding, Location, location_of_line
from gradviz.analysis.gradients.read_gradients import with_gradients_read
from gradviz.analysis.parameters.creation_lines import line_that_keeps
from gradviz.analysis.parameters.frozen_parameters import found_no_parameters
from gradviz.analysis.parameters.parameter_histories import ParameterHistories
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.sources.own_files import program_files
from gradviz.analysis.sources.source_tree import last_line


class NotRegistered(Rule):
    """A module uses parameters that its ``parameters()`` does not contain.

    What it finds
    -------------
    Layers or trainable tensors in a plain list, dict or attribute of a module, and layers that every forward makes
    again. They get gradients, but no optimizer has them.

    Why it matters
    --------------
    A module only knows what is assigned to it as a `Parameter`, as a module, or inside of a `ModuleList`, a
    `ModuleDict` or a `ParameterList`. Everything else is never stepped, never zeroed (its gradients add up), not moved
    by ``to()`` and not in the ``state_dict``.

    Example
    -------
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = [torch.nn.Linear(4, 4) for _ in range(2)]
            self.out = torch.nn.Linear(4, 1)

        def forward(self, x):
            for layer in self.layers:
                x = torch.tanh(layer(x))
            return self.out(x)

    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for step in range(2):
        optimizer.zero_grad()
        net(torch.randn(5, 4)).square().mean().backward()
        optimizer.step()

    Instead
    -------
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.ModuleList(torch.nn.Linear(4, 4) for _ in range(2))
            self.out = torch.nn.Linear(4, 1)

        def forward(self, x):
            for layer in self.layers:
                x = torch.tanh(layer(x))
            return self.out(x)

    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for step in range(2):
        optimizer.zero_grad()
        net(torch.randn(5, 4)).square().mean().backward()
        optimizer.step()
    """

    code = "GV703"
    name = "not_registered"
    severity = "error"

    def check(self, case: Case) -> Iterator[Finding]:
        histories = case.histories
        hidden = [n for n in histories.untrained if histories.tensor(n).hidden_in is not None]
        if found_no_parameters(case.capture.error):
            hidden = [n for n in histories.log.parameters if histories.tensor(n).hidden_in is not None]
            yield from self._of_modules(case, hidden, is_raised=True)
            return
        read = with_gradients_read(histories)
        yield from self._of_modules(case, [n for n in hidden if n not in read], is_raised=False)
        yield from self._made_in_forward(case)

    def _of_modules(self, case: Case, hidden: list[int], *, is_raised: bool) -> Iterator[Finding]:
        histories = case.histories
        locations = {n: _location_where_kept(case, n) for n in hidden}
        by_line = sorted(hidden, key=lambda n: (str(locations[n]), n))
        for _, group in groupby(by_line, key=lambda n: str(locations[n])):
            tensors = list(group)
            owner = histories.tensor(tensors[0]).hidden_in
            verb = "is" if len(tensors) == 1 else "are"
            yield self.finding(
                f"{histories.together(tensors)} {verb} not registered: {owner}.parameters() does not contain "
                f"{'it' if len(tensors) == 1 else 'them'}"
                + ("" if is_raised else f", so {'it gets' if len(tensors) == 1 else 'they get'} gradients and no step"),
                symptom="raises" if is_raised else "grad_wrong",
                why="a module only knows what is assigned to it as a parameter or a module, not what a plain list, "
                "a dict, a function or an attribute with a tensor holds",
                fix=_remedy(histories, tensors),
                location=locations[tensors[0]],
                tensors=names_of(histories.flow, tensors),
                evidence={"module": owner, "tensors": len(tensors)},
            )

    def _made_in_forward(self, case: Case) -> Iterator[Finding]:
        """Parameters that were made while a module ran, and that no module holds afterwards."""
        histories = case.histories
        fresh: dict[str, list[int]] = {}
        for number in histories.untrained:
            tensor, made = histories.tensor(number), histories.made_by(number)
            if tensor.role != "parameter" or tensor.end is not None or made is None or tensor.hidden_in is not None:
                continue
            if number in case.parameters_that_cut:
                continue
            if histories.log.calls[made].scope is not None and not any("." in name for name in tensor.names):
                fresh.setdefault(str(location_of_line(histories.line_where_made(number))), []).append(number)
        for tensors in fresh.values():
            fresh_ones = (
                f"{histories.together(tensors)} {'was' if len(tensors) == 1 else 'were'} made while a module ran"
            )
            yield self.finding(
                f"{fresh_ones}: new and random each time, and in no optimizer",
                symptom="grad_wrong",
                why="each forward makes a new tensor, so its gradient goes to a tensor that no optimizer steps",
                fix="make it once, in __init__, and assign it to self",
                location=location_of_line(histories.line_where_made(tensors[0])),
                tensors=names_of(histories.flow, tensors),
                evidence={"tensors": len(tensors)},
            )


def _location_where_kept(case: Case, number: int) -> Location | None:
    histories = case.histories
    made, owner = histories.made_by(number), histories.tensor(number).hidden_in
    if made is None or owner is None:
        return None
    line = location_of_line(line_that_keeps(histories.flow, made, owner))
    name = histories.name(number).removeprefix(f"{owner}.").partition("[")[0]
    return _where_a_class_is_given(case, name, line) or line


def _where_a_class_is_given(case: Case, attribute: str, made: Location | None) -> Location | None:
    """The only line of the program that assigns an attribute of this name to ``self``, if what it assigns was made
    outside of its class."""
    found = list[Location]()
    for file, tree in program_files(case):
        for target, _ in tree.assignments:
            owner = tree.class_around(target) if tree.key_of(target) is not None else None
            if owner is not None and isinstance(target, ast.Attribute) and target.attr == attribute:
                is_made_there = made is not None and made.file == file and owner.lineno <= made.line <= last_line(owner)
                found.append(Location(file, 0 if is_made_there else target.lineno))
    return found[0] if len(found) == 1 and found[0].line else None


def _remedy(histories: ParameterHistories, tensors: list[int]) -> str:
    name = histories.name(tensors[0])
    if "[" not in name:
        return "assign it as torch.nn.Parameter(...)" if histories.tensor(tensors[0]).role == "tensor" else "assign it"
    holds_modules = "." in name.rpartition("]")[2]
    is_dict = "['" in name
    if holds_modules:
        return f"put the layers into a torch.nn.{'ModuleDict' if is_dict else 'ModuleList'}"
    return f"put them into a torch.nn.{'ParameterDict' if is_dict else 'ParameterList'}, as torch.nn.Parameter"
