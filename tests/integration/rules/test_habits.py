"""Faults of a whole training: optimizers of copies or made anew, rates that fall to nothing, what is frozen again and
again, losses of no model, probabilities as logits, branches times zeros; and what looks like them and is right."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules import checked_scripts
from tests.integration.rules.test_last_net import findings

HEAD = """
import copy
import torch
from torch import nn
from torch.nn import functional as F
torch.manual_seed(0)
net, head = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 8)), nn.Linear(8, 3)
both = [*net.parameters(), *head.parameters()]
"""
OPT = "opt = torch.optim.Adam(both, lr=0.01)\n"
LOOP = "for step in range(4):\n    x, y = torch.randn(16, 4), torch.randint(0, 3, (16,))\n"
LOSS = "    loss = F.cross_entropy(head(net(x)), y)\n"
STEP = "    opt.zero_grad()\n    loss.backward()\n    opt.step()\n"
PLAIN = HEAD + OPT + LOOP

FAULTS = {
    "all units begin with the same weights": (
        HEAD + "for p in net.parameters():\n    nn.init.constant_(p, 0.1)  # here\nnn.init.ones_(head.weight)\n" + OPT
        + LOOP + "    loss = (head(net(x)).sum(1) - x[:, 0]).square().mean()\n" + STEP,
        "units_stay_alike",
    ),
    "all units of a product begin with the same weights": (
        HEAD + "w = nn.Parameter(torch.full((4, 8), 0.1))  # here\nv = nn.Parameter(torch.full((8, 1), 0.2))\n"
        "opt = torch.optim.Adam([w, v], lr=0.1)\n" + LOOP
        + "    loss = (torch.tanh(x @ w) @ v - x[:, :1]).square().mean()\n" + STEP,
        "units_stay_alike",
    ),
    "the optimizer has a copied model": (
        HEAD + "other = copy.deepcopy(head)\n"
        "opt = torch.optim.SGD([*net.parameters(), *other.parameters()], lr=0.1)  # here\n" + LOOP + LOSS + STEP,
        "stale_optimizer_params",
    ),
    "the optimizer has cloned tensors": (
        HEAD + "opt = torch.optim.SGD([p.detach().clone().requires_grad_() for p in both], lr=0.1)  # here\n"
        + LOOP + LOSS + STEP,
        "stale_optimizer_params",
    ),
    "a replaced weight is normalized by hand": (
        HEAD + OPT + "head.weight = nn.Parameter(torch.randn(3, 8))  # here\n" + LOOP
        + "    with torch.no_grad():\n        head.weight.clamp_(-1, 1)\n" + LOSS + STEP,
        "stale_optimizer_params",
    ),
    "the optimizer is made for each batch": (
        HEAD + LOOP + "    opt = torch.optim.SGD(both, lr=0.1, momentum=0.9)  # here\n" + LOSS + STEP,
        "optimizer_made_anew",
    ),
    "the learning rate falls to nothing": (
        HEAD + OPT + "plan = torch.optim.lr_scheduler.ExponentialLR(opt, 1e-6)  # here\n"
        + LOOP + LOSS + STEP + "    plan.step()\n",
        "step_without_effect",
    ),
    "the learning rate of one group is zero": (
        HEAD + "opt = torch.optim.SGD([{'params': net.parameters(), 'lr': 0.0}, "
        "{'params': head.parameters()}], lr=0.1)  # here\n" + LOOP + LOSS + STEP,
        "step_without_effect",
    ),
    "a whole division makes the learning rate of a group": (
        HEAD + "groups = [\n    {'params': list(part.parameters()), 'lr': 0.1 * (i // 2)}  # here\n"
        "    for i, part in enumerate((net, head), start=1)\n]\n"
        "opt = torch.optim.SGD(groups, lr=0.1)\n" + LOOP + LOSS + STEP,
        "step_without_effect",
    ),
    "a model is frozen after each step": (
        PLAIN + LOSS + STEP + "    net.requires_grad_(False)  # here\n",
        "requires_grad_false",
    ),
    "a perturbation that needs its gradient to move": (
        HEAD + OPT + "delta = torch.zeros(16, 4)  # here\n" + LOOP
        + "    loss = F.cross_entropy(head(net(x + delta)), y)\n" + STEP
        + "    if delta.grad is not None:\n        delta.data.add_(delta.grad.sign(), alpha=0.1)\n"
        "        delta.grad = None\n",
        "requires_grad_false",
    ),
    "the same with a function that returns early": (
        HEAD + OPT + "delta = torch.zeros(4)  # here\n\ndef climb():\n    global delta\n"
        "    if delta.grad is None:\n        return\n    delta = delta + 0.1 * delta.grad\n\n" + LOOP
        + "    loss = F.cross_entropy(head(net(x + delta)), y)\n" + STEP + "    climb()\n",
        "requires_grad_false",
    ),
    "everything is frozen before the optimizer gets the rest": (
        HEAD + "net.requires_grad_(False)\nhead.requires_grad_(False)\n"
        "opt = torch.optim.SGD([p for p in both if p.requires_grad])\n",
        "requires_grad_false",
    ),
    "a loss contains no model": (
        PLAIN + "    logits = head(net(x))  # here\n    loss = (x - 1).square().mean()\n" + STEP,
        "unused_parameter",
    ),
    "a helper returns a term that is left out": (
        HEAD + "def spread(h):\n    h = h - h.mean(0)\n    return h.square().mean()\n" + OPT + LOOP
        + "    loss = head(x.repeat(1, 2)).square().mean()\n    extra = spread(net(x))  # here\n" + STEP,
        "unused_parameter",
    ),
    "probabilities are given to a loss of logits": (
        PLAIN + "    p = head(net(x)).softmax(1)  # here\n    loss = F.cross_entropy(p, y)\n" + STEP,
        "normalized_twice",
    ),
    "probabilities are given to a loss of log-probabilities": (
        PLAIN + "    p = head(net(x)).softmax(1)  # here\n    loss = F.nll_loss(p, y)\n" + STEP,
        "normalized_twice",
    ),
    "probabilities of a sigmoid are given to a loss of logits": (
        PLAIN + "    p = torch.sigmoid(head(net(x))).view(-1)  # here\n"
        "    loss = F.binary_cross_entropy_with_logits(p, F.one_hot(y, 3).float().view(-1))\n" + STEP,
        "normalized_twice",
    ),
    "one of two branches is multiplied by zeros": (
        PLAIN + "    h = net(x)\n    gate = torch.sigmoid(h) * torch.zeros_like(h)  # here\n"
        "    loss = F.cross_entropy(head(h + gate), y)\n" + STEP,
        "masked_out",
    ),
    "a term is far below its lower bound": (
        PLAIN + "    h = net(x)\n    size = h.square().mean().clamp(min=1e5)  # here\n"
        "    loss = F.cross_entropy(head(h), y) + size\n" + STEP,
        "saturation",
    ),
    "a hook leaves almost nothing": (
        HEAD + OPT + "for p in both:\n    p.register_hook(lambda g: g * 1e-6)  # here\n" + LOOP + LOSS + STEP,
        "hook_alters_grad",
    ),
    "a plain tensor is left out beside another one": (
        HEAD + "scale, shift = torch.ones(4, requires_grad=True), torch.zeros(4, requires_grad=True)\n"
        "opt = torch.optim.SGD([scale], lr=0.1)  # here\n" + LOOP
        + "    loss = (x * scale + shift - 1).square().mean()\n" + STEP,
        "not_stepped",
    ),
    "the step is behind the loop": (
        HEAD + OPT + "for epoch in range(2):\n    for step in range(3):\n"
        "        x, y = torch.randn(16, 4), torch.ones(16).long()\n"
        "        opt.zero_grad()  # here\n        F.cross_entropy(head(net(x)), y).backward()\n"
        "        nn.utils.clip_grad_norm_(both, 1.0)\n    opt.step()\n",
        "missing_zero_grad",
    ),
    "a closure gives backward a weight": (
        HEAD + "opt = torch.optim.LBFGS(both)\nx, y = torch.randn(16, 4), torch.randint(0, 3, (16,))\n"
        "def closure():\n"
        "    opt.zero_grad()\n    loss = F.cross_entropy(head(net(x)), y)\n"
        "    loss.backward(torch.full_like(loss, 64.0))  # here\n    return loss\n"
        "for step in range(3):\n    opt.step(closure)\n",
        "grad_argument",
    ),
    "a target network is the network itself": (
        HEAD + OPT + "target = head  # here\n" + LOOP
        + "    with torch.no_grad():\n        best = target(net(x)).argmax(1)\n"
        "    loss = F.cross_entropy(head(net(x)), best)\n" + STEP
        + "    target.load_state_dict(head.state_dict())\n",
        "copied_onto_itself",
    ),
    "a target network that follows itself is the network": (
        HEAD + OPT + "target = head  # here\n" + LOOP + LOSS + STEP + "    with torch.no_grad():\n"
        "        for t, s in zip(target.parameters(), head.parameters()):\n            t.mul_(0.9).add_(0.1 * s)\n",
        "copied_onto_itself",
    ),
    "a target network that is never updated is the network itself": (
        HEAD + OPT + "target = head  # here\n" + LOOP
        + "    wanted = 0.9 * target(net(x + 1)).detach()\n    loss = F.mse_loss(head(net(x)), wanted)\n" + STEP,
        "copied_onto_itself",
    ),
    "the teacher is the student itself, and frozen": (
        HEAD + OPT + "teacher, other = head.eval(), 3  # here\nfor p in teacher.parameters():\n    p.detach_()\n"
        + LOOP + LOSS + STEP,
        "copied_onto_itself",
    ),
    "the input of a residual block is cut off beside it": (
        PLAIN + "    h = net[0](x)\n    h = h.detach() + net[2](torch.tanh(h))  # here\n"
        "    loss = F.cross_entropy(head(h), y)\n" + STEP,
        "detached",
    ),
    "both halves of a straight-through estimator are detached": (
        PLAIN + "    h = net(x)\n    hard = h.detach() + (h.round() - h).detach()  # here\n"
        "    loss = F.cross_entropy(head(hard), y) + h.square().mean()\n" + STEP,
        "detached",
    ),
    "one of two comparisons is not detached": (
        PLAIN + "    one, two = net(x), net(x + 0.1)\n    p, q = torch.tanh(one), torch.tanh(two)\n"
        "    loss = F.mse_loss(one, two.detach())\n    loss = loss + 0.2 * F.mse_loss(two, one)  # here\n"
        "    loss = loss + F.cross_entropy(head(p + q), y)\n" + STEP,
        "gradient_into_target",
    ),
    "a discriminator's loss has the history of the generator": (
        HEAD + "ours, theirs = torch.optim.Adam(net.parameters()), torch.optim.Adam(head.parameters())\n" + LOOP
        + "    fake = net(x)\n    d_loss = head(fake).mean()  # here\n    theirs.zero_grad()\n    d_loss.backward()\n"
        "    theirs.step()\n    loss = -head(fake).mean()\n" + STEP.replace("opt.", "ours."),
        "graph_freed",
    ),
    "a policy's loss has the history of the critic": (
        HEAD + "ours, theirs = torch.optim.Adam(net.parameters()), torch.optim.Adam(head.parameters())\n" + LOOP
        + "    value = net(x).mean(1)\n    v_loss = (value - 1).square().mean()\n    ours.zero_grad()\n"
        "    v_loss.backward()\n    ours.step()\n    weight = torch.exp(1 - value)  # here\n"
        "    loss = (weight * head(x.repeat(1, 2)).square().mean(1)).mean()\n" + STEP.replace("opt.", "theirs."),
        "graph_freed",
    ),
    "means of data are written through an index with duplicates": (
        PLAIN + "    group = torch.arange(16) % 4\n    mean = torch.zeros(4, 4)\n    mean[group] = x / 4  # here\n"
        "    loss = (head(net(x)).mean(1) - mean[group].mean(1)).square().mean()\n" + STEP,
        "duplicate_index",
    ),
    "a copy that is never updated is differentiated as a target": (
        HEAD + OPT + "target = copy.deepcopy(head)\n" + LOOP
        + "    wanted = 0.9 * target(x.repeat(1, 2))  # here\n    loss = F.mse_loss(head(net(x)), wanted)\n" + STEP,
        "gradient_into_target",
    ),
    "a copied twin is left out of the optimizer": (
        HEAD + "twin = copy.deepcopy(head)\n" + OPT.replace("\n", "  # here\n") + LOOP
        + "    loss = F.cross_entropy(head(net(x)), y) + F.cross_entropy(twin(net(x)), y)\n" + STEP,
        "not_stepped",
    ),
    "gradients are switched off beside a target without them": (
        HEAD + "with torch.no_grad():\n    wanted = head(net(torch.randn(16, 4)))\n" + OPT
        + "with torch.set_grad_enabled(False):  # here\n    loss = F.mse_loss(head(net(torch.randn(16, 4))), wanted)\n"
        "    loss.backward()\n",
        "no_grad_block",
    ),
    "a draw is detached for its log-probability only": (
        PLAIN + "    d = torch.distributions.Normal(head(net(x)), 1.0)\n    a = d.rsample()\n"
        "    logp = d.log_prob(a.detach())  # here\n    loss = (0.1 * logp + (a - 1).square()).mean()\n" + STEP,
        "detached",
    ),
    "a sign makes a factor zero": (
        PLAIN + "    p = torch.sign(torch.sigmoid(head(x.repeat(1, 2))))  # here\n"
        "    loss = F.cross_entropy(net(x), y) + ((1 - p) ** 2 * F.one_hot(y, 3)).sum()\n" + STEP,
        "zero_gradient_op",
    ),
    "a literal zero is left in a target": (
        PLAIN + "    goal = F.one_hot(y, 3)\n    loss = (head(net(x)) - 0.0 * goal).square().mean()  # here\n" + STEP,
        "term_without_gradient",
    ),
    "a literal zero is left in a penalty": (
        PLAIN + "    h = net(x)\n    rest = (0 * h.norm(dim=1) - 1).square().mean()  # here\n"
        "    loss = F.cross_entropy(head(h), y) + rest\n" + STEP,
        "term_without_gradient",
    ),
    "a comparison is added to each element of a loss": (
        PLAIN + "    h = net(x)\n    extra = (h > 0).float().mean(1)  # here\n"
        "    loss = (head(h).square().mean(1) + extra).mean()\n" + STEP,
        "term_without_gradient",
    ),
    "the best state is no copy": (
        PLAIN + LOSS + STEP + "    if step == 1:\n        best = head.state_dict()  # here\n"
        "head.load_state_dict(best)\n",
        "copied_onto_itself",
    ),
    "a prediction is cut off beside a target that is chosen without gradients": (
        HEAD + "other = copy.deepcopy(head)\nopt = torch.optim.SGD(head.parameters(), lr=0.1)\n" + LOOP
        + "    with torch.no_grad():\n        best = other(net(x)).gather(1, head(net(x)).argmax(1, keepdim=True))\n"
        "    q = head(net(x).detach()).gather(1, y[:, None]).data  # here\n    loss = F.mse_loss(q, best)\n" + STEP,
        "data_access",
    ),
    "a distribution refuses NaN before the first backward": (
        PLAIN + "    spread = (x - x).std()\n    logits = head(net(x)) / spread  # here\n"
        "    loss = torch.distributions.Categorical(logits=logits).entropy().mean()\n" + STEP,
        "nan_from_op",
    ),
    "a loss refuses what has overflowed before the first backward": (
        PLAIN + "    odds = torch.exp(1000 + net(x))  # here\n    p = torch.sigmoid(head(odds - odds))\n"
        "    loss = F.binary_cross_entropy(p, F.one_hot(y, 3).float())\n" + STEP,
        "overflow",
    ),
    "of two cuts, the one at the end raises": (
        HEAD + "before = torch.optim.SGD(net.parameters(), lr=0.1)\n"
        "opt = torch.optim.SGD(head.parameters(), lr=0.1)\n" + LOOP
        + "    scores = head(net(x).detach())\n    loss = scores.square().mean().long() / 10  # here\n" + STEP,
        "integer_cast",
    ),
}  # fmt: skip

FOLLOWED = {
    "a draw is detached for its log-probability only": ("remove the detach()", "a.detach()", "a"),
    "the input of a residual block is cut off beside it": ("remove the detach()", "h.detach() + net", "h + net"),
    "both halves of a straight-through estimator are detached": ("remove the detach()", "h.detach() + (", "h + ("),
    "one of two comparisons is not detached": ("detach() ", "loss(two, one)", "loss(two, one.detach())"),
    "a literal zero is left in a target": ("write the weight", "0.0 * goal", "0.9 * goal"),
    "a literal zero is left in a penalty": ("leave the term out", " + rest", ""),
    "a comparison is added to each element of a loss": ("add the tensor itself", "(h > 0).float()", "h"),
    "a discriminator's loss has the history of the generator": (
        "detach() what line", "head(fake).mean()  # here", "head(fake.detach()).mean()",
    ),
    "a policy's loss has the history of the critic": ("detach() what line", "1 - value", "1 - value.detach()"),
    "a target network that follows itself is the network": (
        "copy.deepcopy(model) for a second", "target = head  # here", "target = copy.deepcopy(head)",
    ),
    "a target network that is never updated is the network itself": (
        "target = copy.deepcopy(head)", "target = head", "target = copy.deepcopy(head)",
    ),
    "the teacher is the student itself, and frozen": (
        "teacher = copy.deepcopy(head)", "head.eval()", "copy.deepcopy(head)",
    ),
    "means of data are written through an index with duplicates": (
        "index_add(0, index, values)", "mean[group] = x / 4", "mean = mean.index_add(0, group, x / 4)",
    ),
    "a copy that is never updated is differentiated as a target": (
        "under torch.no_grad()", "wanted = ", "with torch.no_grad():\n        wanted = ",
    ),
    "a copied twin is left out of the optimizer": ("optimizer", "Adam(both,", "Adam([*both, *twin.parameters()],"),
}  # fmt: skip
"""By fault: a phrase of the advice, and the edit of a reader who follows it."""

HEALTHY = {
    "the last layer begins at zero": HEAD + "nn.init.zeros_(head.weight)\n" + OPT + LOOP + LOSS + STEP,
    "a scale and a row begin with ones": HEAD + "row, scale = nn.Parameter(torch.ones(1, 8)), "
    "nn.Parameter(torch.ones(8, 1))\nopt = torch.optim.Adam([*both, row, scale], lr=0.01)\n" + LOOP
    + "    loss = F.cross_entropy(head(net(x) * row * scale.T), y)\n" + STEP,
    "a mask of -Inf in a program that ends for another reason": PLAIN
    + "    scores = head(net(x)).masked_fill(x[:, :3] > 9, -torch.inf)\n"
    "    loss = F.cross_entropy(scores, y)\n" + STEP + "raise ValueError('the result is not finite')\n",
    "a target network that follows the network": HEAD + OPT + "target = copy.deepcopy(head).requires_grad_(False)\n"
    + LOOP + "    loss = F.mse_loss(head(net(x)), target(net(x).detach()))\n" + STEP
    + "    target.load_state_dict(head.state_dict())\n",
    "which groups there are, and what is kept for later": PLAIN + "    group = torch.arange(16) % 4\n"
    "    there = torch.zeros(4)\n    there[group] = 1.0\n    if step == 0:\n        table = torch.zeros(4)\n"
    "    weight = there.scatter(0, group, torch.ones(16))[group] + table[group]\n"
    "    loss = (head(net(x)).square().mean(1) * weight).mean()\n    table[group] = x.mean(1)\n" + STEP,
    "a draw that is only weighed by what it brought": PLAIN
    + "    d = torch.distributions.Normal(head(net(x)), 1.0)\n    a = d.rsample().detach()\n"
    "    loss = -(d.log_prob(a) * (a - 1).square()).mean()\n" + STEP,
    "a leaky state from which what it sent is subtracted": PLAIN + "    state = torch.zeros(16, 8)\n"
    "    for t in range(3):\n        state = 0.9 * state + net(x)\n        sent = torch.sigmoid(state - 1)\n"
    "        state = state - sent\n    loss = F.cross_entropy(head(state), y)\n" + STEP,
    "each row moves towards the one before it": PLAIN + "    h = head(net(x))\n"
    "    loss = F.cross_entropy(h, y) + (h[1:] - h[:-1].detach()).square().mean()\n" + STEP,
    "two results that move towards each other": PLAIN + "    one, two = net(x), net(x + 0.1)\n"
    "    loss = F.mse_loss(one, two.detach()) + 0.2 * F.mse_loss(two, one.detach())\n"
    "    loss = loss + F.cross_entropy(head(one + two), y)\n" + STEP,
    "differences to a maximum, and to a value of its own": PLAIN + "    h = head(net(x))\n"
    "    h = h - h.amax(1, keepdim=True).detach()\n    zero = h[:, 0] - h[:, 0].detach()\n"
    "    loss = F.cross_entropy(h + zero[:, None], y)\n" + STEP,
    "a part of a gradient": PLAIN + "    h = net(x)\n    h = 0.1 * h + 0.9 * h.detach()\n"
    "    loss = F.cross_entropy(head(h), y)\n" + STEP,
    "straight-through estimators": PLAIN + "    h = net(x)\n    h = h + (h.round() - h).detach()\n"
    "    p = head(h).softmax(1)\n    hard = F.one_hot(p.argmax(1), 3).float() - p.detach() + p\n"
    "    loss = (hard - F.one_hot(y, 3)).square().mean()\n" + STEP,
    "a refinement whose rounds are cut off from each other": PLAIN + "    at, loss = torch.zeros(16, 8), 0.0\n"
    "    for turn in range(3):\n        at = at.detach()\n        at = at + net(x + at[:, :4])\n"
    "        loss = loss + F.cross_entropy(head(at), y)\n" + STEP,
    "the value of another loss, and the gradient of this one": PLAIN + LOSS.replace("loss", "proxy")
    + "    loss = proxy + (proxy * 2 - proxy).detach()\n" + STEP,
    "a sum of all parameters that keeps them in the graph": PLAIN + LOSS
    + "    loss = loss + 0.0 * sum(p.sum() for p in both)\n" + STEP,
    "a sum that starts at zero": PLAIN + "    h = net(x)\n    loss = h.sum() * 0.0\n"
    "    for part in (0, 8):\n        loss = loss + F.cross_entropy(head(h[part : part + 8]), y[part : part + 8])\n"
    + STEP,
    "a ratio of log-probabilities": PLAIN + "    logp = head(net(x)).log_softmax(1)[:, 0]\n"
    "    with torch.no_grad():\n        before = head(net(x)).log_softmax(1)[:, 0]\n"
    "    loss = (before - logp).mean() + (logp.exp() - 0.5).square().mean()\n" + STEP,
    "rounds of a search for a fixed point": PLAIN + "    u = net(x)\n    with torch.no_grad():\n"
    "        z = torch.zeros(16, 8)\n        for turn in range(3):\n            z = torch.tanh(net(z[:, :4]) + u)\n"
    "    z = torch.tanh(net(z[:, :4]) + u)\n    loss = F.cross_entropy(head(z), y)\n" + STEP,
    "a probe of a draw that is trained otherwise": PLAIN + "    mean = net(x)\n"
    "    z = mean + torch.randn_like(mean) * mean.exp()\n"
    "    loss = z.square().mean() + F.cross_entropy(head(z.detach()), y)\n" + STEP,
    "a second name for a trained model": PLAIN + LOSS + STEP
    + "    model = head\n    with torch.no_grad():\n        print(model(net(x)).mean())\n"
    "final = head.eval().requires_grad_(False)\nprint(final(net(x)).mean())\n",
    "an optimizer for each of two stages": HEAD + "for stage in range(2):\n    opt = torch.optim.Adam(both, lr=0.01)\n"
    "    for step in range(2):\n        loss = head(net(torch.randn(16, 4))).square().mean()\n"
    + STEP.replace("    ", "        "),
    "an optimizer for each task, from the same weights": HEAD + "start = copy.deepcopy(head.state_dict())\n" + LOOP
    + "    head.load_state_dict(start)\n    opt = torch.optim.Adam(head.parameters(), lr=0.01)\n"
    "    loss = F.cross_entropy(head(net(x).detach()), y)\n" + STEP,
    "a schedule that ends at zero": HEAD + OPT + "plan = torch.optim.lr_scheduler.CosineAnnealingLR(opt, 3)\n"
    + LOOP + LOSS + STEP + "    plan.step()\n",
    "a part that is frozen once": PLAIN + LOSS + STEP + "    if step == 0:\n        net.requires_grad_(False)\n",
    "frozen for one loss, and free for the next": PLAIN + LOSS + STEP + "    head.requires_grad_(False)\n"
    "    loss = head(net(x)).square().mean()\n" + STEP + "    head.requires_grad_(True)\n",
    "log-probabilities for their loss": PLAIN + "    loss = F.nll_loss(head(net(x)).log_softmax(1), y)\n" + STEP,
    "soft targets": PLAIN + "    with torch.no_grad():\n        target = head(net(x)).softmax(1)\n"
    "    loss = F.cross_entropy(head(net(x)), target)\n" + STEP,
    "a first state of zeros": HEAD + "cell = nn.Linear(12, 8)\n"
    "opt = torch.optim.Adam([*cell.parameters(), *both], lr=0.01)\n" + LOOP
    + "    h = torch.zeros(16, 8)\n    for t in range(3):\n        f = torch.sigmoid(cell(torch.cat([x, h], 1)))\n"
    "        h = f * h + (1 - f) * net(x)\n    loss = F.cross_entropy(head(h), y)\n" + STEP,
    "a term below a bound that it can reach": PLAIN + "    h = net(x)\n    size = h.square().mean().clamp(min=0.5)\n"
    "    loss = F.cross_entropy(head(h), y) + size\n" + STEP,
    "collocation points of an equation": HEAD + "opt = torch.optim.Adam([{'params': both}], lr=0.01)\n"
    "x = torch.randn(16, 4, requires_grad=True)\nfor step in range(4):\n    u = head(net(x)).sum()\n"
    "    (slope,) = torch.autograd.grad(u, x, create_graph=True)\n    loss = (slope - x).square().mean()\n" + STEP,
    "a hook that averages": HEAD + OPT + "for p in both:\n    p.register_hook(lambda g: g / 8)\n" + LOOP + LOSS + STEP,
}  # fmt: skip

PLAIN_TENSOR = (
    HEAD
    + """
