"""References that are the trained model, signs of entropies, gradients of sampling loops; and what looks like them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

DPO = """
policy = nn.Sequential(nn.Embedding(9, 6), nn.Linear(6, 9))
{reference}
optimizer = torch.optim.SGD(policy.parameters(), lr=0.1)
def logps(model, tokens):
    logp = model(tokens[:, :-1]).log_softmax(-1)
    return logp.gather(-1, tokens[:, 1:, None]).squeeze(-1).sum(1)
for step in range(3):
    good, bad = torch.randint(0, 9, (4, 5)), torch.randint(0, 9, (4, 5))
    a, b = logps(policy, good), logps(policy, bad)
    with torch.no_grad():
        ra, rb = logps(ref, good), logps(ref, bad)  # HERE
    loss = -F.logsigmoid(0.1 * ((a - b) - (ra - rb))).mean()
"""
TEACHER = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.norm, self.head = nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 4)
    def forward(self, x):
        return self.head(self.norm(self.body(x)).relu())
student = Net()
{teacher}
optimizer = torch.optim.Adam(student.parameters(), lr=1e-2)
for step in range(3):
    x, y = torch.randn(16, 6), torch.randint(0, 4, (16,))
    logits = student(x)
    soft = F.softmax(teacher(x).detach() / 2, dim=1)  # HERE
    loss = F.cross_entropy(logits, y) + 4 * F.kl_div(F.log_softmax(logits / 2, dim=1), soft, reduction="batchmean")
"""
NORMAL = """
mean, log_std = nn.Linear(4, 2), nn.Parameter(torch.zeros(2))
optimizer = torch.optim.SGD([*mean.parameters(), log_std], lr=0.05)
class Agent:
    def __init__(self, actor, anchor):
        self.actor, self.anchor = actor, anchor
    def divergence(self, x):
        now = torch.distributions.Normal(self.actor(x), log_std.exp())
        with torch.no_grad():
            then = torch.distributions.Normal(self.anchor(x), log_std.exp())  # HERE
        return torch.distributions.kl_divergence(now, then).sum(1).mean()
agent = Agent(mean, {anchor})
for step in range(4):
    x, wanted = torch.randn(8, 4), torch.randn(8, 2)
    loss = F.gaussian_nll_loss(mean(x), wanted, log_std.exp().expand(8, 2) ** 2) + 0.2 * agent.divergence(x)
"""
DISTILLED = """
predictor = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3))
frozen = {frozen}
optimizer = torch.optim.Adam(predictor.parameters(), lr=1e-3)
for step in range(5):
    x = torch.randn(12, 5)
    with torch.no_grad():
        known = frozen(x)  # HERE
    guess = predictor(x)
    loss = F.mse_loss(guess, known)
"""
REFERENCES = {
    "a predictor of its own output, so that the whole loss is zero": DISTILLED.format(frozen="predictor"),
    "preferences": DPO.format(reference="ref = policy"),
    "words that the model has drawn itself": """
policy = nn.Sequential(nn.Embedding(9, 6), nn.Linear(6, 9))
ref_model = policy
optimizer = torch.optim.SGD(policy.parameters(), lr=0.1)
def token_logps(model, tokens):
    return model(tokens[:, :-1]).log_softmax(-1).gather(-1, tokens[:, 1:, None]).squeeze(-1)
for step in range(3):
    tokens = torch.zeros(4, 1, dtype=torch.long)
    with torch.no_grad():
        for _ in range(4):
            p = policy(tokens[:, -1:])[:, 0].softmax(-1)
            tokens = torch.cat([tokens, torch.multinomial(p, 1)], 1)
    adv = torch.randn(4, 1)
    logp = token_logps(policy, tokens)
    with torch.no_grad():
        ref_logp = token_logps(ref_model, tokens)  # HERE
    ratio = (logp - logp.detach()).exp()
    kl = (ref_logp - logp).exp() - (ref_logp - logp) - 1
    loss = -(ratio * adv - 0.04 * kl).mean()
""",
    "a divergence of logits, with a normalization": TEACHER.format(teacher="teacher = student"),
    "normal distributions in an object": NORMAL.format(anchor="mean"),
}
COPIES = {
    "a predictor of a random network": DISTILLED.format(frozen="nn.Linear(5, 3)"),
    "preferences": DPO.format(reference="ref = copy.deepcopy(policy).requires_grad_(False)"),
    "a teacher that was copied": TEACHER.format(teacher="teacher = copy.deepcopy(student).eval()"),
    "normal distributions in an object": NORMAL.format(anchor="copy.deepcopy(mean).requires_grad_(False)"),
    "a ratio, a divergence and clipped values over several epochs": """
actor, critic = nn.Linear(4, 3), nn.Linear(4, 1)
optimizer = torch.optim.SGD([*actor.parameters(), *critic.parameters()], lr=0.1)
for rollout in range(2):
    x, advantage, returns = torch.randn(16, 4), torch.randn(16), torch.randn(16)
    with torch.no_grad():
        then = torch.distributions.Categorical(logits=actor(x))
        actions, values = then.sample(), critic(x).squeeze(1)
        old = then.log_prob(actions)
    for epoch in range(3):
        now = torch.distributions.Categorical(logits=actor(x))
        difference = now.log_prob(actions) - old
        ratio = difference.exp()
        value = critic(x).squeeze(1)
        clipped = values + (value - values).clamp(-0.2, 0.2)
        error = torch.max((value - returns).square(), (clipped - returns).square()).mean()
        nearness = (ratio - 1 - difference).mean()
        loss = -torch.min(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage).mean() + error + 0.1 * nearness
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
""",
    "a divergence whose second derivative is wanted": """
policy = nn.Linear(4, 3)
value = nn.Linear(4, 1)
optimizer = torch.optim.SGD(value.parameters(), lr=0.1)
for step in range(4):
    x, adv = torch.randn(16, 4), torch.randn(16)
    with torch.no_grad():
        old = torch.distributions.Categorical(logits=policy(x))
        a = old.sample()
    new = torch.distributions.Categorical(logits=policy(x))
    surrogate = ((new.log_prob(a) - old.log_prob(a)).exp() * adv).mean()
    g = torch.autograd.grad(surrogate, list(policy.parameters()), retain_graph=True)
    kl = torch.distributions.kl_divergence(old, new).mean()
    kg = torch.autograd.grad(kl, list(policy.parameters()), create_graph=True)
    v = sum((k * q.detach()).sum() for k, q in zip(kg, g))
    hv = torch.autograd.grad(v, list(policy.parameters()))
    with torch.no_grad():
        for p, d, h in zip(policy.parameters(), g, hv):
            p += 0.1 * d + 0.0001 * h
    loss = (value(x).squeeze(1) - torch.randn(16)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    "one update with each new data": """
actor = nn.Linear(4, 3)
optimizer = torch.optim.SGD(actor.parameters(), lr=0.1)
for step in range(4):
    x, advantage = torch.randn(16, 4), torch.randn(16)
    with torch.no_grad():
        then = torch.distributions.Categorical(logits=actor(x))
        actions = then.sample()
        old = then.log_prob(actions)
    new = torch.distributions.Categorical(logits=actor(x)).log_prob(actions)
    loss = -((new - old).exp() * advantage).mean() + 0.05 * (new - old).square().mean()
"""
    + TRAIN,
    "views with noise, dropout, another view, a rounded value, a value without its mean": """
net, code = nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.3), nn.Tanh()), nn.Linear(6, 8)
guess = nn.Linear(8, 8)
optimizer = torch.optim.SGD([*net.parameters(), *code.parameters(), *guess.parameters()], lr=0.1)
for step in range(4):
    x = torch.randn(16, 6)
    one, two = code(x + 0.1 * torch.randn_like(x)), code(x + 0.1 * torch.randn_like(x))
    with torch.no_grad():
        again, clean = net(x), code(x)
    noisy = F.kl_div(one.log_softmax(1), clean.softmax(1), reduction="batchmean")
    cosine = -F.cosine_similarity(guess(one), two.detach()).mean()
    cosine = cosine - F.cosine_similarity(guess(two), one.detach()).mean()
    h = code(x)
    rounded = h + (h.round() - h).detach()
    centred = h - h.mean(1, keepdim=True).detach()
    loss = (net(x) - again).square().mean() + noisy + cosine + rounded.square().mean() + centred.abs().mean()
