"""Weights that are tied without their gradient, and routers whose choice is not weighed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

_ROUTED = """
router, experts, head = nn.Linear(4, 3), nn.ModuleList(nn.Linear(4, 4) for _ in range(3)), nn.Linear(4, 2)
optimizer = torch.optim.Adam([*router.parameters(), *experts.parameters(), *head.parameters()], lr=1e-2)
for step in range(3):
    x, y = torch.randn(24, 4), torch.randint(0, 2, (24,))
    logits = router(x)
    probs = logits.softmax(-1)
"""
_BALANCED = """
    balance = (F.one_hot(choice, 3).float().mean(0) * probs.mean(0)).sum()
    loss = F.cross_entropy(head(out), y) + 0.01 * balance
"""
_DISPATCHED = """
    out = torch.zeros_like(x)
    for i, expert in enumerate(experts):
        rows = (choice == i).nonzero(as_tuple=True)[0]
        out = out.index_add(0, rows, expert(x[rows]))
"""
_GATED = """
    best, choice = probs.topk(2, dim=-1)
    gates = torch.zeros_like(probs).{gates}
    out = torch.stack([gates[:, i : i + 1] * expert(x) for i, expert in enumerate(experts)]).sum(0)
    loss = F.cross_entropy(head(out), y)
"""
FIXED = "nn.Linear(4, 3).requires_grad_(False)"
_EXPERTS = """
router, head = nn.Linear(4, 3), nn.Linear(4, 2)
weights = nn.Parameter(torch.randn(3, 4, 4) / 2)
optimizer = torch.optim.Adam([*router.parameters(), weights, *head.parameters()], lr=1e-2)
for step in range(3):
    x, y = torch.randn(24, 4), torch.randint(0, 2, (24,))
"""
_ENCODER = """
encoder = nn.Linear(4, 3)
KEPT
optimizer = torch.optim.SGD(encoder.parameters(), lr=0.1)
for step in range(3):
    x = torch.randn(8, 4)
    hidden = torch.tanh(encoder(x))
"""

FAULTS = {
    ("non_differentiable_op", "gates of one number for all that was chosen"): _ROUTED
    + _GATED.format(gates="scatter(1, choice, 0.5)  # HERE")
    + TRAIN,
    ("non_differentiable_op", "the same in place, with a name"): _ROUTED
    + _GATED.format(gates="scatter_(-1, choice, value=1.0)  # HERE")
    + TRAIN,
    ("broken_weight_tie", "a copy of the head alone, which shared its weight with the embedding"): """
table, head = nn.Embedding(12, 6), nn.Linear(6, 12, bias=False)
head.weight = table.weight
head = copy.deepcopy(head)  # HERE
optimizer = torch.optim.Adam([*table.parameters(), *head.parameters()])
for step in range(3):
    ids = torch.randint(12, (5, 6))
    loss = F.cross_entropy(head(table(ids[:, :-1])).flatten(0, 1), ids[:, 1:].flatten())
"""
    + TRAIN,
    ("broken_weight_tie", "a buffer with the transposed values of the encoder"): """
class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(4, 3)
        self.register_buffer("decoder", self.encoder.weight.data.t())  # HERE
    def forward(self, x):
        return F.linear(torch.tanh(self.encoder(x)), self.decoder)
model = Tied()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    x = torch.randn(8, 4)
    loss = (model(x) - x).square().mean()
"""
    + TRAIN,
    ("broken_weight_tie", "an attribute with the values of an embedding"): """
embed, middle = nn.Embedding(9, 4), nn.Linear(4, 4)
embed.out = embed.weight.detach()  # HERE
optimizer = torch.optim.SGD([*embed.parameters(), *middle.parameters()], lr=0.1)
for step in range(3):
    tokens = torch.randint(0, 9, (8,))
    loss = F.cross_entropy(middle(embed(tokens)) @ embed.out.t(), (tokens + 1) % 9)
"""
    + TRAIN,
    ("broken_weight_tie", "the kernel of a convolution in a transposed one"): """
conv = nn.Conv2d(1, 3, 3)
kernel = conv.weight.data  # HERE
optimizer = torch.optim.SGD(conv.parameters(), lr=0.1)
for step in range(3):
    x = torch.randn(2, 1, 6, 6)
    loss = (F.conv_transpose2d(torch.tanh(conv(x)), kernel) - x).square().mean()
"""
    + TRAIN,
    ("routed_without_weight", "rows by nonzero() and index_add()"): _ROUTED
    + """
    choice = probs.argmax(-1)  # HERE
"""
    + _DISPATCHED
    + _BALANCED
    + TRAIN,
    ("routed_without_weight", "weights of an expert, and no gradient for the router"): _EXPERTS
    + """
    gate, choice = router(x).softmax(-1).max(-1)
    out = torch.einsum("bij,bj->bi", weights.index_select(0, choice), x)  # HERE
    loss = F.cross_entropy(head(out), y)
"""
    + TRAIN,
    ("routed_without_weight", "a mean of two experts of each sample"): _EXPERTS
    + """
    chosen = router(x).topk(2, dim=-1).indices
    picked = weights.index_select(0, chosen.flatten()).unflatten(0, chosen.shape)
    out = torch.einsum("nkij,nj->nki", picked, x).tanh()
    out = x + out.mean(dim=1)  # HERE
    loss = F.cross_entropy(head(out), y)
"""
    + TRAIN,
    ("routed_without_weight", "columns of one_hot()"): _ROUTED
    + """
    choice = logits.topk(1, -1).indices.squeeze(-1)  # HERE
    sent = F.one_hot(choice, 3).permute(1, 0)
    out = torch.zeros_like(x)
    for i, expert in enumerate(experts):
        rows, = torch.where(sent[i])
        out[rows] = expert(x[rows])
