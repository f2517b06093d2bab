"""GV797."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import call_words, location_of_call, plain_name, two_lines
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.batches.draws.fixed_draws import uses_as_latent, uses_as_mask, uses_as_time
from gradviz.analysis.rules.bases.batches.fresh_operands import DRAWS, uses_as_noise


class NoiseDrawnOnce(Rule):
    """The noise of all steps is drawn once, before the first of them.

    What it finds
    -------------
    Random numbers that are drawn before the training and then, at each step, added to the data of a new batch or
    multiplied by the scales that the model computes for them (``mean + scale * noise``), with one number for each
    element of the batch. Also the numbers of which a generator makes its samples, while the judge of these gets new
    data at each step; the times that say how noisy each sample of a new batch is; and the mask that says which elements
    of a new batch are hidden.

    Why it matters
    --------------
    The sample at the first place of each batch gets the same noise each time, as does that at the second. The model
    can learn these numbers by heart: it does not become robust, and its scales mean nothing.

    Example
    -------
    encoder, decoder = torch.nn.Linear(6, 8), torch.nn.Linear(4, 6)
    optimizer = torch.optim.SGD([*encoder.parameters(), *decoder.parameters()], lr=0.1)
    noise = torch.randn(16, 4)
    for step in range(5):
        x = torch.randn(16, 6)
        mean, log_var = encoder(x).chunk(2, dim=1)
        z = mean + noise * (0.5 * log_var).exp()
        loss = (decoder(z) - x).square().mean() + 0.01 * (mean.square() + log_var.exp() - log_var).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    encoder, decoder = torch.nn.Linear(6, 8), torch.nn.Linear(4, 6)
    optimizer = torch.optim.SGD([*encoder.parameters(), *decoder.parameters()], lr=0.1)
    for step in range(5):
        x = torch.randn(16, 6)
        mean, log_var = encoder(x).chunk(2, dim=1)
        z = mean + torch.randn_like(mean) * (0.5 * log_var).exp()
        loss = (decoder(z) - x).square().mean() + 0.01 * (mean.square() + log_var.exp() - log_var).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV797"
    name = "noise_drawn_once"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        first = min(case.histories.reached_by, default=0)
        for row, call in enumerate(flow.log.calls[:first]):
            name = plain_name(call.function)
            if name not in DRAWS | _INTEGERS or not call.outputs or call.inputs or call.raised:
                continue
            if name in DRAWS and (uses := uses_as_noise(case, row)):
                yield self._finding(case, row, uses)
            elif name in DRAWS and (uses := uses_as_latent(case, row)):
                yield self._of_other(case, row, uses[-1], *_LATENT)
            elif uses := uses_as_time(case, row):
                yield self._of_other(case, row, uses[-1], *_TIME)
            elif uses := uses_as_mask(case, row):
                yield self._of_other(case, row, uses[-1], *_MASK)

    def _of_other(self, case: Case, row: int, used: int, what: str, why: str, fix: str) -> Finding:
        """Drawn numbers that are no noise of the data."""
        flow = case.dataflow
        location, at = two_lines(flow, row, used)
        shape = shape_of(flow, flow.log.calls[row].outputs[0].tensor)
        return self.finding(
            f"{call_words(flow.log.calls[row])} draws {what} only once, {shape}: each step uses the same, while the "
            "data change",
            symptom="grad_wrong",
            why=why,
            fix=fix,
            location=location,
            symptom_location=at,
        )

    def _finding(self, case: Case, row: int, uses: list[int]) -> Finding:
        flow = case.dataflow
        drawn, used = location_of_call(flow, row), location_of_call(flow, uses[-1])
        shape = shape_of(flow, flow.log.calls[row].outputs[0].tensor)
        return self.finding(
            f"{call_words(flow.log.calls[row])} draws the noise once, {shape}, and each step uses the same, while the "
            "data change",
            symptom="grad_wrong",
            why="each place of a batch gets the same noise at every step, which the model can learn by heart",
            fix="draw the noise anew at each step, where it is used: torch.randn_like(x)",
            location=drawn,
            symptom_location=used,
        )


_INTEGERS = frozenset({"randint"})
_LATENT = (
    "the numbers of which the generator makes its samples",
    "the generator only learns one sample for each row of them, and the judge learns these samples by heart",
    "draw them anew at each step, in the loop: z = torch.randn(len(real), width)",
)
_TIME = (
    "how far each sample is on its way to noise",
    "each place of a batch always has the same time, and the network is never asked about any other",
    "draw the times anew at each step, in the loop: t = torch.randint(0, steps, (len(x),))",
)
_MASK = (
    "which elements are hidden",
    "each place of a batch always has the same elements hidden: the model is never asked for any other",
    "draw the mask anew at each step, in the loop: mask = torch.rand(x.shape) < share",
)
