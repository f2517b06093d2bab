"""GV675."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.normal_draws import has_normal_draw
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.schedule_factors import ScheduleFactor, mixed_factors
from gradviz.graph.call_log import Call


class MixedWithoutRoot(Rule):
    """A diffusion model mixes data and noise with products of its schedule, and not with their roots.

    What it finds
    -------------
    A sum of data and drawn noise, each times a factor from the same ``cumprod()`` or sum of logarithms, where one
    factor is a part of one and the other the rest of one (``a`` and ``1 - a``), and the root of one or both is missing;
    also as ``lerp()`` or ``addcmul()``; and the same with squares of a cosine, if the loss compares with that noise.

    Why it matters
    --------------
    The products of the schedule are shares of the *variance*, so data and noise are multiplied with their roots (Ho et
    al. 2020, https://arxiv.org/abs/2006.11239, equation 4). Without them the model learns to take away noise of other
    sizes than the sampler puts in, the loss goes down as usual, and samples are blurred or burnt out.

    Example
    -------
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    alpha_bar = torch.cumprod(1 - torch.linspace(1e-4, 0.02, 100), 0)
    for step in range(3):
        x, noise, t = torch.randn(8, 2), torch.randn(8, 2), torch.randint(0, 100, (8, 1))
        noisy = alpha_bar[t] * x + (1 - alpha_bar[t]) * noise
        loss = (model(torch.cat([noisy, t / 100], 1)) - noise).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    alpha_bar = torch.cumprod(1 - torch.linspace(1e-4, 0.02, 100), 0)
    for step in range(3):
        x, noise, t = torch.randn(8, 2), torch.randn(8, 2), torch.randint(0, 100, (8, 1))
        noisy = alpha_bar[t].sqrt() * x + (1 - alpha_bar[t]).sqrt() * noise
        loss = (model(torch.cat([noisy, t / 100], 1)) - noise).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV675"
    name = "mixed_without_root"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow, told = case.dataflow, set[int | None]()
        for row, call in enumerate(flow.log.calls):
            mixed = None if call.call_site in told else mixed_factors(flow, row, call)
            if mixed is None or all(factor.has_root for factor in mixed):
                continue
            draws = _draws(flow, row, call)
            if draws and (_is_product(flow, mixed[0]) or any(_is_predicted(flow, each, row) for each in draws)):
                told.add(call.call_site)
                yield self._finding(flow, row, *mixed)

    def _finding(self, flow: Dataflow, row: int, part: ScheduleFactor, rest: ScheduleFactor) -> Finding:
        missing = [words for factor, words in ((part, "a"), (rest, "1 - a")) if not factor.has_root]
        both = len(missing) == _BOTH
        product = plain_name(flow.log.calls[part.source].function) + "()"
        product = product if _is_product(flow, part) else "squared cosine"
        location = location_of_call(flow, row)
        made = location_of_call(flow, (rest if part.has_root else part).row)
        return self.finding(
            f"data and noise are mixed with a and 1 - a from one {product}, without the root{'s' if both else ''} of "
            f"{' and '.join(missing)}",
            symptom="grad_wrong",
            why="a and 1 - a are shares of the variance; the model learns another amount of noise than a sampler takes "
            "away",
            fix=f"multiply with the root{'s' if both else ''}: a.sqrt() * x + (1 - a).sqrt() * noise",
            location=location,
            symptom_location=made if made != location else None,
        )


_BOTH = 2


def _is_product(flow: Dataflow, factor: ScheduleFactor) -> bool:
    return plain_name(flow.log.calls[factor.source].function) in ("cumprod", "cumsum")


def _draws(flow: Dataflow, row: int, call: Call) -> list[int]:
    """The noise from a normal distribution that a call mixes, perhaps after a product with a factor."""
    found = list[int]()
    for use in call.inputs:
        made = flow.newest_producer(use.tensor, row)
        factors = () if made is None else flow.log.calls[made].inputs
        if has_normal_draw(flow, (use,), row):
            found.append(use.tensor)
        elif made is not None:
            found += [each.tensor for each in factors if has_normal_draw(flow, (each,), made)]
    return found


def _is_predicted(flow: Dataflow, noise: int, row: int) -> bool:
    """Whether a loss compares noise with what a model predicts: a model of a velocity has another target."""
    users = (flow.log.calls[user] for user in flow.users(noise, flow.step_before(row)))
    return any(
        plain_name(user.function) in _ERRORS and len(user.inputs) == _BOTH and len(user.live_inputs) == 1
        for user in users
    )


_ERRORS = frozenset({"mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "sub"})
