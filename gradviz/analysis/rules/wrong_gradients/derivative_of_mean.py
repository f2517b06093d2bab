"""GV766."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import at_line, plain_name, two_lines
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.formulas.products import is_squared
from gradviz.analysis.rules.bases.losses.loss_arguments import SHAPE_ONLY
from gradviz.analysis.rules.bases.losses.scales.derivative_powers import COMPARES, Mixture, mixtures


class DerivativeOfMean(Rule):
    """A derivative at each sample is that of the mean of all samples, so it is too small by their number.

    What it finds
    -------------
    ``autograd.grad(net(x).mean(), x, create_graph=True)`` of data, where an error of each sample compares the result,
    or its norm, with a number or with values that were not divided by the number of samples: ``(norm - 1) ** 2``,
    ``u_t - u_xx``, ``mse_loss(forces, target)``. A mean that the loss uses as well, and a derivative that is multiplied
    by the number of samples, are left alone.

    Why it matters
    --------------
    The mean of n results changes by 1/n of what each of them does. A penalty with norms near 1 asks for slopes near n,
    and terms of a differential equation have the wrong factors, which change with the batch size.

    Example
    -------
    critic = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(critic.parameters(), lr=0.01)
    for step in range(3):
        x = torch.randn(16, 3).requires_grad_()
        (slopes,) = torch.autograd.grad(critic(x).mean(), x, create_graph=True)
        penalty = ((slopes.norm(dim=1) - 1) ** 2).mean()
        loss = critic(torch.randn(16, 3)).mean() - critic(1 + torch.randn(16, 3)).mean() + 10 * penalty
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    critic = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(critic.parameters(), lr=0.01)
    for step in range(3):
        x = torch.randn(16, 3).requires_grad_()
        (slopes,) = torch.autograd.grad(critic(x).sum(), x, create_graph=True)
        penalty = ((slopes.norm(dim=1) - 1) ** 2).mean()
        loss = critic(torch.randn(16, 3)).mean() - critic(1 + torch.randn(16, 3)).mean() + 10 * penalty
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV766"
    name = "derivative_of_mean"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow, told = case.dataflow, set[int | None]()
        for rows in _steps(flow):
            for found in mixtures(flow, rows):
                site = flow.log.calls[found.mean].call_site
                if site not in told and _is_error_of_samples(flow, found.call):
                    told.add(site)
                    yield self._finding(flow, found)

    def _finding(self, flow: Dataflow, found: Mixture) -> Finding:
        location, met = two_lines(flow, found.mean, found.call)
        return self.finding(
            f"the derivative of the mean of {found.count:,} results is 1/{found.count} of the derivative of each, and "
            f"{plain_name(flow.log.calls[found.call].function)}(){at_line(met)} takes it for that of each",
            symptom="grad_wrong",
            why=f"each result has a share of 1/{found.count} in the mean: its derivative is too small by that factor",
            fix="differentiate the sum: autograd.grad(out.sum(), x, create_graph=True)",
            location=location,
            symptom_location=met,
            evidence={"elements": found.count},
        )


_MOST_FOLLOWED = 12
_SAME = SHAPE_ONLY | {"add", "sub", "mul", "div", "neg", "relu", "clamp", "cat", "stack", "norm", "flatten"}
_ERRORS = COMPARES | {"abs", "vector_norm"}


def _steps(flow: Dataflow) -> list[list[int]]:
    """The last derivatives of each line with a history, by step."""
    last: dict[int | None, int] = {}
    for row in flow.rows_of_kind("backward"):
        if flow.log.calls[row].scalars.get("create_graph") and flow.has_step_after(row):
            last[flow.log.calls[row].call_site] = row
    since = {flow.step_before(row) for row in last.values()}
    steps: dict[int, list[int]] = defaultdict(list)
    for row in flow.rows_of_kind("backward"):
        step = flow.step_before(row)
        if step in since and flow.log.calls[row].scalars.get("create_graph"):
            steps[step].append(row)
    return list(steps.values())


def _is_error_of_samples(flow: Dataflow, row: int) -> bool:
    """Whether the size of what a call returns, one number or more for each sample, is a loss."""
    if plain_name(flow.log.calls[row].function) in COMPARES:
        return bool(shape_of(flow, flow.log.calls[row].inputs[0].tensor))
    waiting, count = [row], 0
    while waiting and count < _MOST_FOLLOWED:
        made = waiting.pop()
        result = flow.log.calls[made].outputs[0].tensor
        for user in flow.users(result, made) if shape_of(flow, result) else ():
            call, count = flow.log.calls[user], count + 1
            if is_squared(call) or plain_name(call.function) in _ERRORS:
                return True
            if plain_name(call.function) in _SAME and call.outputs:
                waiting.append(user)
    return False
