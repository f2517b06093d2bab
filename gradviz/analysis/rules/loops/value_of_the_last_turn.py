"""GV969."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.tensor_words import together
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.sources.lines_that_ran import LinesThatRan
from gradviz.analysis.rules.bases.sources.loops.late_names import late_names
from gradviz.analysis.rules.bases.sources.own_files import own_files


class ValueOfTheLastTurn(Rule):
    """Hooks that a loop registers all see the values of its last turn.

    What it finds
    -------------
    A lambda or a function that a loop makes and keeps, as a hook, in a list or in a dict, and that reads a variable to
    which the loop gives another value at each turn. It is left alone where the variable is bound as a default,
    ``lambda grad, mask=mask: ...``, where the loop ends in its first turn, where it removes the hooks again, and where
    each turn calls ``backward()`` itself, so that the function runs before the next one.

    Why it matters
    --------------
    A function looks a variable up when it is called. The hooks run after the loop, so each multiplies by the mask, or
    writes under the name, of the last layer. Where the shapes fit nothing raises. (Python's own documentation,
    "Why do lambdas defined in a loop with different values all return the same result?")

    Example
    -------
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh(), torch.nn.Linear(4, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for layer in (model[0], model[2]):
        mask = (layer.weight.detach().abs() > 0.2).float()
        layer.weight.register_hook(lambda grad: grad * mask)
    for step in range(4):
        x = torch.randn(8, 4)
        optimizer.zero_grad()
        (model(x) - x.flip(1)).square().mean().backward()
        optimizer.step()

    Instead
    -------
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh(), torch.nn.Linear(4, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for layer in (model[0], model[2]):
        mask = (layer.weight.detach().abs() > 0.2).float()
        layer.weight.register_hook(lambda grad, mask=mask: grad * mask)
    for step in range(4):
        x = torch.randn(8, 4)
        optimizer.zero_grad()
        (model(x) - x.flip(1)).square().mean().backward()
        optimizer.step()
    """

    code = "GV969"
    name = "value_of_the_last_turn"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        for file, tree in own_files(case) if case.histories.steps else ():
            ran = LinesThatRan(case.dataflow, file)
            for found in late_names(tree):
                if found.turn and ran.has_backward(ran.rows_in(found.turn.start, found.turn.stop - 1)):
                    continue
                names, first = together(found.names), found.names[0]
                yield self.finding(
                    f"the function that each turn of the loop makes here reads {names} when it is called: then all of "
                    "them get the value of the last turn",
                    symptom="grad_wrong",
                    why="Python looks a variable up when a function runs, not when it is made",
                    fix=f"bind the value as a default: {first}={first} behind the arguments of the function",
                    location=Location(file, found.line),
                )
