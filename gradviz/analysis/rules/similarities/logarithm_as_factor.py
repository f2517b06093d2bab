"""GV884."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.normal_draws import has_normal_draw
from gradviz.analysis.dataflow.tensor_words import names_of
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.scales.unit_vectors import is_cosine, is_normalized
from gradviz.analysis.rules.bases.sources.lines.logarithms import computes_logarithm
from gradviz.analysis.sources.source_tree import tree_of
from gradviz.graph.call_log import Call


class LogarithmAsFactor(Rule):
    """A parameter that begins as a logarithm is used as a factor, without its exponential.

    What it finds
    -------------
    A parameter that is made from the logarithm of a number, such as ``log(1 / 0.07)``, or clamped at one, and that
    multiplies or divides cosines, unit vectors or normal noise as it is, where nothing takes its exponential.

    Why it matters
    --------------
    What is learned is the logarithm of a scale, so that the scale itself is always above 0. Used as it is, a factor of
    14 is one of 2.7: cosines stay so close to each other that a softmax cannot tell them apart.

    Example
    -------
    import math
    normalize = torch.nn.functional.normalize
    encoder = torch.nn.Linear(8, 4)
    scale = torch.nn.Parameter(torch.tensor(math.log(1 / 0.07)))
    optimizer = torch.optim.SGD([*encoder.parameters(), scale], lr=0.1)
    for step in range(3):
        x = torch.randn(16, 8)
        a = normalize(encoder(x), dim=1)
        b = normalize(encoder(x + 0.1 * torch.randn_like(x)), dim=1)
        loss = torch.nn.functional.cross_entropy(scale * (a @ b.T), torch.arange(16))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    import math
    normalize = torch.nn.functional.normalize
    encoder = torch.nn.Linear(8, 4)
    scale = torch.nn.Parameter(torch.tensor(math.log(1 / 0.07)))
    optimizer = torch.optim.SGD([*encoder.parameters(), scale], lr=0.1)
    for step in range(3):
        x = torch.randn(16, 8)
        a = normalize(encoder(x), dim=1)
        b = normalize(encoder(x + 0.1 * torch.randn_like(x)), dim=1)
        loss = torch.nn.functional.cross_entropy(scale.exp() * (a @ b.T), torch.arange(16))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV884"
    name = "logarithm_as_factor"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        for parameter in flow.log.parameters:
            factor = _factor(flow, parameter)
            if factor is None or not flow.has_step_after(factor):
                continue
            made = next((each for each in _lines_of(flow, parameter) if _has_logarithm(case, each)), None)
            if made is not None:
                yield self._finding(flow, parameter, factor, made)

    def _finding(self, flow: Dataflow, parameter: int, factor: int, made: Location) -> Finding:
        names = names_of(flow, (parameter,))
        name = names[0].rpartition(".")[2] if names else "scale"
        location = location_of_call(flow, factor)
        return self.finding(
            f"{names[0] if names else 'a parameter'} is a logarithm at line {made.line}, and a factor here, without "
            "its exponential",
            symptom="grad_wrong",
            why="the logarithm of a scale is learned, so that the scale is always above 0; the scale is its "
            "exponential: log(1 / 0.07) is 2.7, and the factor that is meant 14",
            fix=f"take the exponential where it is used: {name}.exp()",
            location=location,
            symptom_location=made if made != location else None,
            tensors=names,
        )


_KEEPS = frozenset({
    "clamp", "clip", "minimum", "view", "reshape", "expand", "unsqueeze", "squeeze", "to", "float", "getitem", "clone",
    "contiguous", "expand_as", "data", "detach",
})  # fmt: skip
_FACTORS = frozenset({"mul", "div"})
_MAX_USERS = 64
_BOTH = 2


def _factor(flow: Dataflow, parameter: int) -> int | None:
    """The last call that multiplies cosines, unit vectors or noise by a parameter, or divides them by it.

    None if anything takes it elsewhere than as a factor: its exponential above all.
    """
    waiting, found = [parameter], list[int]()
    for tensor in waiting:
        for row in flow.users(tensor):
            call = flow.log.calls[row]
            name = plain_name(call.function)
            if call.kind != "operation" or tensor in [use.tensor for use in call.changed]:
                continue
            if name in _FACTORS and len(call.inputs) == _BOTH:
                found.append(row)
            elif name in _KEEPS and call.outputs and len(waiting) < _MAX_USERS:
                waiting.append(call.outputs[0].tensor)
            elif name not in _LOOKS:
                return None
    return found[-1] if found and all(_scales(flow, row, flow.log.calls[row], waiting) for row in found) else None


_LOOKS = frozenset({"size", "shape", "dim", "numel", "requires_grad_", "item"})


def _scales(flow: Dataflow, row: int, call: Call, factors: list[int]) -> bool:
    """Whether the other operand of a call is made of cosines, unit vectors or normal noise."""
    others = [use for use in call.inputs if use.tensor not in factors]
    return len(others) == 1 and (
        is_cosine(flow, others[0].tensor, row)
        or is_normalized(flow, others[0].tensor, row)
        or has_normal_draw(flow, others, row)
    )


def _lines_of(flow: Dataflow, parameter: int) -> Iterator[Location]:
    """The lines that made a parameter, and those that clamp it."""
    rows = {row for each in flow.sharing_memory(parameter) for row in flow.producers(each)}
    locations = (location_of_call(flow, row) for row in sorted(rows) if flow.log.calls[row].kind == "operation")
    yield from dict.fromkeys(each for each in locations if each is not None)


def _has_logarithm(case: Case, location: Location) -> bool:
    lines = case.capture.sources.get(location.file, {})
    return location.line in lines and computes_logarithm(tree_of(lines), location.line)
