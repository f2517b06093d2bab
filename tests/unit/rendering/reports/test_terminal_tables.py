"""Names in the tables of gradients are shortened until they fit in the terminal."""

from __future__ import annotations

import pytest

from gradviz.rendering.reports.terminal_tables import shortened_paths

ENCODER = "model.encoder.block.0.layer.0"
DECODER = "model.decoder.block.0.layer.0"


@pytest.mark.parametrize(
    ("names", "room", "shown"),
    [
        ([ENCODER, DECODER], 29, [ENCODER, DECODER]),
        ([ENCODER, DECODER], 23, [ENCODER.removeprefix("model."), DECODER.removeprefix("model.")]),
        ([ENCODER, DECODER], 18, ["encode…k.0.layer.0", "decode…k.0.layer.0"]),
        ([ENCODER, "model.encoder.block.0.layer.1"], 7, ["layer.0", "layer.1"]),
        (["net.attention.weight", "net.mlp.bias"], 8, ["….weight", "mlp.bias"]),
        (["a_long_parameter"], 5, ["…eter"]),
    ],
)
def test_names_that_are_too_long_are_cut_where_they_still_differ(names: list[str], room: int, shown: list[str]) -> None:
    assert shortened_paths(names, room, "…") == shown
    assert max(map(len, shown)) <= room
