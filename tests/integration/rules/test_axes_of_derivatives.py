"""Derivatives of several outputs, norms and normalizations along the wrong axis, channels laid out as positions,
and gradients that a program only asks for."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms

FIELD = """
net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 2))
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
def d(out, x):
    return torch.autograd.grad(out, x, torch.ones_like(out), create_graph=True)[0]
for step in range(3):
    x = torch.rand(16, 2, requires_grad=True)
    v = net(x)
"""
EQUATION = FIELD.replace("nn.Linear(8, 2)", "nn.Linear(8, 1)").replace("v = net(x)", "u = net(x)")
EQUATION = EQUATION.replace("def d(", "def s(out, x):\n    return d(out.sum(), x)\ndef d(")
EACH = EQUATION.replace("nn.Linear(2, 8)", "nn.Linear(1, 8)").replace(
    "net(x)", "(net(x.unsqueeze(-1)) * w)[..., 0].sum(1)"
)
EACH = EACH.replace("for step", "w = torch.rand(1)\nfor step")
VIEWS = """
model = nn.Linear(4, 8)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(3):
    x = torch.randn(16, 1, 4)
    h = model(x)
"""
DETECTOR = """
body = nn.Conv2d(3, 12, 3, padding=1)
optimizer = torch.optim.Adam(body.parameters(), lr=0.01)
for step in range(3):
    p = body(torch.randn(4, 3, 5, 5))
"""
CLIPPED = """
model = nn.Linear(4, 3)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
per_sample = torch.func.vmap(torch.func.grad(
    lambda w, x, y: F.cross_entropy(torch.func.functional_call(model, w, (x[None],)), y[None])), (None, 0, 0))
for step in range(3):
    x, y = torch.randn(16, 4), torch.randint(0, 3, (16,))
    g = per_sample({name: p.detach() for name, p in model.named_parameters()}, x, y)["weight"]
    norm = g.flatten(1).norm({norm})
    with torch.no_grad():
        model.weight -= 0.1 * (g / norm.clamp(min=1.0).reshape(-1, 1, 1)).mean(0)
    loss = F.cross_entropy(model(x), y)"""

MOTION = """
net = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 2))
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
turn = torch.tensor([[0.0, -1.0], [1.0, 0.0]])
for step in range(3):
    t = torch.rand(16, 1, requires_grad=True)
