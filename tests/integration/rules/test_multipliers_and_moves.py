"""Weights and multipliers that a loss trains, parameters that are moved for a second gradient, targets that were read
already, and arguments that are not what their function asks for."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms

LOOP = "for step in range(4):\n    x = torch.randn(16, 4)\n"
TASKS = """
model, w = nn.Linear(4, 3), nn.Parameter(torch.ones(3))
optimizer = torch.optim.Adam([*model.parameters(), w], lr=0.01)
"""
ERRORS = "    errors = (model(x) - x[:, :3].abs()).square().mean(0)\n"

POLICY = """
policy, value, log_alpha = nn.Linear(4, 4), nn.Linear(6, 1).requires_grad_(False), nn.Parameter(torch.zeros(1))
optimizer = torch.optim.Adam(policy.parameters(), lr=0.01)
for_alpha = torch.optim.Adam([log_alpha], lr=0.01)
"""
ACTIONS = """
    mean, log_std = policy(x).chunk(2, 1)
    normal = torch.distributions.Normal(mean, log_std.clamp(-3, 1).exp())
    action = normal.rsample()
    log_p = normal.log_prob(action).sum(1)
    q = value(torch.cat([x, action], 1)).squeeze(1)
"""
ALPHA = "    for_alpha.zero_grad()\n    alpha_loss.backward()\n    for_alpha.step()"

SHARP = """
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for step in range(4):
    x, y = torch.randn(16, 4), torch.randn(16, 1)
    optimizer.zero_grad()
    F.mse_loss(model(x), y).backward()
    norm = torch.stack([p.grad.norm() for p in model.parameters()]).norm()
    moves = [{move} * p.grad / norm for p in model.parameters()]
    with torch.no_grad():
        for p, e in zip(model.parameters(), moves):
            p.add_(e)  # HERE
    optimizer.zero_grad()
    loss = F.mse_loss(model(x), y)
    loss.backward()
"""

WRITER = """
embed, layer, head = nn.Embedding(9, 8), nn.GRU(8, 8, batch_first=True), nn.Linear(8, 9)
optimizer = torch.optim.Adam([*embed.parameters(), *layer.parameters(), *head.parameters()], lr=0.01)
for step in range(4):
    tokens = torch.randint(0, 9, (4, 7))
    scores = head(layer(embed(tokens))[0])
"""

UNCERTAIN = """
model = nn.Linear(4, 2)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(4):
    x = torch.randn(16, 4)
    y = x.sum(1) + torch.randn(16)
"""

KEPT = """
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
ema = {{p: p.detach().clone() for p in model.parameters()}}
for step in range(3):
    x, y = torch.randn(16, 4), torch.randn(16, 1)
    optimizer.zero_grad()
    F.mse_loss(model(x), y).backward()
    kept = {{}}
    with torch.no_grad():
        for p in model.parameters():
            {keep}
            {move}
    optimizer.zero_grad()
    F.mse_loss(model(x), y).backward()
    with torch.no_grad():
        for p in model.parameters():
            {back}
    optimizer.step()
"""

LEVELS = """
base = torch.randn(3, 16)
net, tell = nn.Linear(16, 16), nn.Linear(1, 16)
optimizer = torch.optim.SGD([*net.parameters(), *tell.parameters()], lr=0.01)
for step in range(3):
    x, level = torch.randn(16, 3) @ base, torch.empty(16).uniform_(0.1, 1)
"""
DENOISED = "    loss = (net(noisy) + tell(level[:, None]) - x).square().mean()\n"

SERIES = """
alphas = torch.linspace(0.95, 0.05, 20)
net = nn.Linear(33, 32)
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
for step in range(4):
    x = torch.sin(6 * torch.rand(32, 1) * torch.arange(32) / 32)
    t, noise = torch.randint(0, 20, (32,)), torch.randn(32, 32)
    level = alphas[t].unsqueeze(1)
    noisy = level.sqrt() * x + (1 - level).sqrt() * noise
    ratio = alphas[t] / (1 - alphas[t])
    weight = ratio.clamp(max=5.0) / ratio
