"""Mistakes in data, positions and steps that are written with other functions: ``where`` as a method, ``narrow`` and
``select``, ``masked_fill``, ``mv``, ``torch._foreach_*``, lists of time steps; and their healthy look-alikes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

ADAM = "optimizer = torch.optim.Adam(net.parameters(), lr=0.01)\n"
TOKENS = HEAD + (
    "net = nn.Sequential(nn.Embedding(13, 16), nn.Linear(16, 12))\n" + ADAM
    + "for step in range(5):\n    ids = torch.randint(0, 12, (16, 10))\n    keep = torch.rand(ids.shape) >= 0.2\n"
    "    seen = ids.where(keep, 12)\n"
)  # fmt: skip
ASKED = "    loss = F.cross_entropy(net(seen).flatten(0, 1), wanted.flatten(), ignore_index=-100)" + TRAIN
SERIES = HEAD + (
    "net = nn.Linear({}, 1)\n" + ADAM + "series = torch.randn(40, 30).cumsum(1)\n"
    "chunks = series.unfold(1, 12, 3).reshape(-1, 12)\n{}\nfor step in range(5):\n"
    "    rows = torch.randint(0, len(chunks), (16,))\n"
    "    loss = F.mse_loss(net(past[rows]).squeeze(1), target[rows])" + TRAIN
)  # fmt: skip
VALUES = HEAD + (
    "net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 1))\n" + ADAM
    + "for step in range(6):\n    s, s2, r = torch.randn(32, 6), torch.randn(32, 6), torch.randn(32)\n"
    "    b = {{'alive': torch.rand(32) < 0.8}}\n    done = ~b['alive']\n    r = r + done\n"
    "    with torch.no_grad():\n        future = net(s2).squeeze(1)\n        {}\n"
    "        target = r.add(future, alpha=0.9)\n    loss = F.mse_loss(net(s).squeeze(1), target)" + TRAIN
)  # fmt: skip
PLACES = HEAD + (
    "where = torch.randn(64, 16)\ntok, attn = nn.Embedding(9, 16), nn.MultiheadAttention(16, 2, batch_first=True)\n"
    "net = nn.ModuleList([tok, attn, nn.Linear(16, 9)])\n" + ADAM
    + "for step in range(5):\n    ids = torch.randint(0, 9, (8, 6))\n    x = tok(ids)\n    {}\n"
    "    loss = F.cross_entropy(net[2](attn(x, x, x)[0]).transpose(1, 2), ids)" + TRAIN
)  # fmt: skip
PAIRS = HEAD + (
    "picture, text = nn.Linear(6, 8), nn.Embedding(40, 8)\nscale = nn.Parameter(torch.tensor(1.0))\n"
    "optimizer = torch.optim.Adam([*picture.parameters(), *text.parameters(), scale], lr=0.01)\nfor step in range(5):\n"
    "    topic = torch.cat([torch.randperm(40)[:15], torch.randint(0, 40, (1,))])\n    topic[-1] = topic[0]\n"
    "    x = torch.randn(16, 6)\n    {}\n    loss = F.cross_entropy(scores, labels)" + TRAIN
)  # fmt: skip
STORED = HEAD + (
    "net = nn.Linear(12, 12)\n" + ADAM + "X, Y, trust = torch.randn(60, 12), torch.randn(60, 12), torch.rand(60)\n"
    "for step in range(5):\n    rows = torch.randint(0, 60, (12,))\n    x, y, w = X[rows], Y[rows], trust[rows]\n"
    "    share, err = w / w.sum(), (net(x) - y).square()\n    {}" + TRAIN
)  # fmt: skip
STEPS = HEAD + (
    "net = nn.Linear(6, 4)\nparams, slots = list(net.parameters()), {{}}\nfor step in range(6):\n"
    "    for p in params:\n        p.grad = None\n"
    "    F.mse_loss(net(torch.randn(16, 6)), torch.randn(16, 4)).backward()\n"
    "    with torch.no_grad():\n        grads = [p.grad for p in params]\n        {}\n"
    "        torch._foreach_add_(params, avgs, alpha=-0.1)\n"
)  # fmt: skip
SHARP = HEAD + (
    "net = nn.Linear(6, 3)\noptimizer = torch.optim.SGD(net.parameters(), lr=0.1)\nparams = list(net.parameters())\n"
    "for step in range(5):\n    x, y = torch.randn(16, 6), torch.randint(0, 3, (16,))\n    optimizer.zero_grad()\n"
    "    F.cross_entropy(net(x), y).backward()\n    moves = torch._foreach_mul([p.grad for p in params], 0.05)\n"
    "    with torch.no_grad():\n        {}\n    optimizer.zero_grad()\n    F.cross_entropy(net(x), y).backward()\n{}"
    "    optimizer.step()\n"
)  # fmt: skip
LETTERS = HEAD + (
    "table, cell, out = nn.Embedding(9, 16), nn.GRUCell(16, 16), nn.Linear(16, 9)\n"
    "net = nn.ModuleList([table, cell, out])\n" + ADAM
    + "for step in range(5):\n    seq = torch.randint(0, 9, (8, 7))\n    h, rows = torch.zeros(8, 16), []\n"
    "    for e in table(seq[:, :-1]).unbind(1):\n        h = cell(e, h)\n        rows.append(out(h))\n    {}\n"
)  # fmt: skip
WORDS = HEAD + (
    "table, mix = nn.Parameter(0.3 * torch.randn(8, 16)), nn.Linear(48, 8)\n"
    "optimizer = torch.optim.Adam([table, *mix.parameters()], lr=0.01)\n"
    "stream = (torch.rand(200).square() * 8).long()\n"
    "grams = stream.unfold(0, 4, 1)\nfor step in range(5):\n"
    "    past, word = grams[torch.randint(0, 197, (32,))].split([3, 1], 1)\n"
    "    e = {}\n    loss = F.cross_entropy(mix(e.flatten(1)), word.squeeze(1))" + TRAIN
)  # fmt: skip
TAGS = HEAD + (
    "LISTED\nCODE = {{name: i for i, name in enumerate(NAMES)}}\n"
    "bags, out = nn.EmbeddingBag(5, 4, mode='sum'{module}), nn.Linear(4, 1)\ntable = bags.weight\n"
    "optimizer = torch.optim.Adam([table, *out.parameters()], lr=0.01)\nfor step in range(6):\n"
    "    sizes = torch.randint(1, 4, (20,))\n    flat = torch.randint({first}, 5, (int(sizes.sum()),))\n"
    "    starts = sizes.cumsum(0) - sizes\n    bag = {bag}\n    loss = out(bag).square().mean()" + TRAIN
)  # fmt: skip
ITEMS = "NAMES = ['drama', 'comedy', 'crime', 'war', 'music']"
WITH_UNKNOWN = "NAMES = ['<unk>', 'comedy', 'crime', 'war', 'music']"


def tags(listed: str, bag: str, module: str = "", first: int = 0) -> str:
    """A model of bags of tags, of different lengths."""
    return TAGS.format(bag=bag, module=module, first=first).replace("LISTED", listed)


OF_BAGS = "F.embedding_bag(flat, table, starts, mode='sum', padding_idx=0)"
BUFFER = HEAD + (
    "net = nn.Linear(8, 3)\n" + ADAM + "data, label = torch.randn(50, 8), torch.randint(0, 3, (50,))\n"
    "buffer = torch.empty(8)\nfor step in range(6):\n    ids = torch.randint(0, 50, (12,))\n"
    "    rows = [{} for i in ids.tolist()]\n    x = torch.stack(rows)\n"
    "    loss = F.cross_entropy(net(x), label[ids])" + TRAIN
)  # fmt: skip
NOISY = HEAD + (
    "net = nn.Linear(6, 6)\n" + ADAM + "def noise(like):\n    return torch.randn_like(like)\n"
    "def corrupt(x, e=None):\n    return 0.8 * x + 0.6 * (noise(x) if e is None else e)\n"
    "for step in range(5):\n    x = torch.rand(16, 6)\n{}"
    "    loss = F.mse_loss(net(given), eps)" + TRAIN
)  # fmt: skip

CLIPPED = HEAD + (
    "from torch.func import functional_call, grad, vmap\nnet = nn.Linear(6, 3)\n"
    "weights = {{k: p.detach() for k, p in net.named_parameters()}}\ndef single(weights, x, y):\n"
    "    return F.cross_entropy(functional_call(net, weights, (x[None],)), y[None])\nfor step in range(5):\n"
    "    x, y = torch.randn(16, 6), torch.randint(0, 3, (16,))\n"
    "    each = list(vmap(grad(single), (None, 0, 0))(weights, x, y).values())\n    {}\n"
    "    for w, g in zip(weights.values(), each):\n        w.sub_(g.sum(0), alpha=0.01)\n"
)

FAULTS = {
    "one clip for all with foreach": (
        "one_clip_for_all_samples",
        CLIPPED.format(
            "size = torch.stack(torch._foreach_norm(each)).norm()  # HERE\n"
            "    each = torch._foreach_mul(each, (1.0 / size).clamp(max=1.0))"
        ),
    ),
    "labels kept where they are seen": (
        "visible_positions_asked", TOKENS + "    wanted = ids.where(keep, -100)  # HERE\n" + ASKED,
    ),
    "labels replaced by a tensor where they are hidden": (
        "visible_positions_asked",
        TOKENS + "    wanted = torch.where(~keep, torch.full_like(ids, -100), ids)  # HERE\n" + ASKED,
    ),
    "a target selected from the window": (
        "targets_are_inputs",
        SERIES.format(12, "past, target = chunks.narrow(1, 0, 12), chunks.select(1, 11)  # HERE"),
    ),
    "a target that is the last of all": (
        "targets_are_inputs", SERIES.format(12, "past, target = chunks, chunks[:, -1]  # HERE"),
    ),
    "a target split off, and a window that goes on": (
        "targets_are_inputs",
        SERIES.format(8, "past = chunks[:, 4:]\ntarget = chunks.tensor_split([11], dim=1)[1].squeeze(1)  # HERE"),
    ),
    "zero where the episode goes on": (
        "bootstraps_at_ends", VALUES.format("future = future.masked_fill(b['alive'], 0.0)  # HERE"),
    ),
    "multiplied with where it does not go on": (
        "bootstraps_at_ends", VALUES.format("future = future * (1 - b['alive'].float())  # HERE"),
    ),
    "kept where it is done": (
        "bootstraps_at_ends", VALUES.format("future = torch.where(done, future, 0.0)  # HERE"),
    ),
    "written where it is not done": ("bootstraps_at_ends", VALUES.format("future[~done] = 0  # HERE")),
    "positions narrowed by the batch": (
        "positions_of_samples",
        PLACES.format("x = x.transpose(0, 1).add(where.narrow(0, 0, 8)).transpose(0, 1)  # HERE"),
    ),
    "positions selected in order": (
        "positions_of_samples", PLACES.format("x = x + where.index_select(0, torch.arange(8)).unsqueeze(1)  # HERE"),
    ),
    "labels are bounded": (
        "labels_of_unique",
        PAIRS.format(
            "bank = topic.unique()  # HERE\n"
            "    scores = scale.exp() * torch.einsum('nd,md->nm', picture(x), text(bank))\n"
            "    labels = torch.arange(16).clamp_(max=len(bank) - 1)"
        ),
    ),
    "weights by mv": ("samples_meet_times", STORED.format("loss = torch.mv(err, share).mean()  # HERE")),
    "weights by an operator": ("samples_meet_times", STORED.format("loss = (err @ share).mean()  # HERE")),
    "weights by einsum": ("samples_meet_times", STORED.format("loss = torch.einsum('nt,t->', err, share)  # HERE")),
    "averages are looked up and never stored": (
        "state_stays_zero",
        STEPS.format(
            "avgs = [slots.get(i, torch.zeros_like(g)) for i, g in enumerate(grads)]  # HERE\n"
            "        torch._foreach_lerp_(avgs, grads, 0.1)"
        ),
    ),
    "averages that begin at each step": (
        "state_stays_zero",
        STEPS.format(
            "avgs = []\n        for i, g in enumerate(grads):\n"
            "            m = slots[i] if i in slots else torch.zeros_like(g)  # HERE\n"
            "            avgs.append(m.mul_(0.9).add_(g, alpha=0.1))"
        ),
    ),
    "sharpened with foreach": ("not_moved_back", SHARP.format("torch._foreach_add_(params, moves)  # HERE", "")),
    "sharpened with copies": (
        "not_moved_back", SHARP.format("for p, m in zip(params, moves):\n            p.copy_(p + m)  # HERE", ""),
    ),
    "sharpened by assigning": (
        "not_moved_back",
        SHARP.format("for p, m in zip(params, moves):\n            p.data = p.data + m  # HERE", ""),
    ),
    "time steps below each other": (
        "flattened_otherwise",
        LETTERS.format(
            "every = torch.cat(rows)  # HERE\n    loss = F.nll_loss(every.log_softmax(-1), seq[:, 1:].flatten())"
        ) + TRAIN,
    ),
    "a token that is called padding": (
        "padding_row_used", WORDS.format("F.embedding(past, table, padding_idx=0)  # HERE"),
    ),
    "tags in bags of different lengths": ("padding_row_used", tags(ITEMS, OF_BAGS + "  # HERE")),
    "the same in a module": (
        "padding_row_used",
        tags(ITEMS, "bags(flat, starts)", ", padding_idx=0").replace("Linear(4, 1)", "Linear(4, 1)  # HERE"),
    ),
    "tags that are looked up in a split line": (
        "padding_row_used",
        tags("NAMES = 'drama comedy crime war music'.split()", OF_BAGS + "  # HERE"),
    ),
    "an item beside a list that numbers it": (
        "padding_row_used",
        tags(ITEMS, "F.embedding(flat, table, padding_idx=0)  # HERE"),
    ),
    "one buffer for all samples": (
        "batch_of_equal_rows",
        BUFFER.format("buffer.copy_(data[i])").replace("tolist()]", "tolist()]  # HERE"),
    ),
    "one function draws twice": (
        "other_noise_as_target", NOISY.format("    given = corrupt(x)\n    eps = noise(x)  # HERE\n"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_data_and_steps_of_other_functions_are_told(name: str, tmp_path: Path) -> None:
    cause, script = FAULTS[name]
    assert_first_alarm(script, cause, tmp_path)


HEALTHY = {
    "a clip for each sample": CLIPPED.format(
        "size = torch.stack([g.flatten(1).norm(dim=1) for g in each]).norm(dim=0)\n"
        "    each = [g * (1.0 / size).clamp(max=1.0).view(-1, *[1] * (g.ndim - 1)) for g in each]"
    ),
    "labels kept where they are hidden": TOKENS + "    wanted = ids.where(~keep, -100)\n" + ASKED,
    "a window that ends before the target": SERIES.format(
        11, "past, target = chunks.narrow(1, 0, 11), chunks.select(1, 11)"
    ),
    "a target of another series": SERIES.format(12, "past, target = chunks, torch.roll(chunks, 1, 0)[:, -1]"),
    "the end of what an autoencoder returns": SERIES.format(12, "past, target = chunks, chunks[:, -1]")
    .replace("nn.Linear(12, 1)", "nn.Linear(12, 12)")
    .replace("net(past[rows]).squeeze(1)", "net(past[rows])[:, -1]"),
    "zero where the episode ends": VALUES.format("future = future.masked_fill(~b['alive'], 0.0)"),
    "multiplied with where it goes on": VALUES.format("future = future * b['alive'] * ~done"),
    "kept where it goes on": VALUES.format("future = torch.where(done, 0.0, future)"),
    "positions along the time": PLACES.format("x = x + where.narrow(0, 0, 6)"),
    "positions along the time, turned": PLACES.format(
        "x = x.transpose(0, 1).add(where.narrow(0, 0, 6)[:, None]).transpose(0, 1)"
    ),
    "labels by the inverse": PAIRS.format(
        "bank, labels = topic.unique(return_inverse=True)\n    scores = scale.exp() * picture(x) @ text(bank).T"
    ),
    "weights along the samples": STORED.format("loss = torch.mv(err.T, share).mean() + (share @ err).mean()"),
    "weights of each time": STORED.format("loss = torch.mv(err, torch.linspace(0, 1, 12)).mean()"),
    "averages are stored": STEPS.format(
        "avgs = [slots.setdefault(i, torch.zeros_like(g)) for i, g in enumerate(grads)]\n"
        "        torch._foreach_lerp_(avgs, grads, 0.1)"
    ),
    "moved back with foreach": SHARP.format(
        "torch._foreach_add_(params, moves)", "    with torch.no_grad():\n        torch._foreach_sub_(params, moves)\n"
    ),
    "time steps side by side": LETTERS.format(
        "every = torch.stack(rows, 1).flatten(0, 1)\n"
        "    loss = F.nll_loss(every.log_softmax(-1), seq[:, 1:].flatten())"
    ) + TRAIN,
    "time steps of both": LETTERS.format(
        "loss = F.nll_loss(torch.cat(rows).log_softmax(-1), seq[:, 1:].T.flatten())"
    ) + TRAIN,
    "bags with a number for what is unknown": tags(WITH_UNKNOWN, OF_BAGS),
    "bags of names from elsewhere": tags("NAMES = list(map(str, range(5)))", OF_BAGS),
    "bags without a number 0": tags(ITEMS, OF_BAGS, first=1),
    "padding that the program leaves out": WORDS.format("F.embedding(past, table, padding_idx=0)").replace(
        "word.squeeze(1))", "word.squeeze(1), reduction='none').mul(word.squeeze(1) > 0).mean()"
    ),
    "no token is padding": WORDS.format("F.embedding(past, table)"),
    "a copy of the buffer": BUFFER.format("buffer.copy_(data[i]).clone()"),
    "the noise is given": NOISY.format("    eps = noise(x)\n    given = corrupt(x, eps)\n"),
}  # fmt: skip


@pytest.mark.parametrize("name", HEALTHY)
def test_data_and_steps_of_other_functions_may_be_right(name: str, tmp_path: Path) -> None:
    assert not alarms(HEALTHY[name], tmp_path)
