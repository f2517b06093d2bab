"""GV679."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import line_outside_modules, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.layer_calls import is_training
from gradviz.analysis.finding import Finding, location_of_line
from gradviz.analysis.parameters.creation_lines import line_of_module
from gradviz.analysis.rule import Rule
from gradviz.graph.call_log import Call


class BatchesOfOneSample(Rule):
    """Batch normalization is trained with one sample at a time, and used with its running statistics later.

    What it finds
    -------------
    A batch normalization that gets a single sample at every step of training, and that the program also runs in
    evaluation mode. One that is never run in evaluation mode normalizes each sample by itself, which may be meant.

    Why it matters
    --------------
    In training, such a layer takes the mean of each sample away from it, and with it what tells samples apart, such as
    the brightness of a picture. In evaluation mode it takes away the mean of all samples: the model sees numbers that
    it was never trained on.

    Example
    -------
    layer, head = torch.nn.BatchNorm2d(2), torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD([*layer.parameters(), *head.parameters()], lr=0.1)
    for step in range(6):
        total = 0
        for _ in range(4):
            x = torch.randn(1, 2, 5, 5)
            total = total + (head(torch.relu(layer(x)).mean((2, 3))) - x.mean()).square().mean()
        optimizer.zero_grad()
        total.backward()
        optimizer.step()
    layer.eval()
    with torch.no_grad():
        head(torch.relu(layer(torch.randn(8, 2, 5, 5))).mean((2, 3)))

    Instead
    -------
    layer, head = torch.nn.BatchNorm2d(2), torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD([*layer.parameters(), *head.parameters()], lr=0.1)
    for step in range(6):
        x = torch.randn(4, 2, 5, 5)
        total = (head(torch.relu(layer(x)).mean((2, 3))) - x.mean()).square().mean()
        optimizer.zero_grad()
        total.backward()
        optimizer.step()
    layer.eval()
    with torch.no_grad():
        head(torch.relu(layer(torch.randn(8, 2, 5, 5))).mean((2, 3)))
    """

    code = "GV679"
    name = "batches_of_one_sample"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        rows: dict[str, list[tuple[int, bool]]] = defaultdict(list)
        for row, call in enumerate(flow.log.calls):
            mode = is_training(call) if plain_name(call.function) == "batch_norm" else None
            key = _name(flow, row, call) if mode is not None else None
            if mode is not None and key is not None:
                rows[key].append((row, mode))
        alone = {
            path: [row for row, mode in each if mode]
            for path, each in rows.items()
            if not all(mode for _, mode in each) and all(_is_one(case, row) for row, mode in each if mode)
        }
        found = {path: trained for path, trained in alone.items() if len(trained) >= _MIN_CALLS}
        if found:
            yield self._finding(case, found)

    def _finding(self, case: Case, found: dict[str, list[int]]) -> Finding:
        flow, first = case.dataflow, next(iter(found.values()))[0]
        # One layer is soon replaced; for several, the line that gives them a batch.
        made = line_of_module(flow, flow.log.calls[first]) if len(found) == 1 else None
        used = location_of_line(line_outside_modules(flow, first) if made is None else flow.line_of(first))
        location = used if made is None else case.location_of_site(made)
        names = " and ".join(list(found)[:_SHOWN]) + (f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else "")
        one = len(found) == 1
        return self.finding(
            f"{names} {'gets' if one else 'get'} one sample at a time in training, and {'runs' if one else 'run'} in "
            "evaluation mode as well: what is normalized is not the same",
            symptom="grad_wrong",
            why="with one sample, its own mean is taken away; in evaluation mode it is the mean of all samples",
            fix="train with batches of several samples, or use a normalization that works on each sample: GroupNorm, "
            "LayerNorm, InstanceNorm",
            location=location,
            symptom_location=used if used != location else None,
            evidence={"calls": len(next(iter(found.values())))},
        )


def _name(flow: Dataflow, row: int, call: Call) -> str | None:
    """The path of the module that normalizes; the line, for a call of ``F.batch_norm`` outside of modules that keeps
    running statistics."""
    if call.scope is not None:
        return flow.log.scopes[call.scope].path
    mean = next((use.tensor for use in call.inputs if use.place in ("1", "running_mean")), None)
    line = flow.line_of(row)
    return None if mean is None or line is None else f"batch_norm() at line {line.line}"


_MIN_CALLS = 5
_SHOWN = 2


def _is_one(case: Case, row: int) -> bool:
    shape = shape_of(case.dataflow, case.dataflow.log.calls[row].inputs[0].tensor)
    return len(shape) > 1 and shape[0] == 1
