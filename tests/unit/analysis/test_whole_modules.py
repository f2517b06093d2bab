"""Many parameters are named by the modules that they make up."""

from __future__ import annotations

import pytest

from gradviz.analysis.parameters.whole_modules import whole_modules

MODEL = (
    "model.embed.weight", "model.block1.fc.weight", "model.block1.fc.bias", "model.block1.norm.weight",
    "model.block10.fc.weight", "model.block10.fc.bias", "scale",
)  # fmt: skip


@pytest.mark.parametrize(
    ("some", "told"),
    [
        ((), ()),
        (MODEL[:1], ("model.embed",)),
        (MODEL[1:3], ("model.block1.fc",)),
        (MODEL[1:6], ("model.block1", "model.block10")),
        (MODEL[:6], ("model",)),
        (MODEL[2:5], ("model.block1.fc.bias", "model.block1.norm", "model.block10.fc.weight")),
        (MODEL[5:], ("model.block10.fc.bias", "scale")),
    ],
)
def test_the_outermost_module_stands_for_all_its_parameters_only(some: tuple[str, ...], told: tuple[str, ...]) -> None:
    assert whole_modules(some, MODEL) == told