"""
    + TRAIN,
    "one name for both sides": """
net = nn.Linear(5, 3)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(3):
    x, y = torch.randn(8, 5), torch.randint(0, 3, (8,))
    with torch.no_grad():
        before = net(x).log_softmax(1)
    loss = F.cross_entropy(net(x), y) + (before - net(x).log_softmax(1)).mean() + (net(x) - net(x).detach()).mean()
"""
    + TRAIN,
    "values of the same states, some of which are overwritten by targets": """
net = nn.Linear(4, 3)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(4):
    x, following, actions, reward = torch.randn(8, 4), torch.randn(8, 4), torch.randint(0, 3, (8,)), torch.randn(8)
    with torch.no_grad():
        wanted = net(x)
        wanted[torch.arange(8), actions] = reward + 0.9 * net(following).amax(1)
    loss = F.mse_loss(net(x), wanted)
"""
    + TRAIN,
}
CATEGORICAL = """
actor, critic = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3)), nn.Linear(4, 1)
optimizer = torch.optim.Adam([*actor.parameters(), *critic.parameters()], lr=1e-2)
for step in range(3):
    x, returns = torch.randn(16, 4), torch.randn(16)
    distribution = torch.distributions.Categorical(logits=actor(x))
    actions = distribution.sample()
    value = critic(x).squeeze(1)
    policy_loss = -(distribution.log_prob(actions) * (returns - value.detach())).mean()
    entropy = distribution.entropy().mean()
    loss = policy_loss + 0.5 * F.mse_loss(value, returns) {sign} 0.01 * entropy  # HERE
