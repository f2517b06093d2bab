"""GV759."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import at_line, line_in_function_of, location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.normal_draws import has_normal_draw
from gradviz.analysis.finding import Finding, location_of_line
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.paths.schedule_tables import TableFactor, table_factor
from gradviz.graph.call_log import TensorUse


class ScheduleNotAccumulated(Rule):
    """A diffusion model adds the noise of one step, and not that of all steps up to it.

    What it finds
    -------------
    A sum ``sqrt(a) * x + sqrt(1 - a) * noise`` whose ``a`` is looked up at steps that were drawn, in a table that was
    made of equal steps, such as ``1 - linspace(1e-4, 0.02, 1000)`` or its logarithm, without a product or a sum over
    them: even at the last step most of ``x`` is left.

    Why it matters
    --------------
    ``1 - beta`` is what one step leaves of the data. After ``t`` steps it is the product of all of them, which goes to
    zero (Ho et al. 2020, https://arxiv.org/abs/2006.11239, equation 4). With the factors of one step the model never
    sees the noise with which a sampler begins. The loss goes down as usual.

    Example
    -------
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    alphas = 1 - torch.linspace(1e-4, 0.02, 100)
    for step in range(3):
        x, noise, t = torch.randn(8, 2), torch.randn(8, 2), torch.randint(0, 100, (8, 1))
        a = alphas[t]
        noisy = a.sqrt() * x + (1 - a).sqrt() * noise
        loss = (model(torch.cat([noisy, t / 100], 1)) - noise).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    alphas = 1 - torch.linspace(1e-4, 0.02, 100)
    alpha_bars = torch.cumprod(alphas, 0)
    for step in range(3):
        x, noise, t = torch.randn(8, 2), torch.randn(8, 2), torch.randint(0, 100, (8, 1))
        a = alpha_bars[t]
        noisy = a.sqrt() * x + (1 - a).sqrt() * noise
        loss = (model(torch.cat([noisy, t / 100], 1)) - noise).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV759"
    name = "schedule_not_accumulated"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow, told = case.dataflow, set[int | None]()
        for row, call in enumerate(flow.log.calls):
            if (
                plain_name(call.function) not in _SUMS
                or call.live_inputs
                or call.call_site in told
                or not flow.has_step_after(row)
            ):
                continue
            kept = _kept_of_data(flow, row, call.inputs)
            if kept is not None and _reaches_a_network(flow, row, call.outputs[0].tensor):
                told.add(call.call_site)
                yield self._finding(flow, row, kept)

    def _finding(self, flow: Dataflow, row: int, kept: TableFactor) -> Finding:
        made, mixed = location_of_call(flow, kept.source), location_of_call(flow, row)
        looked_up = location_of_line(line_in_function_of(flow, kept.lookup, row))
        location = looked_up if kept.root_of_table is None else location_of_call(flow, kept.root_of_table)
        return self.finding(
            f"the table{at_line(made)} has no product over its steps: at each of them at least "
            f"{min(kept.ends) ** 2:.3g} of the variance of the data is left, so nothing becomes noise",
            symptom="grad_wrong",
            why="1 - beta is what one step leaves; what t steps leave is the product of all up to it",
            fix="look up the products: alpha_bars = torch.cumprod(1 - betas, 0), and a = alpha_bars[t]",
            location=location,
            symptom_location=mixed if mixed != location else None,
        )


_SUMS = frozenset({"add", "addcmul"})
_BOTH = 2
_ROUNDED = 1e-3
_MOST_LEFT = 0.5
_MAX_FOLLOWED = 200


def _kept_of_data(flow: Dataflow, row: int, given: tuple[TensorUse, ...]) -> TableFactor | None:
    """The factor of the data, if it and that of the noise come from one table of steps, and it is always large."""
    if len(given) == _BOTH:
        found = [_factor_of(flow, row, use.tensor) for use in given]
    elif len(given) == _BOTH + 1:  # addcmul(a * x, b, noise)
        found = [_factor_of(flow, row, given[0].tensor), _factor_in(flow, given[1:], row)]
    else:
        return None
    known = [(min(factor.ends), factor, is_drawn) for factor, is_drawn in found if factor is not None]
    if len(known) < _BOTH:
        return None
    (_, noise, is_drawn), (_, data, _) = sorted(known, key=lambda each: each[0])
    if not is_drawn or not noise.has_root or data.source != noise.source:
        return None
    is_whole = abs(min(data.ends) ** 2 + max(noise.ends) ** 2 - 1) < _ROUNDED
    return data if is_whole and min(data.ends) ** 2 > _MOST_LEFT else None


def _factor_of(flow: Dataflow, before: int, tensor: int) -> tuple[TableFactor | None, bool]:
    """The factor of a summand, and whether the rest of it was drawn from a normal distribution."""
    row = flow.newest_producer(tensor, before)
    call = None if row is None else flow.log.calls[row]
    if row is None or call is None or plain_name(call.function) != "mul" or len(call.inputs) != _BOTH:
        return None, False
    return _factor_in(flow, call.inputs, row)


def _factor_in(flow: Dataflow, uses: tuple[TensorUse, ...], row: int) -> tuple[TableFactor | None, bool]:
    factors = [table_factor(flow, use.tensor, row) for use in uses]
    known = [each for each in factors if each is not None]
    return (known[0] if len(known) == 1 else None), has_normal_draw(flow, uses, row)


def _reaches_a_network(flow: Dataflow, row: int, tensor: int) -> bool:
    """Whether parameters with a gradient meet what was computed from a tensor, soon after."""
    below = flow.descendants(tensor, row, until=row + _MAX_FOLLOWED)
    return any(use.is_live_leaf for each in below for use in flow.log.calls[each].inputs)
