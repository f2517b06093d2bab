"""GV899."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import location_of_call
from gradviz.analysis.dataflow.tensor_words import optimizer_words
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.parameters.creation_lines import call_that_made_optimizer
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.sources.own_files import own_files
from gradviz.analysis.rules.bases.sources.rates.rates_in_variables import idle_rates


class RateInVariable(Rule):
    """A loop changes the variable that the optimizer got its learning rate from, and the optimizer keeps the old one.

    What it finds
    -------------
    A variable that was given to an optimizer as ``lr``, to which a loop gives other values afterwards, while nothing
    reads it but what prints it, and the learning rate of the optimizer is the same at all of its steps.

    Why it matters
    --------------
    An optimizer keeps a copy of the number in ``param_groups``. What looks like a learning rate that decays, also in
    what is printed, is a constant one.

    Example
    -------
    model = torch.nn.Linear(4, 1)
    rate = 0.1
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    for epoch in range(4):
        x = torch.randn(8, 4)
        loss = (model(x) - x[:, :1]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        rate *= 0.5

    Instead
    -------
    model = torch.nn.Linear(4, 1)
    rate = 0.1
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    for epoch in range(4):
        x = torch.randn(8, 4)
        loss = (model(x) - x[:, :1]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        rate *= 0.5
        for group in optimizer.param_groups:
            group["lr"] = rate
    """

    code = "GV899"
    name = "rate_in_variable"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        constant: dict[Location | None, list[int]] = defaultdict(list)
        for number, optimizer in enumerate(flow.log.optimizers):
            made = call_that_made_optimizer(flow, number)
            if made is not None and optimizer.steps >= _MIN_STEPS and not optimizer.rate_changes:
                constant[location_of_call(flow, made)].append(number)
        for file, tree in own_files(case) if constant else ():
            for idle in idle_rates(tree):
                made_there = [flow.log.optimizers[n] for n in constant.get(Location(file, idle.given), ())]
                if len({tuple(each.highest_rates) for each in made_there}) != 1:
                    continue  # None, or it is made anew with the new value.
                optimizer = made_there[-1]
                yield self.finding(
                    f"{idle.name} changes here, and nothing reads it any more: {optimizer_words(optimizer)} keeps the "
                    f"learning rate of line {idle.given} at all {optimizer.steps:,} steps",
                    symptom="none",
                    why="an optimizer keeps the number that it was given in param_groups, not the variable",
                    fix=f"set it where the optimizer keeps it: for group in optimizer.param_groups: group['lr'] = "
                    f"{idle.name}; or use a schedule of torch.optim.lr_scheduler",
                    location=Location(file, idle.line),
                    symptom_location=Location(file, idle.given),
                )


_MIN_STEPS = 2
