"""What compiled code keeps for backward belongs to the operations that keep it without compilation.

Torch does not say what each tensor is that compiled code saved. Here weights, inputs of a region and results have the
same shape, so that nothing but what torch says of leaves and of other nodes tells them from each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from gradviz.recording.torch_access.nodes import SHOWS_SLOTS
from tests.integration.recording.child import forked_result

pytestmark = pytest.mark.skipif(not SHOWS_SLOTS, reason="this torch does not show what compiled code saved")

_RUN = """
from torch import nn

from gradviz.analysis.memory.kept_memory import memory_of

class Block(nn.Module):
    def __init__(self, breaks):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(16), nn.Linear(16, 32), nn.Linear(32, 16)
        self.breaks = breaks

    def forward(self, x):
        h = torch.tanh(self.up(self.norm(x)))
        if self.breaks:
            torch._dynamo.graph_break()
        return x + self.down(torch.sigmoid(h))

def of(backend, breaks, batch):
    torch._dynamo.reset()
    model = nn.Sequential(nn.Linear(8, 16), Block(breaks), Block(breaks), nn.Tanh(), nn.Linear(16, 4))
    net = model if backend is None else torch.compile(model, backend=backend)
    graph = record(lambda: net(torch.randn(batch, 8)).sum().backward()).graph
    return sorted(
        [each.bytes, each.kind, list(each.names), holder.operation, holder.slot, holder.module]
        for each in memory_of(graph).storages
        for holder in each.held_by[:1]
    )

print(json.dumps({
    f"{where}, {batch} rows": {str(backend): of(backend, where == "a break", batch) for backend in (None, "aot_eager")}
    for where in ("one region", "a break") for batch in (16, 32)
}))
"""


@pytest.fixture(scope="module")
def found() -> Mapping[str, Mapping[str, Any]]:
    result: Mapping[str, Mapping[str, Any]] = forked_result(_RUN)
    return result


@pytest.mark.parametrize("case", ["one region, 16 rows", "one region, 32 rows", "a break, 16 rows", "a break, 32 rows"])
def test_equal_shapes_do_not_mix_up_what_operations_keep(case: str, found: Mapping[str, Mapping[str, Any]]) -> None:
    assert found[case]["None"]
    assert found[case]["aot_eager"] == found[case]["None"]