"""
LISTS = """
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for step in range(3):
    x, y = torch.randn(16, 4), torch.randn(16, 1)
    optimizer.zero_grad()
    F.mse_loss(model(x), y).backward()
    kept = {saved}
    ps = list(model.parameters())
    with torch.no_grad():
        torch._foreach_add_(ps, [p.grad for p in ps], alpha=0.05)
    optimizer.zero_grad()
    F.mse_loss(model(x), y).backward()
    with torch.no_grad():
        torch._foreach_copy_(ps, kept)  # HERE
    optimizer.step()
"""

LAGRANGIAN = """
gates, model, raw = nn.Parameter(torch.ones(4)), nn.Linear(4, 1), nn.Parameter(torch.zeros(()))
optimizer = torch.optim.SGD([gates, *model.parameters()], lr=0.05)
dual = torch.optim.SGD([raw], lr=0.1{options})
for step in range(4):
    x = torch.randn(16, 4)
    fit, cost = F.mse_loss(model(x * gates.sigmoid()), x.sum(1, keepdim=True)), gates.sigmoid().mean()
    loss = {lagrangian}
    dual.zero_grad()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    dual.step()
"""

CONSTRAINTS = """
plan, raw, limits = nn.Linear(4, 3), nn.Parameter(torch.zeros(2)), torch.tensor([0.1, 0.2])
primal, dual = torch.optim.SGD(plan.parameters(), lr=0.1), torch.optim.SGD([raw], lr=0.1{options})
for step in range(3):
    p = F.softplus(plan(torch.randn(16, 4)))
    costs, value = torch.stack((p.mean(), p.square().mean())), F.softplus(raw)
    loss = {penalty} - p[:, 0].mean()
    primal.zero_grad()
    loss.backward(retain_graph=True)
    primal.step()
    dual_loss = {dual}
    dual.zero_grad()
    dual_loss.backward()
    dual.step()