"""
CONTINUOUS = """
class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.mean, self.log_std = nn.Linear(4, 2), nn.Parameter(torch.zeros(2))
    def forward(self, x):
        return torch.distributions.Independent(torch.distributions.Normal(self.mean(x), self.log_std.exp()), 1)
def objective(policy, x, actions, old, advantage, coefficient):
    now = policy(x)
    ratio = (now.log_prob(actions) - old).exp()
    gain = torch.min(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage).mean()
    return gain + coefficient * now.entropy().mean()  # HERE
policy = Policy()
optimizer = torch.optim.SGD(policy.parameters(), lr=0.05)
for rollout in range(2):
    x, advantage = torch.randn(16, 4), torch.randn(16)
    with torch.no_grad():
        actions = policy(x).sample()
        old = policy(x).log_prob(actions)
    for epoch in range(2):
        loss = -objective(policy, x, actions, old, advantage, {coefficient})
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
BY_HAND = """
policy = nn.Linear(4, 3)
optimizer = torch.optim.SGD(policy.parameters(), lr=0.05)
for episode in range(3):
    kept, entropies = [], []
    for t in range(4):
        p = policy(torch.randn(4)).softmax(0)
        action = torch.multinomial(p, 1)
        kept.append(p.log().gather(0, action))
        entropies.append({minus}(p * (p + 1e-8).log()).sum())
    rewards = torch.rand(4)
    optimizer.zero_grad()
    loss = torch.stack([-l * r for l, r in zip(kept, rewards)]).sum()
    loss = loss + 0.1 * torch.stack(entropies).mean()  # HERE
    loss.backward()
    optimizer.step()
"""
ENTROPIES = {
    "an actor and a critic": CATEGORICAL.format(sign="+") + TRAIN,
    "normal actions, clipped ratios, in a function": CONTINUOUS.format(coefficient=-0.01),
    "episodes, with the entropy by hand": BY_HAND.format(minus="-"),
}
EXPLORING = {
    "an actor and a critic": CATEGORICAL.format(sign="-") + TRAIN,
    "a coefficient that is negative": CATEGORICAL.format(sign="+").replace("0.01 * entropy", "-0.01 * entropy") + TRAIN,
    "a bonus of the objective": CONTINUOUS.format(coefficient=0.01),
    "a negative entropy by hand, added": BY_HAND.format(minus=""),
    "an optimizer that maximizes": """
policy = nn.Linear(4, 3)
optimizer = torch.optim.SGD(policy.parameters(), lr=0.05, maximize=True)
for step in range(3):
    logp = F.log_softmax(policy(torch.randn(8, 4)), dim=1)
    actions, advantage = torch.multinomial(logp.detach().exp(), 1), torch.randn(8)
    loss = (logp.gather(1, actions).squeeze(1) * advantage).mean() - 0.1 * (logp.exp() * logp).sum(1).mean()
"""
    + TRAIN,
    "soft actors and critics": """
actor, critic, log_alpha = nn.Linear(4, 4), nn.Linear(6, 1), torch.zeros((), requires_grad=True)
policy_optimizer = torch.optim.Adam(actor.parameters(), lr=1e-3)
optimizer = torch.optim.Adam([log_alpha], lr=1e-3)
critic.requires_grad_(False)
for step in range(3):
    x = torch.randn(16, 4)
    mean, log_std = actor(x).chunk(2, 1)
    normal = torch.distributions.Normal(mean, log_std.clamp(-5, 2).exp())
    u = normal.rsample()
    log_pi = (normal.log_prob(u) - torch.log(1 - u.tanh() ** 2 + 1e-6)).sum(1)
    policy_loss = (log_alpha.exp().detach() * log_pi - critic(torch.cat([x, u.tanh()], 1)).squeeze(1)).mean()
    policy_optimizer.zero_grad()
    policy_loss.backward()
    policy_optimizer.step()
    loss = -(log_alpha * (log_pi.detach() - 2.0)).mean()
"""
    + TRAIN,
    "certain predictions for data without labels, weighted labels": """
model = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 4))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for step in range(3):
    x, y, weight, unlabelled = torch.randn(16, 6), torch.randint(0, 4, (16,)), torch.rand(16), torch.randn(32, 6)
    p = model(unlabelled).softmax(1)
    entropy = -(p * p.clamp(min=1e-8).log()).sum(1).mean()
    loss = (F.cross_entropy(model(x), y, reduction="none") * weight).mean() + 0.1 * entropy
"""
    + TRAIN,
}
LANGEVIN = """
energy = nn.Sequential(nn.Linear(2, 8), nn.SiLU(), nn.Linear(8, 1))
optimizer = torch.optim.Adam(energy.parameters(), lr=1e-3)
for step in range(3):
    data, x = torch.randn(8, 2), torch.randn(8, 2, requires_grad=True)
    optimizer.zero_grad()
    for k in range(3):
        {slope}
        with torch.no_grad():
            x -= 0.1 * {read} + 0.01 * torch.randn_like(x)
        x.grad = None
    {cleared}
    loss = energy(data).mean() - energy(x.detach()).mean()
    loss.backward()
    optimizer.step()
"""
ATTACK = """
model = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
def attack(x, y, iterations):
    delta = torch.zeros_like(x, requires_grad=True)
    for _ in range(iterations):
        F.cross_entropy(model(x + delta), y).backward()  # HERE
        delta.data = (delta.detach() + 0.02 * delta.grad.sign()).clamp(-0.1, 0.1)
        delta.grad.zero_()
    return delta.detach()
for step in range(3):
    x, y = torch.randn(12, 6), torch.randint(0, 3, (12,))
    {before}
    moved = x + attack(x, y, {iterations})
    {after}
    loss = F.cross_entropy(model(moved), y)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""
FOLLOWED = """
critic = nn.Linear(4, 1)
optimizer = torch.optim.SGD(critic.parameters(), lr=0.05)
for step in range(3):
    z = torch.randn(5, 4)
    optimizer.zero_grad()
    for _ in range(4):
        z = z.detach().requires_grad_()
        critic(z).square().sum().backward()  # HERE
        z = z - 0.05 * z.grad
    wanted = torch.randn(5, 1)
    F.mse_loss(critic(z.detach()), wanted).backward()
    optimizer.step()
