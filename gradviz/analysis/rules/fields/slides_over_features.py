"""GV865."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import at_line, calls_named, location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.graph.call_log import Call


class SlidesOverFeatures(Rule):
    """A convolution slides over the features of an embedding, and takes the positions for its channels.

    What it finds
    -------------
    ``conv1d()`` with a kernel wider than 1 that gets what an embedding looked up, (samples, positions, features), as it
    is: the layer was made with as many input channels as a sequence has positions. Kernels that cover all features at
    once are left alone.

    Why it matters
    --------------
    ``conv1d()`` slides over its last axis. Neighbouring positions belong together, neighbouring features do not: their
    order is random. A word also gets another weight at each position, so that a phrase that the model has learned at
    the start of a sequence is unknown to it further back.

    Example
    -------
    embed, conv, head = torch.nn.Embedding(9, 8), torch.nn.Conv1d(6, 4, 3), torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD([*embed.parameters(), *conv.parameters(), *head.parameters()], lr=0.1)
    for step in range(3):
        tokens = torch.randint(0, 9, (5, 6))
        h = torch.relu(conv(embed(tokens))).amax(2)
        loss = torch.nn.functional.cross_entropy(head(h), tokens[:, 0] % 2)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    embed, conv, head = torch.nn.Embedding(9, 8), torch.nn.Conv1d(8, 4, 3), torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD([*embed.parameters(), *conv.parameters(), *head.parameters()], lr=0.1)
    for step in range(3):
        tokens = torch.randint(0, 9, (5, 6))
        h = torch.relu(conv(embed(tokens).transpose(1, 2))).amax(2)
        loss = torch.nn.functional.cross_entropy(head(h), tokens[:, 0] % 2)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV865"
    name = "slides_over_features"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        lines: dict[int | None, list[tuple[int, int | None]]] = defaultdict(list)
        for row, call in calls_named(flow, _CONVOLUTIONS):
            if call.live_inputs and flow.has_step_after(row):
                lines[call.call_site].append((row, _lookup(flow, row, call)))
        for found in lines.values():
            row, lookup = found[-1]
            if lookup is not None and all(each is not None for _, each in found):
                yield self._finding(flow, row, lookup)

    def _finding(self, flow: Dataflow, row: int, lookup: int) -> Finding:
        call = flow.log.calls[row]
        _, positions, features = shape_of(flow, call.inputs[0].tensor)
        location, looked_up = location_of_call(flow, row), location_of_call(flow, lookup)
        return self.finding(
            f"conv1d() slides over the {features:,} features of the embedding{at_line(looked_up)}, and takes its "
            f"{positions:,} positions for channels",
            symptom="grad_wrong",
            why="it slides over the last axis, and neighbouring features have nothing to do with each other",
            fix=f"turn the axes around, conv(embedded.transpose(1, 2)), with a layer of {features:,} input channels",
            location=location,
            symptom_location=looked_up if looked_up != location else None,
        )


_CONVOLUTIONS = frozenset({"conv1d"})
_LOOKS_UP = frozenset({"embedding"})
_KEEP_AXES = frozenset({
    "dropout", "relu", "tanh", "gelu", "silu", "leaky_relu", "layer_norm", "mul", "add", "div", "contiguous", "to",
    "float", "clone", "dropout1d", "feature_dropout",
})  # fmt: skip
_SEQUENCES = 3
_MAX_MAKERS = 8


def _lookup(flow: Dataflow, row: int, call: Call) -> int | None:
    """The look-up of the sequences that a convolution gets with the features on its last axis."""
    shape, kernel = (shape_of(flow, use.tensor) for use in call.inputs[:2])
    if len(shape) != _SEQUENCES or len(kernel) != _SEQUENCES or not 1 < kernel[-1] < shape[-1]:
        return None
    tensor, before = call.inputs[0].tensor, row
    for _ in range(_MAX_MAKERS):
        made = flow.newest_producer(tensor, before)
        if made is None:
            return None
        maker = flow.log.calls[made]
        if plain_name(maker.function) in _LOOKS_UP:
            return made if shape_of(flow, maker.inputs[0].tensor) == shape[:2] else None
        same = [use.tensor for use in maker.inputs if shape_of(flow, use.tensor) == shape]
        if plain_name(maker.function) not in _KEEP_AXES or not same:
            return None
        tensor, before = same[0], made
    return None
