"""GV628."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import location_of_call, plain_name
from gradviz.analysis.dataflow.tensor_words import leaf_names_above
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.divergences import Divergence, divergence_from_prior
from gradviz.analysis.rules.bases.losses.objectives import has_maximizing_optimizer


class DivergenceMaximized(Rule):
    """The divergence of a normal distribution from its prior has the wrong sign in the loss.

    What it finds
    -------------
    A loss with ``v - exp(v)``, where ``v`` is an output of the trained model and ``exp(v)`` is subtracted, next to a
    square that is subtracted as well: ``1 + logvar - mu.pow(2) - logvar.exp()``, added with a positive factor. Also the
    same with ``log(r)`` added and ``r``, or its square, subtracted, as where an evidence lower bound adds a divergence.

    Why it matters
    --------------
    That sum is never above 0 and has no lower bound: it is minus twice the Kullback-Leibler divergence. Minimizing it
    drives the distribution away from the prior without end, and the loss falls and falls.

    Example
    -------
    encoder, decoder = torch.nn.Linear(6, 4), torch.nn.Linear(2, 6)
    optimizer = torch.optim.SGD([*encoder.parameters(), *decoder.parameters()], lr=0.01)
    for step in range(3):
        x = torch.randn(8, 6)
        mu, logvar = encoder(x).chunk(2, dim=1)
        z = mu + (0.5 * logvar).exp() * torch.randn_like(mu)
        divergence = 0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum(1).mean()
        loss = (decoder(z) - x).square().sum(1).mean() + 0.1 * divergence
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    encoder, decoder = torch.nn.Linear(6, 4), torch.nn.Linear(2, 6)
    optimizer = torch.optim.SGD([*encoder.parameters(), *decoder.parameters()], lr=0.01)
    for step in range(3):
        x = torch.randn(8, 6)
        mu, logvar = encoder(x).chunk(2, dim=1)
        z = mu + (0.5 * logvar).exp() * torch.randn_like(mu)
        divergence = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum(1).mean()
        loss = (decoder(z) - x).square().sum(1).mean() + 0.1 * divergence
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV628"
    name = "divergence_maximized"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow, told = case.dataflow, set[int | None]()
        if has_maximizing_optimizer(flow):
            return
        for backward in case.histories.last_trained_backward_of_each_line:
            for use in flow.log.calls[backward].roots:
                found = divergence_from_prior(flow, backward, use.tensor, wanted=-1)
                if found is not None and flow.log.calls[found.row].call_site not in told:
                    told.add(flow.log.calls[found.row].call_site)
                    yield self._finding(case, found, backward)

    def _finding(self, case: Case, found: Divergence, backward: int) -> Finding:
        flow, row = case.dataflow, found.row
        location = location_of_call(flow, row if found.joined is None else found.joined)
        is_written = plain_name(flow.log.calls[row].function) == "exp"
        what = "exp(v) and a square, and adds v" if is_written else "r and a square, and adds log(r)"
        return self.finding(
            f"the loss subtracts {what}: this divergence from a prior has the wrong sign, and training makes it larger "
            "without end",
            symptom="grad_wrong",
            why="1 + logvar - mu.pow(2) - logvar.exp() is never above 0 and has no lower bound: it is minus twice the "
            "divergence"
            if is_written
            else "a divergence is never below 0 and has no upper bound: a loss adds it, an evidence lower bound "
            "subtracts it",
            fix="turn the sign of this term around: -0.5 * (1 + logvar - mu.pow(2) - logvar.exp())"
            if is_written
            else "turn the sign of this term around: loss = error + kl_divergence(posterior, prior)",
            location=location,
            symptom_location=location_of_call(flow, backward),
            tensors=leaf_names_above(flow, flow.log.calls[row].inputs[0].tensor, row, since=flow.step_before(row)),
        )