"""

FAULTS = {
    ("multiplier_reversed", "multipliers of two constraints with dot()"): CONSTRAINTS.format(
        penalty="torch.dot(value.detach(), costs - limits)",
        dual="torch.dot(value, costs.detach() - limits)  # HERE", options="",
    ),
    ("multiplier_reversed", "the same as a sum of products"): CONSTRAINTS.format(
        penalty="(value.detach() * (costs - limits)).sum()",
        dual="((costs - limits).detach() * value).sum()  # HERE", options="",
    ),
    ("multiplier_reversed", "the same with addcmul() and einsum"): CONSTRAINTS.format(
        penalty="torch.einsum('c,c->', value.detach(), costs - limits)",
        dual="torch.addcmul(torch.zeros(2), value, costs.detach() - limits).sum()  # HERE", options="",
    ),
    ("multiplier_reversed", "a Lagrangian of several constraints"): LAGRANGIAN.format(
        lagrangian="fit + F.softplus(raw) @ (torch.stack((cost, cost**2)) - torch.tensor([0.2, 0.1]))  # HERE",
        options="",
    ).replace("torch.zeros(())", "torch.zeros(2)"),
    ("copied_onto_itself", "the way back to data that has moved, too"): KEPT.format(
        keep="kept[p] = p.data  # HERE", move="p.add_(0.05 * p.grad)", back="p.data = kept[p]"
    ),
    ("copied_onto_itself", "the way back to what detach() gave"): KEPT.format(
        keep="kept[p] = p.detach()  # HERE", move="p.data += 0.05 * p.grad", back="p.data.copy_(kept[p])"
    ),
    ("copied_onto_itself", "averaged weights that are written over the trained ones"): KEPT.format(
        keep="kept[p] = p.data  # HERE", move="p.data.copy_(ema[p])", back="p.data = kept[p]"
    ),
    ("copied_onto_itself", "the way back of a list of parameters"): LISTS.format(saved="list(model.parameters())"),
    ("copied_onto_itself", "the same of detached ones"): LISTS.format(
        saved="[p.detach() for p in model.parameters()]"
    ).replace("torch._foreach_copy_(ps, kept)  # HERE", "torch._foreach_copy_(ps, kept)").replace(
        "()]\n", "()]  # HERE\n"
    ),
    ("weights_of_losses_fall", "a parameter weighs three errors"): TASKS
    + LOOP + ERRORS + "    loss = (w * errors).sum()  # HERE" + TRAIN,
    ("weights_of_losses_fall", "softmax weighs errors, one after the other"): TASKS
    + LOOP + ERRORS + "    share = w.softmax(0)\n"
    "    loss = sum(share[i] * error for i, error in enumerate(errors.unbind()))  # HERE" + TRAIN,
    ("multiplier_reversed", "the temperature of an entropy"): POLICY
    + LOOP + ACTIONS + "    loss = (log_alpha.exp().detach() * log_p - q).mean()" + TRAIN
    + "    alpha_loss = (log_alpha * (log_p.detach() - 2.0)).mean()  # HERE\n" + ALPHA,
    ("multiplier_reversed", "the multiplier of a constraint, with the entropy itself"): POLICY
    + LOOP + ACTIONS + "    entropy = -log_p.mean()\n    alpha = F.softplus(log_alpha)\n"
    "    loss = -q.mean() - alpha.detach() * entropy" + TRAIN
    + "    alpha_loss = -alpha * (entropy.detach() - 0.5)  # HERE\n" + ALPHA,
    ("multiplier_reversed", "a Lagrangian that is minimized as a whole"): LAGRANGIAN.format(
        lagrangian="fit + F.softplus(raw) * (cost - 0.2)  # HERE", options=""
    ),
    ("multiplier_reversed", "the same with exp() and a sum"): LAGRANGIAN.format(
        lagrangian="torch.add(fit, raw.exp().mul(cost.add(-0.2)))  # HERE", options=""
    ),
    ("not_moved_back", "a sharpness-aware step without the way back"): SHARP.format(move="0.05")
    + "    optimizer.step()",
    ("not_moved_back", "the same through data"): SHARP.format(move="0.05").replace("p.add_(e)", "p.data.add_(e)")
    + "    optimizer.step()",
    ("targets_are_inputs", "scores and targets are cut at the wrong ends"): WRITER
    + "    loss = F.cross_entropy(scores[:, 1:].reshape(-1, 9), tokens[:, :-1].reshape(-1))  # HERE" + TRAIN,
    ("batch_meets_last_axis", "advantages of as many samples as actions have numbers"): """
policy = nn.Linear(4, 32)
optimizer = torch.optim.Adam(policy.parameters(), lr=0.01)
for step in range(3):
    mean, log_std = policy(torch.randn(16, 4)).chunk(2, 1)
    normal = torch.distributions.Normal(mean, log_std.exp())
    action = normal.sample()
    reward = -(action - 1).square().sum(1)
    advantage = (reward - reward.mean()) / reward.std()
    loss = -(normal.log_prob(action) * advantage).mean()  # HERE""" + TRAIN,
    ("batch_meets_last_axis", "levels of noise that are expanded"): LEVELS
    + "    noisy = torch.addcmul(x, torch.randn_like(x), level.expand_as(x))  # HERE\n" + DENOISED + TRAIN,
    ("batch_meets_last_axis", "levels of noise as standard deviations of a draw"): LEVELS
    + "    noisy = torch.normal(x, level.expand_as(x))  # HERE\n" + DENOISED + TRAIN,
    ("batch_meets_last_axis", "levels of noise with an axis in front"): LEVELS
    + "    noisy = x + torch.randn_like(x).mul_(level[None])  # HERE\n" + DENOISED + TRAIN,
    ("batch_meets_last_axis", "levels of noise in an einsum"): LEVELS
    + "    noisy = x + torch.einsum('nd,d->nd', torch.randn_like(x), level)  # HERE\n" + DENOISED + TRAIN,
    ("batch_meets_last_axis", "levels of noise as weights of square pictures"): LEVELS.replace("16, 3", "16, 2, 16, 3")
    + "    noisy = torch.lerp(x, torch.randn_like(x), level)  # HERE\n"
    + DENOISED.replace("tell(level[:, None])", "tell(level[:, None])[:, None, None]") + TRAIN,
    ("batch_meets_last_axis", "weights of levels, in a loss of series"): SERIES
    + "    loss = (weight * (net(torch.cat([noisy, level], 1)) - noise).pow(2)).mean()  # HERE" + TRAIN,
    ("argument_out_of_range", "the logarithm of a variance"): UNCERTAIN
    + "    mu, logvar = model(x).unbind(1)\n"
    "    loss = F.gaussian_nll_loss(mu, y, logvar.clamp(min=1e-3))  # HERE" + TRAIN,
    ("argument_out_of_range", "a standard deviation"): UNCERTAIN
    + "    mu, s = model(x).unbind(1)\n    sigma = F.softplus(s)\n"
    "    loss = F.gaussian_nll_loss(mu, y, sigma)  # HERE" + TRAIN,
}  # fmt: skip