"""
BACKWARD = "energy(x).sum().backward()"
LOOPS = {
    "samples of an energy, in place": LANGEVIN.format(slope=f"{BACKWARD}  # HERE", read="x.grad", cleared="pass"),
    "an attack in a function": ATTACK.format(before="pass", iterations=2, after="pass"),
    "inputs that are made anew": FOLLOWED,
}
MEANT = {
    "gradients that are cleared afterwards": LANGEVIN.format(
        slope=BACKWARD, read="x.grad", cleared="optimizer.zero_grad()"
    ),
    "gradients of the input only": LANGEVIN.format(
        slope="slope = torch.autograd.grad(energy(x).sum(), x)[0]", read="slope", cleared="pass"
    ),
    "backward for the input only": LANGEVIN.format(
        slope="energy(x).sum().backward(inputs=[x])", read="x.grad", cleared="pass"
    ),
    "a model that is frozen in the attack": ATTACK.format(
        before="model.requires_grad_(False)", iterations=3, after="model.requires_grad_(True)"
    ),
    "one iteration, and both losses": ATTACK.format(before="pass", iterations=1, after="pass"),
    "free training: each backward moves the model and the input": """
model = nn.Linear(6, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for step in range(2):
    x, y = torch.randn(12, 6), torch.randint(0, 3, (12,))
    delta = torch.zeros_like(x, requires_grad=True)
    for _ in range(3):
        optimizer.zero_grad()
        F.cross_entropy(model(x + delta), y).backward()
        delta.data = (delta + 0.02 * delta.grad.sign()).clamp(-0.1, 0.1).detach()
        delta.grad = None
        optimizer.step()
""",
    "all iterations of an attack train the model, after a clean one": """
model = nn.Linear(6, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for step in range(3):
    x, y = torch.randn(12, 6), torch.randint(0, 3, (12,))
    delta = torch.zeros_like(x).requires_grad_()
    optimizer.zero_grad()
    (F.cross_entropy(model(x), y) / 2).backward()
    for _ in range(3):
        (F.cross_entropy(model(x + delta), y) / 6).backward()
        step_of_delta = 0.02 * delta.grad / delta.grad.norm()
        delta = (delta + step_of_delta).detach().requires_grad_()
    optimizer.step()
""",
    "micro-batches whose inputs have gradients, and a penalty": """
model = nn.Linear(6, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
sizes = []
for step in range(3):
    optimizer.zero_grad()
    for micro in range(3):
        x, y = torch.randn(4, 6, requires_grad=True), torch.randint(0, 3, (4,))
        (F.cross_entropy(model(x), y) / 3).backward()
        sizes.append((x.grad.abs() * 2).mean(1))
    (0.01 * model.weight.square().sum()).backward()
    optimizer.step()
""",
}
DIFFUSION = """
model = nn.Sequential(nn.Linear(9, 16), nn.ReLU(), nn.Linear(16, 8))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
kept = torch.linspace(0.99, 0.1, 20)
def q_sample(x0, t, noise=None):
    if noise is None:
        noise = torch.randn_like(x0)
    a = kept[t][:, None]
    return a.sqrt() * x0 + (1 - a).sqrt() * noise
data = torch.rand(64, 8) * 2 - 1
for x0 in data.split(16):
    t = torch.randint(0, 20, (16,))
    noise = torch.randn_like(x0)
    xt = q_sample(x0, t{given})  # HERE
    loss = F.mse_loss(model(torch.cat([xt, t[:, None] / 20], 1)), noise)
"""
SCORES = """
class Score(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Conv1d(1, 4, 3, padding=1), nn.Conv1d(4, 1, 3, padding=1)
    def forward(self, x):
        return self.two(self.one(x).tanh())
score = Score()
optimizer = torch.optim.Adam(score.parameters(), lr=1e-3)
def perturb(x, sigma):
    return x + sigma * torch.randn(x.shape)
for step in range(3):
    x, sigma = torch.sin(torch.arange(10.0) + step).expand(4, 1, 10).contiguous(), 0.3
    eps = torch.randn(4, 1, 10)
    {noisy}
    loss = (sigma * score(noisy) + eps).square().mean()
"""
NOISES = {
    "a helper that draws its own noise": DIFFUSION.format(given=""),
    "scores, with the sign of the noise": SCORES.format(noisy="noisy = perturb(x, sigma)  # HERE").replace(
        "(sigma * score(noisy) + eps).square().mean()", "F.mse_loss(sigma * score(noisy), -eps)"
    ),
    "two draws in one function, and noisy data": SCORES.format(
        noisy="noisy = x + 0.1 * torch.randn_like(x) + sigma * torch.randn_like(x)"
    )
    .replace("eps = torch.randn(4, 1, 10)", "eps = torch.randn(4, 1, 10)  # HERE")
    .replace("(sigma * score(noisy) + eps).square().mean()", "F.mse_loss(sigma * score(noisy), -eps)"),
}
DENOISING = {
    "a helper that gets the noise": DIFFUSION.format(given=", noise"),
    "scores of the same noise": SCORES.format(noisy="noisy = x + sigma * eps"),
    "random data, and noise in the input": """
model, other = nn.Linear(8, 8), nn.Linear(8, 8)
optimizer = torch.optim.SGD([*model.parameters(), *other.parameters()], lr=0.1)
for step in range(3):
    x, y = torch.randn(16, 8), torch.randn(16, 8)
    loss = F.mse_loss(model(x), y) + F.mse_loss(other(x + 0.1 * torch.randn_like(x)), torch.randn(16, 8))
"""
    + TRAIN,
    "noisy labels, noise for noise, a random network": """
model, pair, guess = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 3)
frozen = nn.Linear(8, 3).requires_grad_(False)
optimizer = torch.optim.SGD([*model.parameters(), *pair.parameters(), *guess.parameters()], lr=0.1)
for step in range(3):
    x = torch.rand(16, 8)
    y = 2 * x + 0.1 * torch.randn_like(x)
    noise = torch.randn_like(x)
    seen, wanted = x + 0.2 * torch.randn_like(x), x + 0.2 * noise
    loss = F.mse_loss(model(x), y) + F.mse_loss(pair(seen), wanted) + (guess(seen) - frozen(seen)).square().mean()
"""
    + TRAIN,
}


@pytest.mark.parametrize("shape", list(REFERENCES))
def test_a_reference_that_is_the_trained_model_comes_first(shape: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + REFERENCES[shape] + TRAIN, "ratio_always_one", tmp_path)


@pytest.mark.parametrize("look", list(COPIES))
def test_comparisons_with_other_values_raise_no_alarm(look: str, tmp_path: Path) -> None:
    script = HEAD + COPIES[look] + ("" if "optimizer.step()" in COPIES[look] else TRAIN)
    assert [f"{each.cause}: {each.message}" for each in alarms(script, tmp_path)] == []


@pytest.mark.parametrize("shape", list(ENTROPIES))
def test_an_entropy_that_is_added_to_the_loss_of_a_policy_comes_first(shape: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + ENTROPIES[shape], "entropy_minimized", tmp_path)


@pytest.mark.parametrize("look", list(EXPLORING))
def test_entropies_that_have_the_sign_that_is_meant_raise_no_alarm(look: str, tmp_path: Path) -> None:
    assert [f"{each.cause}: {each.message}" for each in alarms(HEAD + EXPLORING[look], tmp_path)] == []


@pytest.mark.parametrize("shape", list(LOOPS))
def test_gradients_that_a_loop_left_before_a_step_come_first(shape: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + LOOPS[shape], "sampling_gradients_kept", tmp_path)


@pytest.mark.parametrize("look", list(MEANT))
def test_gradients_of_a_loop_that_are_cleared_or_meant_raise_no_alarm(look: str, tmp_path: Path) -> None:
    assert [f"{each.cause}: {each.message}" for each in alarms(HEAD + MEANT[look], tmp_path)] == []


@pytest.mark.parametrize("shape", list(NOISES))
def test_noise_that_the_input_does_not_contain_comes_first(shape: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + NOISES[shape] + TRAIN, "other_noise_as_target", tmp_path)


@pytest.mark.parametrize("look", list(DENOISING))
def test_noise_that_the_input_contains_and_random_data_raise_no_alarm(look: str, tmp_path: Path) -> None:
    script = HEAD + DENOISING[look] + ("" if "optimizer.step()" in DENOISING[look] else TRAIN)
    assert [f"{each.cause}: {each.message}" for each in alarms(script, tmp_path)] == []