class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = {}
        self.shift = nn.Parameter(torch.zeros(3))
    def forward(self, x):
        return x * self.scale + self.shift
scaled = Scaled()
opt = torch.optim.SGD([*both, *scaled.parameters()], lr=0.1)
"""
    + LOOP
    + "    loss = F.cross_entropy(scaled(head(net(x))), y)\n"
    + STEP
)


CLEARED_BY_HAND = """
    loss = F.cross_entropy(head(net(x)), y)
    loss.backward()
    for p in both:
        {change}
    opt.step()
    for p in both:
        p.grad = torch.zeros_like(p.grad)
"""


@pytest.mark.parametrize(
    "change",
    ["p.grad /= 2", "p.grad = p.grad / 2", "p.grad.masked_fill_(torch.tensor(False), 0)", "p.grad.clamp_(-1, 1)"],
)
def test_a_gradient_that_is_changed_before_the_step_is_not_cleared(change: str, tmp_path: Path) -> None:
    assert findings(PLAIN + CLEARED_BY_HAND.format(change=change), tmp_path) == []


def test_a_gradient_that_is_only_divided_is_not_cleared_by_that(tmp_path: Path) -> None:
    source = (
        HEAD
        + OPT
        + LOOP
        + CLEARED_BY_HAND.format(change="p.grad /= 2").replace("torch.zeros_like(p.grad)", "p.grad * 1")
    )
    assert [each.cause for each in findings(source, tmp_path)] == ["missing_zero_grad"]


@pytest.mark.parametrize(
    ("made", "severity"),
    [
        ("torch.ones(3)", "warning"),
        ("torch.randn(3) * 0.1", "warning"),
        ("torch.full((3,), 2.0)", "note"),
        ("torch.zeros(3)", "error"),
    ],
)
def test_a_tensor_that_a_module_keeps_without_parameter_is_told_on_its_line(
    made: str, severity: str, tmp_path: Path
) -> None:
    """As an alarm, if nobody keeps such a constant: it changes nothing, was drawn at random, or removes a gradient."""
    source = PLAIN_TENSOR.format(made)
    first = findings(source, tmp_path)[0]
    assert (first.cause, first.severity) == ("plain_tensor", severity)
    assert first.location is not None
    assert "self.scale = " in source.splitlines()[first.location.line - 1]


@pytest.mark.parametrize("made", ["nn.Parameter(torch.ones(3))", "2.0", "torch.tensor(1)"])
def test_parameters_and_numbers_are_no_plain_tensors(made: str, tmp_path: Path) -> None:
    assert findings(PLAIN_TENSOR.format(made), tmp_path) == []


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_of_the_whole_training_has_its_cause_and_its_line(name: str, tmp_path: Path) -> None:
    source, cause = FAULTS[name]
    alarms = [each for each in findings(source, tmp_path) if each.is_alarm]
    assert alarms and alarms[0].cause == cause, alarms
    marked = next((number for number, line in enumerate(source.splitlines(), 1) if "# here" in line), None)
    if marked is not None:
        assert alarms[0].location is not None
        assert alarms[0].location.line == marked, alarms[0]


@pytest.mark.parametrize("name", HEALTHY)
def test_what_looks_like_such_a_fault_and_is_right_raises_no_alarm(name: str, tmp_path: Path) -> None:
    assert [each for each in findings(HEALTHY[name], tmp_path) if each.is_alarm] == []


@pytest.mark.parametrize("name", FOLLOWED)
def test_who_follows_the_advice_has_no_alarm_any_more(name: str, tmp_path: Path) -> None:
    source, cause = FAULTS[name]
    phrase, old, new = FOLLOWED[name]
    first = next(each for each in findings(source, tmp_path) if each.cause == cause)
    assert phrase in (first.fix or ""), first.fix
    assert old in source
    assert [each for each in findings(source.replace(old, new), tmp_path) if each.is_alarm] == []


MAY_BE_MEANT = {
    "the negative distances are cut off": "    d = torch.cdist(head(net(x)), torch.eye(3))\n"
    "    near = d.gather(1, y[:, None])\n    far = d.gather(1, 2 - y[:, None]).detach()  # here\n"
    "    loss = F.softplus(near - far + 1).mean()\n",
    "one of two views is cut off": "    one, two = head(net(x)), head(net(x + 0.1))\n"
    "    z = torch.cat([one.detach(), two])  # here\n    loss = F.cross_entropy(z @ z.T, torch.arange(32))\n",
    "the value of the next state": "    value = head(net(x)).mean(1)\n"
    "    loss = (value[1:].detach() - value[:-1] + x[1:, 0]).square().mean()  # here\n",
    "a refinement of what another loss trains": "    h = net(x)\n"
    "    better = h + net[2](torch.tanh(h.detach()))  # here\n"
    "    loss = F.cross_entropy(head(h), y) + F.cross_entropy(head(better), y)\n",
}


@pytest.mark.parametrize("name", MAY_BE_MEANT)
def test_a_cut_that_some_programs_mean_is_only_noted(name: str, tmp_path: Path) -> None:
    source = PLAIN + MAY_BE_MEANT[name] + STEP
    told = findings(source, tmp_path)
    assert [each for each in told if each.is_alarm] == []
    found = next(each for each in told if each.cause == "detached")
    assert found.location is not None
    assert "# here" in source.splitlines()[found.location.line - 1]
    assert (found.fix or "").startswith("if that is not meant, remove the detach()")


TOWERS = """
class Tower(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))

class TwoTowers(nn.Module):
    def __init__(self):
        super().__init__()
        self.users, self.items = Tower(), Tower()

    def of_user(self, x):
        return self.users(x)

    def of_item(self, x):
        return self.users(x)  # HERE

    def forward(self, x, y):
        return (self.of_user(x) * self.of_item(y)).sum(1)

model = TwoTowers()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    loss = F.softplus(-model(torch.randn(6, 4), torch.randn(6, 4))).mean()
"""


def test_a_tower_that_is_called_in_the_place_of_its_twin_is_told_at_that_call(tmp_path: Path) -> None:
    script = checked_scripts.HEAD + TOWERS + checked_scripts.TRAIN
    checked_scripts.assert_first_alarm(script, "unused_parameter", tmp_path)
    assert (
        "model.users, of the same shape, is called twice there" in checked_scripts.alarms(script, tmp_path)[0].message
    )