HEALTHY = {
    "weights of levels for each series": SERIES
    + "    loss = (weight[:, None] * (net(torch.cat([noisy, level], 1)) - noise).pow(2)).mean()" + TRAIN,
    "weights of positions, as many as there are series": SERIES
    + "    weight = torch.linspace(1, 0.1, 32)\n"
    "    loss = (weight * (net(torch.cat([noisy, level], 1)) - noise).pow(2)).mean()" + TRAIN,
    "a sample that is reparameterized, and its own density": """
reads, net = nn.Linear(6, 8), nn.Linear(4, 6)
optimizer = torch.optim.Adam([*reads.parameters(), *net.parameters()], lr=0.01)
for step in range(4):
    x = (torch.rand(16, 6) < 0.3).float()
    mean, log_var = reads(x).chunk(2, -1)
    z = mean + (0.5 * log_var).exp() * torch.randn_like(mean)
    log_q = -0.5 * (log_var + (z - mean).pow(2) / log_var.exp()).sum(-1)
    fit = F.binary_cross_entropy_with_logits(net(z), x, reduction="none").sum(-1)
    loss = (fit + log_q + 0.5 * z.square().sum(-1)).mean()""" + TRAIN,
    "levels of noise of each sample": LEVELS
    + "    noisy = torch.addcmul(x, torch.randn_like(x), level[:, None].expand_as(x))\n" + DENOISED + TRAIN,
    "levels of noise of each sample in an einsum": LEVELS
    + "    noisy = x + torch.einsum('nd,n->nd', torch.randn_like(x), level)\n" + DENOISED + TRAIN,
    "a scale of each column, and levels of each sample": LEVELS
    + "    scale = torch.rand(16)\n    noisy = x * scale.expand_as(x) + level[:, None] * torch.randn_like(x)\n"
    + DENOISED + TRAIN,
    "a table of all pairs, with numbers of each sample on both axes": LEVELS
    + "    near = torch.cdist(x, x) - level[None] - level[:, None]\n"
    "    noisy = near.softmax(1) @ x\n" + DENOISED + TRAIN,
    "the way back to a copy": KEPT.format(
        keep="kept[p] = p.data.clone()", move="p.add_(0.05 * p.grad)", back="p.data = kept[p]"
    ),
    "the way back to memory of its own": KEPT.format(
        keep="kept[p] = p.data", move="p.data = p.data + 0.05 * p.grad", back="p.data = kept[p]"
    ),
    "other memory that is written to for a time": KEPT.format(
        keep="kept[p] = p.data", move="p.data = p.data + 0.05 * p.grad; p.mul_(0.9)", back="p.data = kept[p]"
    ),
    "what was changed is assigned back": KEPT.format(
        keep="moved = 0.05 * p.grad", move="kept[p] = moved; p.add_(moved)",
        back="w = p.data; w.sub_(kept[p]); p.data = w",
    ),
    "weights that a logarithm holds": TASKS
    + LOOP + ERRORS + "    loss = (torch.exp(-w) * errors + w).sum()" + TRAIN,
    "weights that a term of their own holds": TASKS
    + LOOP + ERRORS + "    loss = (w * errors).sum() + (w.sum() - 3).square()" + TRAIN,
    "a scale of what a model computes": TASKS
    + LOOP + "    loss = ((w * model(x)).sum(1) - x.sum(1)).square().mean()" + TRAIN,
    "a temperature that works against what it weighs": POLICY
    + LOOP + ACTIONS + "    loss = (log_alpha.exp().detach() * log_p - q).mean()" + TRAIN
    + "    alpha_loss = -(log_alpha * (log_p.detach() - 2.0)).mean()\n" + ALPHA,
    "a weight with a term that holds it": POLICY
    + LOOP + ACTIONS + "    error = q.square().mean()\n    loss = log_alpha.exp().detach() * error" + TRAIN
    + "    alpha_loss = log_alpha.exp() * error.detach() - log_alpha\n" + ALPHA,
    "the way back of a list of copies": LISTS.format(saved="[p.clone() for p in model.parameters()]"),
    "multipliers of two constraints that go up": CONSTRAINTS.format(
        penalty="torch.dot(value.detach(), costs - limits)",
        dual="-torch.dot(value, costs.detach() - limits)", options="",
    ),
    "multipliers of two constraints that go up by their optimizer": CONSTRAINTS.format(
        penalty="torch.dot(value.detach(), costs - limits)",
        dual="torch.dot(value, costs.detach() - limits)", options=", maximize=True",
    ),
    "multipliers of two constraints with a negative product": CONSTRAINTS.format(
        penalty="(value.detach() * (costs - limits)).sum()",
        dual="torch.addcmul(torch.zeros(2), value, costs.detach() - limits, value=-1).sum()", options="",
    ),
    "weights of two costs that both losses lower": CONSTRAINTS.format(
        penalty="torch.dot(value.detach(), costs)", dual="torch.dot(value, costs.detach()) - value.log().sum()",
        options="",
    ),
    "a Lagrangian with a multiplier that goes up": LAGRANGIAN.format(
        lagrangian="fit + F.softplus(raw) * (cost - 0.2)", options=", maximize=True"
    ),
    "a multiplier of a constraint with a term of its own": LAGRANGIAN.format(
        lagrangian="fit + F.softplus(raw) * (cost - 0.2) + (raw - 1).square()", options=""
    ),
    "a learned number that scales a prediction": LAGRANGIAN.format(
        lagrangian="fit + (F.softplus(raw) * (cost - 0.2) - 0.3).square()", options=""
    ),
    "a sharpness-aware step": SHARP.format(move="0.05")
    + "    with torch.no_grad():\n        for p, e in zip(model.parameters(), moves):\n            p.sub_(e)\n"
    "    optimizer.step()",
    "a step by hand down the first gradient": SHARP.format(move="-0.05") + "    optimizer.step()",
    "scores and targets are cut at the right ends": WRITER
    + "    loss = F.cross_entropy(scores[:, :-1].reshape(-1, 9), tokens[:, 1:].reshape(-1))" + TRAIN,
    "a prefix is cut off in front": WRITER.replace(
        "embed(tokens)", "torch.cat([torch.ones(4, 3, 8), embed(tokens)], 1)"
    ) + "    loss = F.cross_entropy(scores[:, 3:-1].reshape(-1, 9), tokens[:, 1:].reshape(-1))" + TRAIN,
    "an adjacency matrix with its degrees on both sides": """
features, layer = nn.Linear(4, 16), nn.Linear(16, 2)
optimizer = torch.optim.Adam([*features.parameters(), *layer.parameters()], lr=0.01)
x = torch.randn(16, 4)
for step in range(3):
    h = features(x)
    near = torch.sigmoid(h @ h.T)
    scale = near.sum(1).rsqrt()
    loss = layer((scale[:, None] * near * scale) @ h).square().mean()""" + TRAIN,
    "a variance": UNCERTAIN
    + "    mu, logvar = model(x).unbind(1)\n    sigma2 = F.softplus(logvar)\n"
    "    loss = F.gaussian_nll_loss(mu, y, sigma2) + F.gaussian_nll_loss(mu, y, logvar.exp())" + TRAIN,
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
