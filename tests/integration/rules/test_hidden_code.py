"""What ``check`` says where it does not see every call: no more than it knows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms

LAYERS = """
class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 1)
    def forward(self, x):
        return self.b(self.a(x).detach())
"""
LOOP = """
for step in range(3):
    loss = head(body(torch.randn(8, 4))).square().mean()
"""


@pytest.mark.filterwarnings("ignore:`torch.jit.*` is deprecated:DeprecationWarning")
@pytest.mark.parametrize("body", ["nn.Identity()", "nn.Linear(4, 4)"])
def test_parameters_that_only_torchscript_may_use_are_not_called_unused(body: str, tmp_path: Path) -> None:
    made = f"body, head = {body}, torch.jit.script(Head())\n"
    optimizer = "optimizer = torch.optim.SGD([*body.parameters(), *head.parameters()], lr=0.1)\n"
    found = alarms(HEAD + LAYERS + made + optimizer + LOOP + TRAIN, tmp_path)
    assert {each.cause for each in found} == {"unused_parameter"}
    assert all(
        "TorchScript, but no backward reaches" in each.message or "from code below Python" in each.message
        for each in found
    )
    assert all("PYTORCH_JIT=0" in (each.fix or "") for each in found)
