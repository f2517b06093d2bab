"""Which line and module keep what compiled code saved: the same as without compilation, where it saves the same."""

from __future__ import annotations

from typing import Any

import pytest

from gradviz.recording.torch_access.nodes import SHOWS_SLOTS
from tests.integration.recording.child import forked_result

pytestmark = pytest.mark.skipif(not SHOWS_SLOTS, reason="this torch does not show what nodes save")

_RUN = """
import warnings

from torch import nn
from torch.nn import functional as F

from gradviz.analysis.memory.memory_document import memory_document

warnings.simplefilter("ignore")

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(16), nn.Linear(16, 64), nn.Linear(64, 16)
        self.drop = nn.Dropout(0.5)

    def forward(self, x):
        return x + self.drop(self.down(F.gelu(self.up(self.norm(x)))))

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.positions = nn.Embedding(9, 16), nn.Embedding(6, 16)
        self.first, self.second, self.head = Block(), Block(), nn.Linear(16, 2)

    def forward(self, ids):
        x = self.embedding(ids) + self.positions(torch.arange(ids.shape[1]))
        return self.head(torch.sigmoid(self.second(self.first(x))))

def of(backend, by_block=False):
    model, ids = Model(), torch.randint(0, 9, (4, 6))
    net = model if backend is None or by_block else torch.compile(model, backend=backend)
    for block in (model.first, model.second) if by_block else ():
        block.drop.p = 0.0
        block.compile(backend=backend)
    recording = record(lambda: net(ids).sum().backward())
    document = memory_document(recording.capture, recording.graph)
    kept_by = [(each.names, f"{use.module}.{use.slot}") for each in document.storages for use in each.held_by]
    return {
        "modules": {each.module: each.own_bytes for each in document.by_module},
        "parameters": {names[0]: slot for names, slot in kept_by if names},
        "guessed": [each.is_guessed for each in document.compiled],
        "kept": [(each.calls, each.kept_bytes, each.uncompiled_bytes) for each in document.compiled],
    }

runs = {str(backend): of(backend) for backend in (None, "aot_eager")}
print(json.dumps(runs | {"by block": of("aot_eager", by_block=True)}))
"""


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    result: dict[str, Any] = forked_result(_RUN)
    return result


def test_modules_keep_what_they_keep_without_compilation(found: dict[str, Any]) -> None:
    plain, compiled = (
        {module: size for module, size in found[backend]["modules"].items() if not module.endswith(".drop")}
        for backend in ("None", "aot_eager")
    )
    assert compiled == plain
    assert plain["net.first"] == 4 * 6 * 64 * 4, "what gelu() got: the view of what a layer returned"


def test_a_mask_that_only_compiled_code_keeps_is_at_the_dropout_that_made_it(found: dict[str, Any]) -> None:
    assert found["None"]["modules"]["net.second.drop"] == 4 * 6 * 16 * 4
    assert found["aot_eager"]["modules"]["net.second.drop"] == 4 * 6 * 16


def test_parameters_are_kept_in_the_slots_of_their_own_operations(found: dict[str, Any]) -> None:
    slots = found["aot_eager"]["parameters"]
    assert slots == found["None"]["parameters"]
    assert slots["net.second.norm.weight"] == "net.second.norm.weight"


def test_it_is_known_and_not_guessed(found: dict[str, Any]) -> None:
    assert found["aot_eager"]["guessed"] == [False]


def test_what_a_block_got_from_the_one_before_is_no_result_of_its_own(found: dict[str, Any]) -> None:
    ((calls, kept, uncompiled),) = found["by block"]["kept"]
    assert calls == 2
    assert kept == uncompiled