"""
    + _BALANCED
    + TRAIN,
    ("routed_without_weight", "one of the stacked results, chosen with noise"): _ROUTED
    + """
    choice = (logits + torch.randn_like(logits)).argmax(-1)  # HERE
    out = torch.stack([expert(x) for expert in experts], 1)[torch.arange(24), choice]
"""
    + _BALANCED
    + TRAIN,
}

HEALTHY = {
    "gates of the scores that were chosen": _ROUTED + _GATED.format(gates="scatter(1, choice, best)") + TRAIN,
    "a weighed mean of two experts of each sample": _EXPERTS
    + """
    values, chosen = router(x).topk(2, dim=-1)
    picked = weights.index_select(0, chosen.flatten()).unflatten(0, chosen.shape)
    out = torch.einsum("nkij,nj->nki", picked, x).tanh()
    loss = F.cross_entropy(head(torch.einsum("nk,nki->ni", values.softmax(-1), out)), y)
"""
    + TRAIN,
    "weights of an expert, and its result times the value of its choice": _EXPERTS
    + """
    gate, choice = router(x).softmax(-1).max(-1)
    out = gate[:, None] * torch.einsum("bij,bj->bi", weights.index_select(0, choice), x)
    loss = F.cross_entropy(head(out), y)
"""
    + TRAIN,
    "a fixed router": _EXPERTS.replace("*router.parameters(), ", "").replace("nn.Linear(4, 3)", FIXED)
    + """
    choice = router(x).argmax(-1)
    out = torch.einsum("bij,bj->bi", weights[choice], x)
    loss = F.cross_entropy(head(out), y)
"""
    + TRAIN,
    "a head that leaves its embedding after a training in which the two were tied": """
embed, head = nn.Embedding(9, 6), nn.Linear(6, 9, bias=False)
head.weight = embed.weight
for lr in (0.1, 0.01):
    optimizer = torch.optim.SGD([*embed.parameters(), *head.parameters()] if lr < 0.1 else embed.parameters(), lr=lr)
    for step in range(3):
        words = torch.randint(0, 9, (16,))
        loss = F.cross_entropy(head(torch.tanh(embed(words))), (words + 1) % 9)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    head.weight = nn.Parameter(embed.weight.detach().clone())
""",
    "a gradient that is stopped at the call": _ENCODER.replace("KEPT", "")
    + "    loss = (hidden @ encoder.weight.detach() - x).square().mean()\n"
    + TRAIN,
    "an average in memory of its own": _ENCODER.replace("KEPT", "average = encoder.weight.detach().clone()")
    + "    loss = (hidden @ average - x).square().mean()\n"
    + TRAIN
    + "    average.lerp_(encoder.weight.detach(), 0.1)\n",
    "a view of memory that the weight has left": _ENCODER.replace(
        "KEPT", "first = encoder.weight.data\nencoder.weight.data = torch.randn(3, 4)"
    )
    + "    loss = (hidden @ first - x).square().mean()\n"
    + TRAIN,
    "the same layers without training them": """
critic, actor = nn.Linear(4, 1), nn.Linear(3, 4)
frozen = {name: parameter.data for name, parameter in critic.named_parameters()}
optimizer = torch.optim.SGD([*critic.parameters(), *actor.parameters()], lr=0.1)
for step in range(3):
    state, action = torch.randn(8, 3), torch.randn(8, 4)
    value = torch.func.functional_call(critic, frozen, (actor(state),))
    loss = (critic(action) - state[:, :1]).square().mean() - value.mean()
"""
    + TRAIN,
    "experts that are weighed": _ROUTED
    + """
    gate, choice = probs.max(-1)
    out = torch.zeros_like(x)
    for i, expert in enumerate(experts):
        rows = (choice == i).nonzero(as_tuple=True)[0]
        out = out.index_add(0, rows, gate[rows, None] * expert(x[rows]))
"""
    + _BALANCED
    + TRAIN,
    "a straight-through router": _ROUTED
    + """
    choice = probs.argmax(-1)
    hard = F.one_hot(choice, 3).float() + probs - probs.detach()
    out = sum(hard[:, i : i + 1] * expert(x) for i, expert in enumerate(experts))
"""
    + _BALANCED
    + TRAIN,
    "a router that learns from a reward": _ROUTED
    + """
    noise = -torch.log(-torch.log(torch.rand_like(logits)))
    choice = (logits + noise).argmax(-1)
"""
    + _DISPATCHED
    + """
    error = F.cross_entropy(head(out), y, reduction="none")
    learnt = error.detach() * logits.log_softmax(-1).gather(1, choice[:, None])[:, 0]
    loss = error.mean() + learnt.mean() - 0.01 * probs.std(0).mean()
"""
    + TRAIN,
    "a router that learns from labels": _ROUTED
    + """
    choice = probs.argmax(-1)
"""
    + _DISPATCHED
    + """
    loss = F.cross_entropy(head(out), y) + F.cross_entropy(logits, (x[:, 0] > 0).long()) + 0.01 * probs.std(0).mean()
"""
    + TRAIN,
}


@pytest.mark.parametrize(("fault", "script"), FAULTS.items(), ids=lambda value: "" if "\n" in value else value[1])
def test_fault_is_told_at_its_line(fault: tuple[str, str], script: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + script, fault[0], tmp_path)


@pytest.mark.parametrize("script", HEALTHY.values(), ids=HEALTHY.keys())
def test_look_alike_is_not_told(script: str, tmp_path: Path) -> None:
    told = {finding.cause for finding in alarms(HEAD + script, tmp_path)}
    assert not told & {fault for fault, _ in FAULTS}
