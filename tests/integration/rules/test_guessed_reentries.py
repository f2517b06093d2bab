"""What a tensor was computed from, for all rules: not from a number that was only shown before."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from tests.integration.rules.checked_scripts import HEAD, TRAIN, recorded

SCRIPT = (
    HEAD + "model = nn.Linear(4, 1)\noptimizer = torch.optim.SGD(model.parameters(), lr=0.05)\n"
    "for step in range(3):\n    x = torch.randn(16, 4)\n    out = model(x)\n    {}\n"
    "    noise = torch.randn(16, 1) * sigma\n    loss = (out + noise.cos()).square().mean()" + TRAIN
)
SHOWN = {
    "printed": "print(out.tanh().mean().item())\n    sigma = 0.97 ** step / 3",
    "under a name that is only shown": "seen = out.tanh().mean().item()\n    sigma = 0.97 ** step / 3\n    print(seen)",
    "as an array": "print(out.tanh().detach().numpy().max())\n    sigma = torch.tensor(0.97 ** step / 3)",
}
GIVEN_ON = {
    "through a name": "size = out.tanh().mean().item()\n    sigma = 0.97 ** step / (3 + size)",
    "on one line": "sigma = 0.97 ** step / (3 + out.tanh().mean().item())",
    "through a list": "sizes = []\n    sizes.append(out.tanh().mean().item() / 3)\n    sigma = 1 + sizes[-1]",
    "as an array": "sizes = out.tanh().detach().numpy()\n    sigma = torch.tensor(sizes.max() / 3)",
}


@pytest.mark.parametrize("name", SHOWN)
def test_nothing_is_computed_from_a_number_that_is_only_shown(name: str, tmp_path: Path) -> None:
    above = above_cos(SHOWN[name], tmp_path)
    assert "randn" in above
    assert "tanh" not in above


@pytest.mark.parametrize("name", GIVEN_ON)
def test_what_names_give_on_is_computed_with(name: str, tmp_path: Path) -> None:
    assert {"randn", "tanh"} <= above_cos(GIVEN_ON[name], tmp_path)


def test_without_a_source_a_guess_stands(tmp_path: Path) -> None:
    log = recorded(SCRIPT.format(SHOWN["printed"]), tmp_path).dataflow.log
    assert "tanh" in _above_cos(Dataflow(log))


def above_cos(lines: str, folder: Path) -> set[str]:
    """The calls from whose results the argument of ``cos()`` was computed in the last step."""
    return _above_cos(recorded(SCRIPT.format(lines), folder).dataflow)


def _above_cos(flow: Dataflow) -> set[str]:
    calls = flow.log.calls
    row = max(number for number, call in enumerate(calls) if plain_name(call.function) == "cos")
    rows = flow.ancestors(calls[row].inputs[0].tensor, row, flow.step_before(row))
    return {plain_name(calls[each].function) for each in rows}
