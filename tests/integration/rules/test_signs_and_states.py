"""Signs and states that are not those that are meant: overlaps that are minimized, velocities that point backwards,
entropies that are a cost in one place, schedules of one step, targets that never follow, states of other samples."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

# -- overlaps ----------------------------------------------------------------------------------------------------------

AREAS = (
    HEAD
    + """
model = nn.Conv2d(1, {channels}, 3, padding=1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
{helper}
for step in range(3):
    x = torch.randn(4, 1, 6, 6)
    y, other = (x > 0.5).float(), (torch.rand(4, 1, 6, 6) > 0.5).float()
    out = model(x)
    p = torch.sigmoid(out)
    inter = (p * y).sum((1, 2, 3))
    dice = (2 * inter + 1) / (p.sum((1, 2, 3)) + y.sum((1, 2, 3)) + 1)
{loss}"""
    + TRAIN
)


def areas(loss: str, helper: str = "", channels: int = 1) -> str:
    return AREAS.format(loss=loss, helper=helper, channels=channels)


SCORE = """
def dice_of(p, t):
    p, t = p.flatten(1), t.flatten(1)
    return ((2 * (p * t).sum(1) + 1) / (p.pow(2).sum(1) + t.pow(2).sum(1) + 1)).mean()
"""
COUNTS = "    tp, fp, fn = (p * y).sum(), (p * (1 - y)).sum(), ((1 - p) * y).sum()\n"

# -- paths of flows and diffusions -------------------------------------------------------------------------------------

PATHS = (
    HEAD
    + """
net = nn.Sequential(nn.Linear(3, 8), nn.SiLU(), nn.Linear(8, 2))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
pool = 0.3 * torch.randn(50, 2) + 2
{table}
for step in range(3):
    x = pool[torch.randint(0, 50, (16,))]
    e, t = torch.randn_like(x), torch.rand(16, 1)
{loss}"""
    + TRAIN
    + "{sampler}"
)
SAMPLER = """
z = torch.randn(8, 2)
with torch.no_grad():
    for i in range(5):
        z = z {sign} 0.2 * net(torch.cat([z, torch.full((8, 1), {time})], 1))
"""


def flow(mixture: str, target: str, sampler: str = "", answer: str = "net(torch.cat([x_t, t], 1))") -> str:
    loss = f"    x_t = {mixture}\n    target = {target}  # HERE\n    loss = F.mse_loss({answer}, target)\n"
    return PATHS.format(table="", loss=loss, sampler=sampler)


def diffusion(table: str, mixture: str, looked_up: str = "a = alphas[k][:, None]  # HERE") -> str:
    loss = (
        f"    k = torch.randint(0, 100, (16,))\n    {looked_up}\n    x_t = {mixture}\n"
        "    loss = F.mse_loss(net(torch.cat([x_t, k[:, None] / 100], 1)), e)\n"
    )
    return PATHS.format(table=f"betas = torch.linspace(1e-4, 0.02, 100)\n{table}", loss=loss, sampler="")


FORWARDS, BACKWARDS = "i / 5", "1 - i / 5"
CURVE = "torch.cos(1.5 * t) * e + torch.sin(1.5 * t) * x"
ALONG = SAMPLER.format(sign="+", time=FORWARDS)
ROOTS = "a.sqrt() * x + (1 - a).sqrt() * e"

# -- reinforcement -----------------------------------------------------------------------------------------------------

VALUES = (
    HEAD
    + """
{networks}
optimizer = torch.optim.SGD(q.parameters(), lr=0.1)
for step in range(5):
    s, a, r, s2 = torch.randn(8, 4), torch.randint(0, 3, (8,)), torch.randn(8), torch.randn(8, 4)
    done = (torch.rand(8) < 0.1).float()
    with torch.no_grad():
        y = {target}
    loss = F.mse_loss(q(s).gather(1, a[:, None]).squeeze(1), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()  # HERE
{after}"""
)
COPIED = "q = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))\ntq = copy.deepcopy(q)"
LOADED = "q, tq = nn.Linear(4, 3), nn.Linear(4, 3)\ntq.load_state_dict(q.state_dict())"
FROZEN = (
    "q = nn.Linear(4, 3)\ndef freeze(net):\n    return {{k: v.detach().clone() for k, v in net.named_parameters()}}\n"
    "kept = freeze(q)\ndef renew(kept, net):\n    {renew}"
)
OF_FROZEN = "r + 0.9 * (1 - done) * torch.func.functional_call(q, kept, (s2,)).amax(1)"
BEST = "r + 0.9 * (1 - done) * tq(s2).max(1)[0]"


def values(networks: str, target: str = BEST, after: str = "") -> str:
    return VALUES.format(networks=networks, target=target, after=after)


SOFT = (
    HEAD
    + """
actor, q = nn.Linear(4, 2), nn.Linear(5, 1)
log_alpha = torch.zeros(1, requires_grad=True)
of_actor = torch.optim.SGD(actor.parameters(), lr=0.1)
of_q = torch.optim.SGD(q.parameters(), lr=0.1)
of_alpha = torch.optim.SGD([log_alpha], lr=0.1)

def act(s):
    mu, log_std = actor(s).chunk(2, 1)
    std = log_std.clamp(-5, 2).exp()
    u = mu + std * torch.randn_like(mu)
    action = torch.tanh(u)
    score = {score}
    return action, score - torch.log(1 - action.pow(2) + 1e-6)

for step in range(3):
    alpha = {alpha}
    s, a, r, s2 = torch.randn(8, 4), torch.rand(8, 1) * 2 - 1, torch.randn(8, 1), torch.randn(8, 4)
    with torch.no_grad():
        a2, lp2 = act(s2)
        y = {target}
    error = F.mse_loss(q(torch.cat([s, a], 1)), y)
    of_q.zero_grad()
    error.backward()
    of_q.step()
    a3, lp = act(s)
    worth = q(torch.cat([s, a3], 1))
    actor_loss = {actor_loss}
    alpha_loss = {alpha_loss}
{steps}
"""
)
TORCH = "torch.distributions.Normal(mu, std).log_prob(u)"
BY_HAND = "-0.5 * (((u - mu) / std) ** 2 + 2 * log_std.clamp(-5, 2) + 1.8378770664093453)"
APART = (
    "    of_actor.zero_grad()\n    actor_loss.backward(retain_graph=True)\n    of_actor.step()\n"
    "    of_alpha.zero_grad()\n    alpha_loss.backward()\n    of_alpha.step()\n"
)
TOGETHER = (
    "    of_actor.zero_grad()\n    of_alpha.zero_grad()\n    (actor_loss + alpha_loss).backward()\n"
    "    of_actor.step()\n    of_alpha.step()\n"
)


def soft(
    *,
    score: str = TORCH,
    alpha: str = "log_alpha.exp().detach()",
    target: str = "r + 0.9 * (q(torch.cat([s2, a2], 1)) - alpha * lp2)",
    actor_loss: str = "(alpha * lp - worth).mean()",
    alpha_loss: str = "-(log_alpha * (lp.detach() - 1)).mean()",
    steps: str = APART,
) -> str:
    return SOFT.format(
        score=score, alpha=alpha, target=target, actor_loss=actor_loss, alpha_loss=alpha_loss, steps=steps
    )


ADDED = "r + 0.9 * (q(torch.cat([s2, a2], 1)) + alpha * lp2)  # HERE"

DISCRETE = (
    HEAD
    + """
pi, q, slow = nn.Linear(4, 3), nn.Linear(4, 3), nn.Linear(4, 3)
of_q, of_pi = torch.optim.SGD(q.parameters(), lr=0.1), torch.optim.SGD(pi.parameters(), lr=0.1)
for step in range(3):
    s, s2, r, a = torch.randn(8, 4), torch.randn(8, 4), torch.randn(8), torch.randint(0, 3, (8, 1))
    with torch.no_grad():
        d = torch.distributions.Categorical(logits=pi(s2))
        v = {target}
        y = r + 0.9 * v
    error = F.mse_loss(q(s).gather(1, a).squeeze(1), y)
    of_q.zero_grad()
    error.backward()
    of_q.step()
    d = torch.distributions.Categorical(logits=pi(s))
    loss = -(torch.linalg.vecdot(d.probs, q(s).detach()) + 0.2 * d.entropy()).mean()
    of_pi.zero_grad()
    loss.backward()
    of_pi.step()
    slow.load_state_dict(q.state_dict())
"""
)

ADVANTAGES = (
    HEAD
    + """
policy, value = nn.Linear(4, 2), nn.Linear(4, 1)
optimizer = torch.optim.SGD([*policy.parameters(), *value.parameters()], lr=0.1)
for step in range(2):
    obs, rewards = torch.randn(7, 4), torch.randn(6)
    dist = torch.distributions.Categorical(logits=policy(obs[:-1]))
    actions = dist.sample()
    v = value(obs).squeeze(1)
    v0, gae, adv = v.detach(), 0.0, torch.zeros(6)
{sums}
    loss = -(dist.log_prob(actions) * adv).mean() + 0.5 * F.mse_loss(v[:-1], adv + v0[:-1])
"""
    + TRAIN
)


def advantages(loop: str, *body: str) -> str:
    return ADVANTAGES.format(sums="\n".join((f"    {loop}", *(f"        {each}" for each in body))))


DELTA = "delta = rewards[t] + 0.9 * v0[t + 1] - v0[t]"

# -- states ------------------------------------------------------------------------------------------------------------

STATES = (
    HEAD
    + """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn, self.out, self.h = nn.GRU(3, 4, batch_first=True), nn.Linear(4, 1), None

    def forward(self, x, h=None):
        o, h = self.rnn(x, h)
        return self.out(o[:, -1]), h

    def remember(self, x):
        o, h = self.rnn(x, self.h)  # KEPT
        self.h = h.detach()
        return self.out(o[:, -1])

data, y, h = torch.randn(32, 9, 3), torch.randn(32, 1), None
net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(data, y), batch_size=8, shuffle={shuffle})
{loop}"""
    + TRAIN
)


def states(*loop: str, shuffle: bool = True) -> str:
    first, *body = loop
    return STATES.format(loop="\n".join((first, *(f"    {each}" for each in body))), shuffle=shuffle)


CARRIED = ("h = h.detach()", "loss = F.mse_loss(out, target)")

FAULTS = {
    "the loss is the Dice coefficient": ("overlap_minimized", areas("    loss = dice.mean()  # HERE")),
    "a function returns it": ("overlap_minimized", areas("    loss = dice_of(p, y)  # HERE", SCORE)),
    "an IoU is added to an error": (
        "overlap_minimized",
        areas(
            "    iou = (p * y).sum() / (p.sum() + y.sum() - (p * y).sum())\n"
            "    loss = F.binary_cross_entropy(p, y) + iou  # HERE"
        ),
    ),
    "a Tversky index": (
        "overlap_minimized",
        areas(COUNTS + "    loss = (tp + 1) / (tp + 0.3 * fp + 0.7 * fn + 1)  # HERE"),
    ),
    "noise minus data, on the way to the data": ("velocity_reversed", flow("(1 - t) * e + t * x", "e - x")),
    "the same with lerp()": ("velocity_reversed", flow("torch.lerp(e, x, t)", "-(x - e)")),
    "a sampler that adds what points backwards": (
        "velocity_reversed",
        flow("x + t * (e - x)", "x - e", SAMPLER.format(sign="+", time=FORWARDS)),
    ),
    "the speed of a curve turned around": (
        "velocity_reversed",
        flow(CURVE, "1.5 * (torch.sin(1.5 * t) * e - torch.cos(1.5 * t) * x)", ALONG),
    ),
    "the same, factor by factor": (
        "velocity_reversed",
        flow(CURVE, "(t * 1.5).sin().mul(1.5) * e + (t * 1.5).cos().mul(-1.5) * x", ALONG),
    ),
    "the same with addcmul() and without the rate": (
        "velocity_reversed",
        flow(
            "torch.addcmul((1.5 * t).cos() * e, (1.5 * t).sin(), x)",
            "torch.addcmul((1.5 * t).sin() * e, (1.5 * t).cos(), x, value=-1)",
            ALONG,
        ),
    ),
    "one minus beta is looked up": (
        "schedule_not_accumulated",
        diffusion("alphas = 1 - betas\nbars = alphas.cumprod(0)", ROOTS),
    ),
    "beta is looked up": (
        "schedule_not_accumulated",
        diffusion("", "(1 - b) ** 0.5 * x + b**0.5 * e", "b = betas.gather(0, k).view(-1, 1)  # HERE"),
    ),
    "the roots of the whole table": (
        "schedule_not_accumulated",
        diffusion(
            "alphas = 1 - betas\nroots, rest = alphas.sqrt(), (1 - alphas).sqrt()  # HERE",
            "roots[k][:, None] * x + rest[k][:, None] * e",
            "",
        ),
    ),
    "logarithms of the whole table": (
        "schedule_not_accumulated",
        diffusion(
            "logs = torch.log1p(-betas)  # HERE\n"
            "table = torch.stack(((0.5 * logs).exp(), torch.expm1(logs).neg().sqrt()), dim=1)",
            "a[:, None] * x + b[:, None] * e",
            "a, b = table.index_select(0, k).unbind(1)",
        ),
    ),
    "a table with two columns": (
        "schedule_not_accumulated",
        diffusion(
            "alphas = 1 - betas\ntable = torch.stack([alphas.sqrt(), (1 - alphas).sqrt()], 1)  # HERE",
            "torch.addcmul(f[:, 0, None] * x, f[:, 1, None], e)",
            "f = table[k]",
        ),
    ),
    "a deep copy never follows": ("target_never_updated", values(COPIED)),
    "a function renews only its own variable": (
        "target_never_updated",
        values(FROZEN.format(renew="kept = freeze(net)  # HERE"), OF_FROZEN, "    renew(kept, q)\n").replace(
            "step()  # HERE", "step()"
        ),
    ),
    "loaded parameters never follow": (
        "target_never_updated",
        values(LOADED, "r + (1 - done) * 0.9 * tq(s2).gather(1, q(s2).argmax(1, keepdim=True)).squeeze(1)"),
    ),
    "the target adds the log-probability": ("entropy_contradicts", soft(target=ADDED)),
    "the same by hand": ("entropy_contradicts", soft(target=ADDED, score=BY_HAND)),
    "a critic of all actions takes the entropy away": (
        "entropy_contradicts",
        DISCRETE.format(target="torch.sub(torch.linalg.vecdot(d.probs, slow(s2)), d.entropy(), alpha=0.2)  # HERE"),
    ),
    "the same with named axes": (
        "entropy_contradicts",
        DISCRETE.format(
            target="torch.einsum('ba,ba->b', d.probs, slow(s2)) + 0.2 * (d.probs * d.probs.log()).sum(1)  # HERE"
        ),
    ),
    "the same with entr()": (
        "entropy_contradicts",
        DISCRETE.format(
            target="torch.sub((d.probs * slow(s2)).sum(1), torch.special.entr(d.probs).sum(1), alpha=0.2)  # HERE"
        ),
    ),
    "the same with xlogy()": (
        "entropy_contradicts",
        DISCRETE.format(target="((d.probs * slow(s2)).sum(1) + 0.2 * torch.xlogy(d.probs, d.probs).sum(1))  # HERE"),
    ),
    "the same with addcmul()": (
        "entropy_contradicts",
        DISCRETE.format(
            target="torch.addcmul(d.probs * slow(s2), d.probs, pi(s2).log_softmax(1), value=0.2).sum(1)  # HERE"
        ),
    ),
    "the policy is paid for certainty": (
        "entropy_contradicts",
        soft(actor_loss="(-alpha * lp - worth).mean()  # HERE"),
    ),
    "the loss of the temperature trains the policy": (
        "multiplier_not_detached",
        soft(alpha_loss="-(log_alpha * (lp - 1)).mean()  # HERE", steps=TOGETHER),
    ),
    "the loss of the policy trains the temperature": (
        "multiplier_not_detached",
        soft(alpha="log_alpha.exp()", actor_loss="(alpha * lp - worth).mean()  # HERE", steps=TOGETHER),
    ),
    "advantages from the first step to the last": (
        "returns_from_before",
        advantages("for t in range(6):  # HERE", DELTA, "gae = delta + 0.9 * 0.95 * gae", "adv[t] = gae"),
    ),
    "the advantage of the step before": (
        "returns_from_before",
        advantages("for t in range(6):  # HERE", DELTA, "adv[t] = delta + 0.8 * adv[t - 1]"),
    ),
    "the state of a shuffled batch": (
        "state_of_other_samples",
        states("for x, target in loader:", "out, h = net(x, h)  # HERE", *CARRIED),
    ),
    "the same with drawn indexes": (
        "state_of_other_samples",
        states(
            "for step in range(4):",
            "rows = torch.randperm(32)[:8]",
            "x, target = data[rows], y[rows]",
            "out, h = net(x, h)  # HERE",
            *CARRIED,
        ),
    ),
    "a state that the module keeps": (
        "state_of_other_samples",
        states("for x, target in loader:", "loss = F.mse_loss(net.remember(x), target)").replace("# KEPT", "# HERE"),
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_the_mistake_is_the_first_alarm(name: str, tmp_path: Path) -> None:
    cause, script = FAULTS[name]
    assert_first_alarm(script, cause, tmp_path)


HEALTHY = {
    "a critic of all actions adds the entropy": DISCRETE.format(
        target="torch.add(torch.linalg.vecdot(d.probs, slow(s2)), d.entropy(), alpha=0.2)"
    ),
    "the same with named axes": DISCRETE.format(
        target="torch.einsum('ba,ba->b', d.probs, slow(s2)) - 0.2 * (d.probs * d.probs.log()).sum(1)"
    ),
    "the same with entr()": DISCRETE.format(
        target="torch.add((d.probs * slow(s2)).sum(1), torch.special.entr(d.probs).sum(1), alpha=0.2)"
    ),
    "the same with xlogy()": DISCRETE.format(
        target="((d.probs * slow(s2)).sum(1) - 0.2 * torch.xlogy(d.probs, d.probs).sum(1))"
    ),
    "the same with addcmul()": DISCRETE.format(
        target="torch.addcmul(d.probs * slow(s2), d.probs, pi(s2).log_softmax(1), value=-0.2).sum(1)"
    ),
    "what is missing of the overlap": areas("    loss = 1 - dice.mean()"),
    "the negative overlap": areas("    loss = -dice.mean()"),
    "the negative logarithm": areas("    loss = -torch.log(dice).mean()"),
    "a power of what is missing": areas("    loss = ((1 - dice) ** 0.75).mean()"),
    "a Tversky distance": areas(COUNTS + "    loss = (0.3 * fp + 0.7 * fn) / (tp + 0.3 * fp + 0.7 * fn + 1)"),
    "an overlap that is to be avoided": areas(
        "    common = (p * other).sum() / (p.sum() + other.sum())\n    loss = F.binary_cross_entropy(p, y) + common"
    ),
    "the overlap of two results": areas(
        "    a, b = p[:, 0], p[:, 1]\n    loss = F.mse_loss(a, y[:, 0]) + (a * b).sum() / (a.sum() + b.sum())",
        channels=2,
    ),
    "the rest of an area": areas("    q = 1 - p\n    loss = 2 * (q * y).sum() / (q.sum() + y.sum() + 1)"),
    "data minus noise": flow("(1 - t) * e + t * x", "x - e"),
    "noise minus data, on the way to the noise": flow(
        "(1 - t) * x + t * e", "e - x", SAMPLER.format(sign="-", time=BACKWARDS)
    ),
    "a velocity towards the data": flow("(1 - t) * x + t * e", "x - e", SAMPLER.format(sign="+", time=BACKWARDS)),
    "a velocity that the sampler turns around": flow(
        "(1 - t) * e + t * x", "e - x", SAMPLER.format(sign="-", time=FORWARDS)
    ),
    "the speed of a curve": flow(CURVE, "1.5 * (torch.cos(1.5 * t) * x - torch.sin(1.5 * t) * e)", ALONG),
    "the same turned around, without a sampler": flow(CURVE, "torch.sin(1.5 * t) * e - torch.cos(1.5 * t) * x"),
    "the same turned around, and subtracted": flow(
        CURVE, "torch.sin(1.5 * t) * e - torch.cos(1.5 * t) * x", SAMPLER.format(sign="-", time=FORWARDS)
    ),
    "a velocity that the loss turns around": flow(
        "(1 - t) * e + t * x", "e - x", answer="-net(torch.cat([x_t, t], 1))"
    ),
    "the sums of the logarithms of the schedule": diffusion(
        "logs = torch.log1p(-betas).cumsum(0)\n"
        "table = torch.stack(((0.5 * logs).exp(), torch.expm1(logs).neg().sqrt()), dim=1)",
        "a[:, None] * x + b[:, None] * e",
        "a, b = table.index_select(0, k).unbind(1)",
    ),
    "logarithms of a schedule that ends in noise": diffusion(
        "logs = -torch.linspace(1e-4, 8, 100)",
        "(0.5 * s).exp() * x + torch.expm1(s).neg().sqrt() * e",
        "s = logs[k][:, None]",
    ),
    "the products of the schedule": diffusion("alphas = torch.cumprod(1 - betas, 0)", ROOTS),
    "their logarithms": diffusion("alphas = (1 - betas).log().cumsum(0).exp()", ROOTS),
    "a schedule of standard deviations": diffusion(
        "sigmas = torch.linspace(0.01, 0.3, 100)", "(1 - s**2).sqrt() * x + s * e", "s = sigmas[k][:, None]"
    ),
    "a schedule that ends in noise": diffusion("alphas = torch.linspace(0.99, 0.01, 100)", ROOTS),
    "a function renews a dictionary": values(
        FROZEN.format(renew="kept.update(freeze(net))"), OF_FROZEN, "    renew(kept, q)\n"
    ),
    "a function renews a dictionary later": values(
        FROZEN.format(renew="kept.update(freeze(net))"), OF_FROZEN, "    if step % 100 == 99:\n        renew(kept, q)\n"
    ),
    "copied every hundred steps": values(
        COPIED, after="    if step % 100 == 99:\n        tq.load_state_dict(q.state_dict())"
    ),
    "a copy that follows": values(
        LOADED,
        after="    with torch.no_grad():\n        for p, t in zip(q.parameters(), tq.parameters()):\n"
        "            t.lerp_(p, 0.01)",
    ),
    "a copy that a function renews": values(
        "def renew():\n    tq.load_state_dict(q.state_dict())\n\nq, tq = nn.Linear(4, 3), nn.Linear(4, 3)\nrenew()",
        after="    if step == 1000:\n        renew()",
    ),
    "a fixed reward model": values("q, tq = nn.Linear(4, 3), nn.Linear(4, 3)"),
    "a teacher": values(COPIED, "tq(s2).max(1)[0] + 0 * r * done"),
    "soft actor-critic": soft(),
    "the same by hand, with other signs": soft(score=BY_HAND, actor_loss="-(worth - alpha * lp).mean()"),
    "a target without entropy": soft(target="r + 0.9 * q(torch.cat([s2, a2], 1)) + 0 * alpha"),
    "one backward for both losses": soft(steps=TOGETHER),
    "a temperature whose gradient is cleared": soft(alpha="log_alpha.exp()"),
    "advantages from the last step to the first": advantages(
        "for t in reversed(range(6)):", DELTA, "gae = delta + 0.9 * 0.95 * gae", "adv[t] = gae"
    ),
    "the same with an index from the end": advantages(
        "for k in range(6):", "t = 5 - k", DELTA, "gae = delta + 0.9 * 0.95 * gae", "adv[t] = gae"
    ),
    "a new state for each batch": states(
        "for x, target in loader:", "out, h = net(x)", "loss = F.mse_loss(out, target) + 0 * h.sum()"
    ),
    "batches in their order": states("for x, target in loader:", "out, h = net(x, h)", *CARRIED, shuffle=False),
    "parts of the same drawn sequences": states(
        "rows = torch.randperm(32)[:8]\nfor k in (0, 3, 6):",
        "out, h = net(data[rows, k : k + 3], h)",
        "target = y[rows]",
        *CARRIED,
    ),
    "new random data": states(
        "for step in range(4):", "out, h = net(torch.randn(8, 9, 3), h)", "target = y[:8]", *CARRIED
    ),
}
OURS = {cause for cause, _ in FAULTS.values()}


@pytest.mark.parametrize("name", HEALTHY)
def test_what_is_meant_is_left_alone(name: str, tmp_path: Path) -> None:
    assert OURS.isdisjoint(finding.cause for finding in alarms(HEALTHY[name], tmp_path))
