"""GV625."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import at_line, location_of_call, plain_name
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule


class BatchMeetsLastAxis(Rule):
    """One value for each sample is spread along the last axis of the samples.

    What it finds
    -------------
    ``table[t] * x`` where ``t`` has one number for each sample, drawn or loaded in this step and used for each sample
    elsewhere, and ``x`` happens to be as wide as the batch is long: shapes (16,) and (16, 3, 16, 16).

    Why it matters
    --------------
    Broadcasting aligns the last axes. The first column of all images gets the value of the first sample, and so on: no
    sample gets its own. With any other batch size the line would raise.

    Example
    -------
    table = torch.linspace(0.1, 0.9, 10)
    embed, model = torch.nn.Embedding(10, 8), torch.nn.Linear(8, 8)
    optimizer = torch.optim.SGD([*embed.parameters(), *model.parameters()], lr=0.1)
    for step in range(3):
        x, t = torch.randn(8, 4, 8), torch.randint(0, 10, (8,))
        noisy = table[t] * x
        loss = (model(noisy + embed(t)[:, None]) - x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    table = torch.linspace(0.1, 0.9, 10)
    embed, model = torch.nn.Embedding(10, 8), torch.nn.Linear(8, 8)
    optimizer = torch.optim.SGD([*embed.parameters(), *model.parameters()], lr=0.1)
    for step in range(3):
        x, t = torch.randn(8, 4, 8), torch.randint(0, 10, (8,))
        noisy = table[t][:, None, None] * x
        loss = (model(noisy + embed(t)[:, None]) - x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV625"
    name = "batch_meets_last_axis"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        told: set[int | None] = set()
        for row, call in enumerate(flow.log.calls):
            if plain_name(call.function) not in ("mul", "add", "sub", "div") or len(call.inputs) != 2:
                continue
            short, long = sorted((use.tensor for use in call.inputs), key=lambda each: len(shape_of(flow, each)))
            shape = shape_of(flow, long)
            if len(shape) < 3 or shape_of(flow, short) != shape[-1:] or shape[0] != shape[-1] or shape[0] < 2:
                continue
            chosen = _chosen_for_samples(case, row, short)
            if chosen is not None and call.call_site not in told and flow.has_step_after(row):
                told.add(call.call_site)
                yield self._finding(case, row, chosen, short, long)

    def _finding(self, case: Case, row: int, chosen: int, short: int, long: int) -> Finding:
        flow = case.dataflow
        name, shape = case.tensor_name(flow.log.calls[chosen].inputs[0].tensor), shape_of(flow, long)
        made, location = location_of_call(flow, chosen), location_of_call(flow, row)
        where = at_line(made) if made != location else ""
        ones = ", 1" * (len(shape) - 1)
        return self.finding(
            f"the values of {name} for each sample{where}, {shape_of(flow, short)}, "
            f"are spread along the last axis of {shape}, not along the samples",
            symptom="grad_wrong",
            why="broadcasting aligns the last axes; it does not raise only because the batch is as long as that axis",
            fix=f"give them the axes of the other: .view(-1{ones})",
            location=location,
            symptom_location=made if made != location else None,
            evidence={"shapes": f"{shape_of(flow, short)}, {shape}"},
        )


_ELEMENTWISE = frozenset(
    {"sqrt", "rsqrt", "sub", "add", "mul", "div", "exp", "log", "pow", "neg", "square", "to", "float"}
)
_LOOKS_UP = frozenset({"getitem", "index_select", "gather", "take"})
_MAX_FOLLOWED = 8


def _chosen_for_samples(case: Case, row: int, tensor: int) -> int | None:
    """The call that looked up one value for each sample, by numbers of this step that have other uses as well."""
    for maker, call in case.dataflow.makers(tensor, row, _MAX_FOLLOWED):
        name = plain_name(call.function)
        if name in _LOOKS_UP and len(call.inputs) == 2:
            return maker if _is_of_samples(case, maker, call.inputs[1].tensor) else None
        if name not in _ELEMENTWISE:
            return None
    return None


def _is_of_samples(case: Case, row: int, index: int) -> bool:
    """Whether indexes came up in this step, and the program uses them for something else than looking up."""
    flow = case.dataflow
    known = flow.log.tensors[index]
    if known.facts.dtype != "int64" or known.first_seen is None or known.first_seen < flow.step_before(row):
        return False
    return any(
        plain_name(flow.log.calls[user].function) not in _LOOKS_UP and flow.log.calls[user].outputs
        for user in flow.users(index)
        if user != known.producer
    )