"""
RATE = (
    MOTION.replace(
        "for step",
        "def rate_of(u, t):\n    return torch.autograd.grad(u, t, torch.ones_like(u), create_graph=True)[0]\nfor step",
    )
    + "    u = net(t)\n    place, speed = u[:, :1], u[:, 1:]\n"
)
FAULTS = {
    ("outputs_summed", "the derivative of two outputs by time"): MOTION
    + "    u = net(t)\n    rate, = torch.autograd.grad(u, t, torch.ones_like(u), create_graph=True)\n"
    "    loss = (rate - u @ turn).square().mean()  # HERE" + TRAIN,
    ("outputs_summed", "a pullback of ones"): MOTION
    + "    u, pullback = torch.func.vjp(net, t.detach())\n    rate = 2 * pullback(torch.ones_like(u))[0]\n"
    "    loss = F.mse_loss(rate.expand_as(u), u @ turn)  # HERE" + TRAIN,
    ("outputs_summed", "the derivative of a sum by time"): MOTION
    + "    u = net(t)\n    rate = torch.autograd.grad(u.sum(), t, create_graph=True)[0].neg()\n"
    "    loss = torch.add(rate, u).square().mean()  # HERE" + TRAIN,
    ("outputs_summed", "the derivative of two outputs for that of each"): RATE
    + "    rate = rate_of(u, t)  # HERE\n"
    "    loss = (rate - speed).square().mean() + (rate + 2 * place).square().mean()" + TRAIN,
    ("outputs_summed", "a divergence of one derivative"): FIELD
    + "    g = d(v, x)\n    loss = (g[:, 0] + g[:, 1]).square().mean()  # HERE" + TRAIN,
    ("outputs_summed", "a pullback of ones that is added up"): FIELD
    + "    def divergence(x):\n        out, pullback = torch.func.vjp(net, x)\n"
    "        return pullback(torch.ones_like(out))[0].sum(-1)  # HERE\n"
    "    loss = divergence(x.detach()).square().mean()" + TRAIN,
    ("outputs_summed", "a derivative of a sum that is added up"): FIELD
    + "    div = torch.autograd.grad(v.sum(), x, create_graph=True)[0].sum(1)  # HERE\n"
    "    loss = div.square().mean()" + TRAIN,
    ("outputs_summed", "columns that stay columns"): FIELD
    + "    u_x, v_y = d(v, x)[:, :1], d(v, x)[:, 1:]\n    g = d(v, x)\n"
    "    loss = (g[:, :1] + g[:, 1:]).square().mean()  # HERE" + TRAIN,
    ("outputs_summed", "a sum of outputs that are used on their own"): FIELD
    + "    g = d(v.sum(), x)\n    loss = (g[:, 0] + v[:, 0] * v[:, 1]).square().mean()  # HERE" + TRAIN,
    ("outputs_summed", "a column of the derivative of a whole gradient"): EQUATION
    + "    g = s(u, x)\n    h = s(g, x)  # HERE\n    loss = (g[:, 1] - h[:, 0]).square().mean()" + TRAIN,
    ("outputs_summed", "the same with ones, put together from columns, and split"): EQUATION
    + "    u_x, u_t = d(u, x).unbind(1)\n    h = d(torch.stack([u_x, u_t], 1), x)  # HERE\n"
    "    u_xx, u_tt = h.split(1, dim=-1)\n    loss = (u_tt - u_xx).square().mean()" + TRAIN,
    ("outputs_summed", "a Laplacian as a sum"): EQUATION
    + "    g = -2 * d(u, x)\n    loss = (d(g, x).sum(dim=1) - 1).square().mean()  # HERE" + TRAIN,
    ("normalized_alone", "the default axis of a batch with one channel"): VIEWS
    + "    z = F.normalize(h)  # HERE\n    loss = (z - 0.3).square().mean()" + TRAIN,
    ("axes_mixed_up", "the numbers of each anchor behind the positions"): DETECTOR
    + "    p = p.view(4, 5, 5, 2, 6)  # HERE\n    loss = p[..., 0].square().mean() + p[..., 1:].abs().mean()" + TRAIN,
    ("one_norm_for_all_samples", "the order of a norm for its axis"): CLIPPED.replace("{norm})", "1)  # HERE") + TRAIN,
}  # fmt: skip
HEALTHY = {
    "two amounts of which together only the second changes": RATE
    + "    loss = (rate_of(u, t) + 0.5 * speed).square().mean() + (place - 1).square().mean()" + TRAIN,
    "a derivative for each of two outputs, from a function": RATE
    + "    loss = (rate_of(place, t) - speed).square().mean() + (rate_of(speed, t) + place).square().mean()" + TRAIN,
    "one derivative by time for each output": MOTION
    + "    u = net(t)\n    rate = torch.cat([torch.autograd.grad(u[:, i].sum(), t, create_graph=True)[0]\n"
    "                      for i in range(2)], 1)\n    loss = (rate - u @ turn).square().mean()" + TRAIN,
    "a tangent by time": MOTION
    + "    u, rate = torch.func.jvp(net, (t.detach(),), (torch.ones(16, 1),))\n"
    "    loss = (rate - u @ turn).square().mean()" + TRAIN,
    "the derivative of a single output by time": MOTION.replace("nn.Linear(8, 2)", "nn.Linear(8, 1)")
    + "    u = net(t)\n    rate, = torch.autograd.grad(u, t, torch.ones_like(u), create_graph=True)\n"
    "    loss = (rate + u).square().mean()" + TRAIN,
    "a derivative of each column": FIELD
    + "    loss = (d(v[:, 0], x)[:, 0] + d(v[:, 1], x)[:, 1]).square().mean()" + TRAIN,
    "the trace of a whole Jacobian": FIELD
    + "    divergence = torch.func.vmap(torch.func.jacrev(net))(x.detach()).diagonal(dim1=1, dim2=2).sum(-1)\n"
    "    loss = divergence.square().mean() + v.square().mean()" + TRAIN,
    "the sum of forces": FIELD + "    force = -d(v, x)\n    loss = (force.sum(1) - 1).square().mean()" + TRAIN,
    "the whole derivative of a sum": FIELD + "    loss = d(v, x).square().mean()" + TRAIN,
    "a sum of terms that are not used on their own": FIELD
    + "    g = d(F.softplus(v).sum(), x)\n    loss = ((g[:, 0] - 1).square() + (g[:, 1] + 1).square()).mean()" + TRAIN,
    "a second derivative of each column": EQUATION
    + "    g = s(u, x)\n    loss = (sum(s(g[:, i], x)[:, i] for i in range(2)) - u[:, 0]).square().mean()" + TRAIN,
    "coordinates that no layer mixes": EACH
    + "    h = s(s(u, x), x)\n    loss = (h[:, 0] + h[:, 1] - u).square().mean()" + TRAIN,
    "the trace by random signs": EQUATION
    + "    g = s(u, x)\n    signs = torch.randint(0, 2, g.shape) * 2.0 - 1\n"
    "    loss = ((s(g * signs, x) * signs).sum(1) - u[:, 0]).square().mean()" + TRAIN,
    "the gradient of a squared gradient": EQUATION
    + "    h = s(s(u, x).square(), x)\n    loss = (h[:, 0] - u[:, 0]).square().mean()" + TRAIN,
    "elementwise derivatives": FIELD.replace("v = net(x)", "v = torch.sin(3 * x)")
    + "    g = d(v, x)\n    loss = (g[:, 0] + g[:, 1] - net(x).sum(1)).square().mean()" + TRAIN,
    "the axis of the features": VIEWS
    + "    z = F.normalize(h, dim=-1)\n    loss = (z - 0.3).square().mean()" + TRAIN,
    "channels that are exchanged first": DETECTOR
    + "    p = p.permute(0, 2, 3, 1).reshape(4, 5, 5, 2, 6)\n    loss = p[..., 0].square().mean()" + TRAIN,
    "anchors in front of the positions": DETECTOR
    + "    p = p.view(4, 2, 6, 5, 5)\n    loss = p[:, :, 0].square().mean() + p[:, :, 1:].abs().mean()" + TRAIN,
    "a norm of each sample": CLIPPED.replace("{norm}", "dim=1") + TRAIN,
    "frozen parameters that are asked whether they have a gradient": """
model = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 3))
model[0].requires_grad_(False)
optimizer = torch.optim.Adam(model[1].parameters(), lr=0.01)
for step in range(3):
    x, y = torch.randn(16, 4), torch.randint(0, 3, (16,))
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    print({n: p.grad.norm().item() for n, p in model.named_parameters() if p.grad is not None})
    optimizer.step()
""",
}  # fmt: skip


@pytest.mark.parametrize(("cause", "name"), FAULTS)
def test_a_fault_is_told_at_its_line(cause: str, name: str, tmp_path: Path) -> None:
    script = HEAD + FAULTS[cause, name]
    wanted = next(number for number, line in enumerate(script.splitlines(), 1) if line.endswith("# HERE"))
    assert [each.location.line for each in alarms(script, tmp_path) if each.cause == cause and each.location] == [
        wanted
    ]


@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_program_raises_no_alarm(name: str, tmp_path: Path) -> None:
    assert [each.message for each in alarms(HEAD + HEALTHY[name], tmp_path)] == []
