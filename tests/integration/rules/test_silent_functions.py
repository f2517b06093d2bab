"""Custom functions that return None for an input that requires grad, beside other lines that cut."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

SPIKE = """
class Spike(torch.autograd.Function):
    @staticmethod
    def forward(ctx, v, threshold):
        ctx.save_for_backward(v - threshold)
        return (v > threshold).float()
    @staticmethod
    def backward(ctx, grad):
        (gap,) = ctx.saved_tensors
        slope = 1 / (1 + gap.abs()) ** 2
        return {returned}  # HERE
"""
OWN_CONTEXT = """
class Spike(torch.autograd.Function):
    @staticmethod
    def forward(v, threshold):
        return (v > threshold).float()
    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0] - inputs[1])
    @staticmethod
    def backward(ctx, grad):
        (gap,) = ctx.saved_tensors
        return grad / (1 + gap.abs()) ** 2, None  # HERE
"""
NET = (
    """
class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.threshold = nn.Linear(4, 4), nn.Parameter(torch.full((4,), 0.2))
    def forward(self, x):
        v, spikes = torch.zeros(x.shape[0], 4), []
        for t in range(x.shape[1]):
            v = 0.9 * v + self.fc(x[:, t])
            spikes.append(Spike.apply(v, self.threshold))
            {reset}
        return torch.stack(spikes, 1)
model = nn.ModuleDict({{"one": Layer(), "two": Layer(), "head": nn.Linear(4, 2)}})
optimizer = torch.optim.Adam(model.parameters())
for step in range(4):
    x, y = torch.randn(16, 5, 4), torch.randint(0, 2, (16,))
    loss = F.cross_entropy(model["head"]({between}).mean(1)), y)
"""
    + TRAIN
)
BOTH = "model['two'](model['one'](x)"
LEFT_OUT, GIVEN = "grad * slope, None", "grad * slope, -(grad * slope).sum(0)"
RESET = "v = v * (1 - spikes[-1].detach())"
WRONG = {
    "a reset that is detached": SPIKE.format(returned=LEFT_OUT) + NET.format(reset=RESET, between=BOTH),
    "a subtraction of the threshold that is detached": SPIKE.format(returned=LEFT_OUT)
    + NET.format(reset="v = v - (spikes[-1] * self.threshold).detach()", between=BOTH),
    "a reset by data": SPIKE.format(returned=LEFT_OUT)
    + NET.format(reset="v = torch.where(spikes[-1].data > 0, torch.zeros_like(v), v)", between=BOTH),
    "a reset without gradients": OWN_CONTEXT
    + NET.format(reset="with torch.no_grad():\n                keep = 1 - spikes[-1]\n            v = v * keep",
                 between=BOTH),
}  # fmt: skip
QUANTIZE = (
    """
class Quantize(torch.autograd.Function):
    @staticmethod
    def forward(ctx, z, codes):
        return codes[torch.cdist(z, codes).argmin(1)]
    @staticmethod
    def backward(ctx, grad):
        return grad, None
encoder, decoder, codes = nn.Linear(4, 3), nn.Linear(3, 4), nn.Parameter(torch.randn(6, 3))
optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters(), codes])
for step in range(4):
    x = torch.randn(16, 4)
    z = encoder(x)
    near = codes[torch.cdist(z, codes).argmin(1)]
    loss = F.mse_loss(decoder(Quantize.apply(z, codes)), x) + F.mse_loss(near, z.detach())
    loss = loss + 0.25 * F.mse_loss(z, near.detach())
"""
    + TRAIN
)
RIGHT = {
    "a gradient for the threshold": SPIKE.format(returned=GIVEN) + NET.format(reset=RESET, between=BOTH),
    "codes that another term trains": QUANTIZE,
    "a threshold that is no parameter": SPIKE.format(returned=LEFT_OUT)
    + NET.format(reset=RESET, between=BOTH).replace("nn.Parameter(torch.full((4,), 0.2))", "0.2"),
}


@pytest.mark.parametrize("name", WRONG)
def test_the_function_explains_what_another_cut_would_too(name: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + WRONG[name], "custom_function_bad_return", tmp_path)
    (found,) = alarms(HEAD + WRONG[name], tmp_path)
    assert found.tensors == ("model.one.threshold", "model.two.threshold")


@pytest.mark.parametrize("name", RIGHT)
def test_functions_that_starve_nothing_are_right(name: str, tmp_path: Path) -> None:
    assert alarms(HEAD + RIGHT[name], tmp_path) == []


def test_a_cut_of_other_parameters_is_told_beside_it(tmp_path: Path) -> None:
    script = SPIKE.format(returned=LEFT_OUT) + NET.format(reset=RESET, between="model['two'](model['one'](x).detach()")
    found = {each.cause: each.tensors for each in alarms(HEAD + script, tmp_path)}
    assert "model.one.fc.weight" in found["detached"]
    assert "model.two.threshold" not in found["detached"]
    assert found["custom_function_bad_return"] == ("model.two.threshold",)
