"""What a reader writes who follows the advice of a finding: for the example of every rule, each way that it names.

Each entry is a phrase of the advice, and the edits of the example: pairs of a text and what takes its place.
"""

from __future__ import annotations

Edits = tuple[tuple[str, str], ...]

_IN_OPTIMIZER = "torch.optim.SGD([*encoder.parameters(), *head.parameters()], lr=0.1)"
_INDENTED_FEATURES = "with torch.no_grad():\n    features"

FOLLOWED: dict[str, tuple[tuple[str, Edits], ...]] = {
    "GV996": (
        (
            "compute it anew for each evaluation",
            (
                ("        if self._table is None:\n            self._table = ", "        return "),
                ("\n        return self._table", ""),
            ),
        ),
        (
            "set self._table to None whenever the weights change",
            (("    optimizer.step()\n", "    optimizer.step()\n    model._table = None\n"),),
        ),
    ),
    "GV969": (("bind the value as a default", (("lambda grad: grad * mask", "lambda grad, mask=mask: grad * mask"),)),),
    "GV960": (
        ("multiply the error by the standard deviation only", (("error * std + mean", "error * std"),)),
        (
            "compute it of values in their own units",
            (
                ("(model(x).squeeze(1) - scaled).abs()", "(model(x).squeeze(1) * std + mean - y).abs()"),
                ("error * std + mean", "error"),
            ),
        ),
    ),
    "GV995": (
        (
            "compute it of the first 12 steps only",
            (("windows.mean(1, keepdim=True)", "windows[:, :12].mean(1, keepdim=True)"),),
        ),
    ),
    "GV994": (
        (
            "compute it for each batch anew",
            (("if number not in kept:", "if True:"),),
        ),
        (
            "keep it by the index of the sample",
            (
                ("TensorDataset(torch.randn(32, 4))", "TensorDataset(torch.randn(32, 4), torch.arange(32))"),
                ("kept = {}", "with torch.no_grad():\n    kept = teacher(data.tensors[0])"),
                ("for number, (x,) in enumerate(loader):", "for x, index in loader:"),
                ("        if number not in kept:\n", ""),
                ("            with torch.no_grad():\n                kept[number] = teacher(x)\n", ""),
                ("kept[number])", "kept[index])"),
            ),
        ),
    ),
    "GV998": (
        (
            "make the adjacency, or the index of the messages, of the links for training only",
            (("adjacency[links[:, 0], links[:, 1]]", "adjacency[train[:, 0], train[:, 1]]"),),
        ),
    ),
    "GV997": (
        ('similar.fill_diagonal_(float("-inf"))', (("z @ z.T", '(z @ z.T).fill_diagonal_(float("-inf"))'),)),
        (
            "search one more and drop the first: [:, 1:]",
            ((".topk(3, dim=1).indices", ".topk(4, dim=1).indices[:, 1:]"),),
        ),
    ),
    "GV991": (("(labels != 0).sum().item()", (("tokens += labels.numel()", "tokens += (labels != 0).sum().item()"),)),),
    "GV993": (
        (
            "merge the repeats of the whole path first",
            (
                ("path = [p for p in path if p != 0]", "path = [p for p, _ in groupby(path)]"),
                ("print([p for p, _ in groupby(path)])", "print([p for p in path if p != 0])"),
            ),
        ),
    ),
    "GV992": (
        (
            "multiply by the sizes in the order of the division: [64, 32, 64, 32]",
            (("torch.tensor([32.0, 64.0, 32.0, 64.0])", "torch.tensor([64.0, 32.0, 64.0, 32.0])"),),
        ),
    ),
    "GV990": (("write the result back: scores[users] = -", (("scores[users].fill_(-1e9)", "scores[users] = -1e9"),)),),
    "GV976": (('compare with the dot behind the number: "blocks.1."', (('f"blocks.{i}"', 'f"blocks.{i}."'),)),),
    "GV975": (
        (
            "points = points[[0, 2, 1]]",
            (("= 1 - points[:, 0]\n", "= 1 - points[:, 0]\n        points = points[[0, 2, 1]]\n"),),
        ),
    ),
    "GV974": (("in reversed(range(steps))", (("for i in range(steps)", "for i in reversed(range(steps))"),)),),
    "GV973": (("1 - dones[t]", (("1 - dones[t + 1]", "1 - dones[t]"),)),),
    "GV972": (("index_add_(0, dst, ones)", (("index_add_(0, src, torch.ones", "index_add_(0, dst, torch.ones"),)),),
    "GV987": (
        (
            "call requires_grad_() on it before line",
            (("    return {", "    positions.requires_grad_()\n    return {"),),
        ),
        (
            "compute batch['difference'] anew behind line",
            (('network(batch["difference"])', 'network(batch["positions"][1:] - batch["positions"][:-1])'),),
        ),
    ),
    "GV978": (
        (
            "self.weights = weights.detach()",
            (("self.weights = weights\n", "self.weights = weights.detach()\n"),),
        ),
    ),
    "GV977": (
        (
            "give self.memory to the function as an argument",
            (
                ("def forward(self, x):", "def forward(self, x, memory):"),
                ("self.layer(x + self.memory).tanh()", "self.layer(x + memory).tanh()"),
                ("        self.memory = h.detach()\n", ""),
                ("torch.randn(2, 4), use", "torch.randn(2, 4), model.memory, use"),
                ("    h.square()", "    model.memory = h.detach()\n    h.square()"),
            ),
        ),
    ),
    "GV970": (("mend this line, which that backward runs", (("matrix[:2]", "matrix.T"),)),),
    "GV971": (
        (
            "target(following).gather(1, best)",
            (("best = target(", "best = network("), ("0.9 * network(", "0.9 * target(")),
        ),
    ),
    "GV953": (("(errors * seen).sum() / seen.sum()", (("errors.mean()", "(errors * seen).sum() / seen.sum()"),)),),
    "GV952": (
        ("seed + number", (("train(seed=0)", "train(0 + number)"),)),
        (
            "seed once, before the first one",
            (("    torch.manual_seed(seed)\n", ""), ("members =", "torch.manual_seed(0)\nmembers =")),
        ),
    ),
    "GV951": (
        (
            "local = copy.deepcopy(model)",
            (
                ("def train(part):", "import copy\ndef train(part):\n    local = copy.deepcopy(model)"),
                ("SGD(model.", "SGD(local."),
                ("(model(part)", "(local(part)"),
                ("return model.", "return local."),
            ),
        ),
        (
            "{key: value.clone() for key, value in model.state_dict().items()}",
            (
                (
                    "return model.state_dict()",
                    "return {key: value.clone() for key, value in model.state_dict().items()}",
                ),
            ),
        ),
    ),
    "GV959": (
        (
            "compute both of the known values alone",
            (
                (
                    "x = (x - x.mean(0)) / x.std(0)\n",
                    "known = x != -999\nmean = (x * known).sum(0) / known.sum(0)\n"
                    "std = (((x - mean) * known).square().sum(0) / known.sum(0)).sqrt()\n"
                    "x = torch.where(known, (x - mean) / std, 0.0)\n",
                ),
            ),
        ),
    ),
    "GV958": (
        (
            "divide them once, behind the loop",
            (
                ("total = 0\n", "hits = positives = 0\n"),
                ("        hits = (p", "        hits += (p"),
                ("        total += hits / y[rows].sum().clamp(min=1)", "        positives += y[rows].sum()"),
                ("total / 6", "hits / positives"),
            ),
        ),
    ),
    "GV957": (
        (
            'scores[train_users, train_items] = float("-inf")',
            (
                (
                    "    best = scores",
                    '    scores[train[:, 0], train[:, 1]] = float("-inf")\n    best = scores',
                ),
            ),
        ),
    ),
    "GV954": (
        (
            "if self.training: in a module",
            (("        x = x + 0.3", "        if self.training:\n            x = x + 0.3"),),
        ),
    ),
    "GV950": (
        (
            "make the model and its optimizer once, before the loop over epochs",
            (
                (
                    "for epoch in range(4):\n    model = torch.nn.Linear(4, 1)\n"
                    "    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n",
                    "model = torch.nn.Linear(4, 1)\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
                    "for epoch in range(4):\n",
                ),
            ),
        ),
    ),
    "GV968": (("~(train | validation)", (("train & validation", "train | validation"),)),),
    "GV967": (
        (
            "copy.deepcopy(model)",
            (("error, model", "error, copy.deepcopy(model)"), ("torch.manual_seed", "import copy; torch.manual_seed")),
        ),
    ),
    "GV966": (("leave out this line", (("scores / 0.1, torch", "scores, torch"),)),),
    "GV965": (
        (
            "keep the state if held_out < best",
            (("held_out > best_loss", "held_out < best_loss"), ("best_loss = 0.0", 'best_loss = float("inf")')),
        ),
    ),
    "GV964": (("with the new weights", (("outer = (far @ start - far", "outer = (far @ adapted - far"),)),),
    "GV963": (("divide by the number of samples", (("right / len(loader)", "right / len(loader.dataset)"),)),),
    "GV962": (("take the smallest distances", (("topk(3, dim=1)", "topk(3, dim=1, largest=False)"),)),),
    "GV961": (
        (
            "split the series by time",
            (("windows[order[:90]], windows[order[90:]]", "windows[:90], windows[98:]"),),
        ),
    ),
    "GV949": (
        (
            "score = judge(fake, asked)",
            (("torch.cat([fake, of_judge(y)], 1)", "torch.cat([fake, of_judge(asked)], 1)"),),
        ),
    ),
    "GV948": (
        ("x.flip(-1)", (("+ shift], dim=1)", "+ shift], dim=1).flip(-1)"),)),
        (
            "exchange the two parts in every second layer",
            (
                (
                    "        x = torch.cat([kept, rest * log_scale.exp() + shift], dim=1)\n",
                    "        x = torch.cat([rest * log_scale.exp() + shift, kept], dim=1)\n",
                ),
            ),
        ),
    ),
    "GV983": (
        ("leave the weights of the loss out", ((", weight=weights)", ")"),)),
        (
            "draw the samples without weights",
            (("torch.multinomial(weights[y], 200, replacement=True)", "torch.randperm(200)"),),
        ),
    ),
    "GV982": (("take the same column", (("std[0] + mean[0]", "std[2] + mean[2]"),)),),
    "GV981": (
        (
            "differentiate by the inputs from before",
            (
                ("    s = (x / length).requires_grad_(True)\n", "    x.requires_grad_(True)\n"),
                ("torch.cat([s, t], 1)", "torch.cat([x / length, t], 1)"),
                ("(u.sum(), s,", "(u.sum(), x,"),
                ("(u_x.sum(), s,", "(u_x.sum(), x,"),
            ),
        ),
        ("divide each derivative by its factor", (("speed * u_xx", "speed * u_xx / length**2"),)),
    ),
    "GV980": (
        (
            "freeze before the new layer is put in",
            (
                ("model = torch.nn.Sequential(body, head)\n", ""),
                ("in model.parameters()", "in body.parameters()"),
                ("prompt = ", "model = torch.nn.Sequential(body, head)\nprompt = "),
                ("SGD([prompt]", "SGD([prompt, *head.parameters()]"),
            ),
        ),
        (
            "set requires_grad_(True) on it afterwards",
            (
                ("prompt = ", "head.requires_grad_(True)\nprompt = "),
                ("SGD([prompt]", "SGD([prompt, *head.parameters()]"),
            ),
        ),
    ),
    "GV946": (("random = (...) & selected & ~masked", (("< 0.5) & selected\n", "< 0.5) & selected & ~masked\n"),)),),
    "GV947": (
        ("leave the embedding out of the freezing", (("new.weight.requires_grad_(False)\n", ""),)),
        (
            "weight[20:] = weight[:20].mean(0)",
            (
                (
                    "    new.weight[:20] = old.weight\n",
                    "    new.weight[:20] = old.weight\n    new.weight[20:] = new.weight[:20].mean(0)\n",
                ),
            ),
        ),
    ),
    "GV939": (
        (
            "normalize each sequence before it is padded",
            (
                (
                    "    x = torch.nn.utils",
                    "    sounds = [(x - x.mean(0)) / x.std(0) for x in sounds]\n    x = torch.nn.utils",
                ),
                ("    x = (x - x.mean(1, keepdim=True)) / x.std(1, keepdim=True)\n", ""),
            ),
        ),
        (
            "(x * mask).sum(1) / mask.sum(1)",
            (
                (
                    "x - x.mean(1, keepdim=True)) / x.std(1, keepdim=True)",
                    "x - x.sum(1, keepdim=True) / torch.tensor([4, 9, 6])[:, None, None])",
                ),
            ),
        ),
    ),
    "GV938": (("as uint32 (np.uint32)", (("np.uint16", "np.uint32"),)),),
    "GV937": (("torch.arange(n) * 3", (("torch.arange(8)", "torch.arange(8) * 3"),)),),
    "GV986": (
        (
            "repeat rows of the part that is trained on only",
            (
                ("\nx, y = x[rows], y[rows]", ""),
                (
                    "y[held_out]",
                    "y[held_out]\nmore = (y_train == 1).nonzero().squeeze(1).repeat(4)\n"
                    "x_train, y_train = torch.cat([x_train, x_train[more]]), torch.cat([y_train, y_train[more]])",
                ),
            ),
        ),
    ),
    "GV989": (
        ("such as 'gain'", (('{"scale": ', '{"gain": '),)),
        (
            "register_buffer('scale', ...)",
            (('register_buffer("gain"', 'register_buffer("scale"'), ("x * self.gain", "x * self.scale")),
        ),
    ),
    "GV979": (
        (
            "take norm=None as the default, and make torch.nn.LayerNorm(4) in the body where it is None",
            (
                ("norm=torch.nn.LayerNorm(4)", "norm=None"),
                ("torch.nn.Linear(size, size), norm", "torch.nn.Linear(size, size), norm or torch.nn.LayerNorm(4)"),
            ),
        ),
    ),
    "GV985": (("such as 0.833", (("lerp_(new, 0.001)", "lerp_(new, 1 - 0.833)"),)),),
    "GV984": (
        ("by the scores themselves", (("(torch.sigmoid(model(x).squeeze(1)) > 0.5).float()", "model(x).squeeze(1)"),)),
    ),
    "GV956": (("scores.argmax(dim=1)", (("model(x).max(1)[0]", "model(x).argmax(dim=1)"),)),),
    "GV955": (
        (
            "call transform() for the other one",
            (("held_out = scaler.fit_transform(", "held_out = scaler.transform("),),
        ),
    ),
    "GV881": (
        ("behind the loop over batches", (("        schedule.step()", "    schedule.step()"),)),
        ("let its figures count batches", (("milestones=[2, 4]", "milestones=[2 * 5, 4 * 5]"),)),
    ),
    "GV894": (
        (
            "train on x[:n], score on x[n:]",
            (("(model(x[40:]) - y[40:])", "(model(x[48:]) - y[48:])"),),
        ),
    ),
    "GV893": (
        (
            "(labels[:, None] == labels) & ~torch.eye(n, dtype=torch.bool)",
            (("(labels[:, None] == labels)", "((labels[:, None] == labels) & ~diagonal)"),),
        ),
    ),
    "GV945": (
        (
            "make the model in the loop over the folds",
            (
                ("model = torch.nn.Linear(4, 2)\n", ""),
                ("    optimizer = ", "    model = torch.nn.Linear(4, 2)\n    optimizer = "),
            ),
        ),
    ),
    "GV944": (
        (
            "make the loader that is scored with shuffle=False",
            (("for x, y in loader])", "for x, y in DataLoader(data, batch_size=8, shuffle=False)])"),),
        ),
        (
            "collect the labels of the same batches",
            (
                ("    scores =", "    batches = list(loader)\n    scores ="),
                ("for x, y in loader])", "for x, y in batches])"),
                ("== labels)", "== torch.cat([y for _, y in batches]))"),
            ),
        ),
    ),
    "GV943": (
        (
            "sum over the outputs first",
            ((".unsqueeze(-1) + density", " + density.sum(-1)"), ("mixed.sum(-1).mean()", "mixed.mean()")),
        ),
    ),
    "GV988": (
        (
            "mirror the coordinates under the same condition",
            (
                (
                    "images = images.flip(3)\n",
                    "images = images.flip(3)\n        x1, y1, x2, y2 = boxes.unbind(1)\n"
                    "        boxes = torch.stack([1 - x2, y1, 1 - x1, y2], dim=1)\n",
                ),
            ),
        ),
    ),
    "GV942": (
        (
            "save the state of the schedule as well, and load it here",
            (("load_state_dict(saved[1])\n", "load_state_dict(saved[1])\nschedule.load_state_dict(saved[2])\n"),),
        ),
    ),
    "GV941": (("(lengths - kernel) // stride + 1", (("frames = lengths", "frames = (lengths - 8) // 4 + 1"),)),),
    "GV940": (
        ("divide by the period first: 2 * math.pi * hour / 24", (("torch.pi * hours", "torch.pi * hours / 24"),)),
    ),
    "GV936": (("exchange them", (("32 - boxes[:, [0, 2]]", "32 - boxes[:, [2, 0]]"),)),),
    "GV935": (
        (
            "take the probability of the right answer",
            (("(1 - p) ** 2", "(1 - (p * y + (1 - p) * (1 - y))) ** 2"),),
        ),
    ),
    "GV934": (("take minus the number of actions", (("(log_prob + 2)", "(log_prob + -2)"),)),),
    "GV933": (
        (
            "standardize over the batch",
            (
                ("(a - a.mean(1, keepdim=True)) / a.std(1, keepdim=True)", "(a - a.mean(0)) / a.std(0)"),
                ("(b - b.mean(1, keepdim=True)) / b.std(1, keepdim=True)", "(b - b.mean(0)) / b.std(0)"),
            ),
        ),
    ),
    "GV932": (
        (
            "subtract the same product",
            ((".float().mean())", ".float().mean())\n        base.weight -= up @ down"),),
        ),
        (
            "score a copy of the model",
            (
                ("base.weight +=", "scored = __import__('copy').deepcopy(base)\n        scored.weight +="),
                ("(base(x).argmax", "(scored(x).argmax"),
            ),
        ),
    ),
    "GV931": (
        (
            "exchange the two",
            (("(1 - alike) * distance**2 + alike * hinge**2", "alike * distance**2 + (1 - alike) * hinge**2"),),
        ),
    ),
    "GV930": (
        ("take the training part", (("cross_entropy(model(x), y)", "cross_entropy(model(x)[train], y[train])"),)),
    ),
    "GV834": (
        (
            "torch.arange(n, dtype=torch.float32)",
            (("dtype=torch.bfloat16)", "dtype=torch.float32)"), (".sin()], dim=-1)", ".sin()], dim=-1).bfloat16()")),
        ),
    ),
    "GV853": (
        (
            "initialize first and load after that",
            (
                (
                    "body.load_state_dict(trained.state_dict())\nmodel.apply(init_weights)",
                    "model.apply(init_weights)\nbody.load_state_dict(trained.state_dict())",
                ),
            ),
        ),
        ("initialize only the new layers", (("model.apply(", "head.apply("),)),
    ),
    "GV859": (
        ("score the model that was loaded", (("mse_loss(model(x[20:])", "mse_loss(best_model(x[20:])"),)),
        ("load the state into the model", (("best_model.load_state_dict", "model.load_state_dict"),)),
    ),
    "GV858": (
        (
            "predicted * std + mean",
            (("l1_loss(model(x[40:]),", "l1_loss(model(x[40:]) * price.std() + price.mean(),"),),
        ),
    ),
    "GV856": (
        (
            "val.dataset = copy.copy(val.dataset)",
            (
                (
                    "held_out.dataset.transform",
                    "held_out.dataset = __import__('copy').copy(whole)\nheld_out.dataset.transform",
                ),
            ),
        ),
    ),
    "GV857": (
        ("for x, y in loader:", (("for step in range(8):\n    (x,) = next(iter(loader))", "for (x,) in loader:"),)),
    ),
    "GV855": (
        (
            "best_loss = held_out",
            (
                (
                    "    if held_out < best_loss:\n",
                    "    if held_out < best_loss:\n        best_loss = held_out\n",
                ),
            ),
        ),
    ),
    "GV854": (("leave out this division", (("step * 8 + 8] / 255", "step * 8 + 8]"),)),),
    "GV852": (("logits > 0", (("model(x) > 0.5", "model(x) > 0"),)),),
    "GV836": (("WeightedRandomSampler(weights[y], ...)", (("Sampler(weights,", "Sampler(weights[y],"),)),),
    "GV837": (("key_padding_mask=is_padding", (("mix(x, x, x)", "mix(x, x, x, key_padding_mask=is_padding)"),)),),
    "GV838": (("d = reference - policy", (("d = new - fixed", "d = fixed - new"),)),),
    "GV839": (
        (
            "pad with an id of its own",
            (("padding_value=0", "padding_value=19"), ("ids == 0", "ids == 19")),
        ),
    ),
    "GV835": (
        (
            "torch.cat((angles, angles), dim=-1)",
            (("angles.repeat_interleave(2, dim=-1)", "torch.cat((angles, angles), dim=-1)"),),
        ),
    ),
    "GV861": (("cost.topk(k, largest=False)", (("cost.topk(8)", "cost.topk(8, largest=False)"),)),),
    "GV862": (
        ("a.float() - b.float()", (("frames[:, 1] - frames[:, 0]", "frames[:, 1].float() - frames[:, 0].float()"),)),
    ),
    "GV863": (
        (
            "embedding.weight[embedding.padding_idx].zero_()",
            (
                (
                    "std=0.1)\n",
                    "std=0.1)\nwith torch.no_grad():\n    embed.weight[embed.padding_idx].zero_()\n",
                ),
            ),
        ),
        ("a mask", (("embed(ids).sum", "(embed(ids) * (ids != 0).unsqueeze(-1)).sum"),)),
    ),
    "GV864": (
        ("bad_epochs = 0", (("        best = held_out\n", "        best = held_out\n        bad_epochs = 0\n"),)),
    ),
    "GV880": (
        (
            "set only biases to zero",
            (
                ("for p in model.parameters()", "for name, p in model.named_parameters()"),
                ("    else:", '    elif name.endswith("bias"):'),
            ),
        ),
        (
            "nn.init.ones_(norm.weight)",
            (("torch.nn.init.zeros_(p)\n", "pass\ntorch.nn.init.ones_(model[0].weight)\n"),),
        ),
    ),
    "GV860": (("residual = residual - code", (("residual = x - code", "residual = residual - code"),)),),
    "GV849": (
        ("2 * F.interpolate(flow, ...)", (("flow = torch.nn.functional.i", "flow = 2 * torch.nn.functional.i"),)),
    ),
    "GV848": (("forces / std", (("-slope - forces", "-slope - forces / energies.std()"),)),),
    "GV847": (
        (
            "torch.stack(losses, dim=1).min(dim=1).values.mean(), with losses of shape (N,)",
            (
                (".mean()\n    crossed", ".mean((1, 2))\n    crossed"),
                ("(made.flip(1) - y).square().mean()", "(made.flip(1) - y).square().mean((1, 2))"),
                (
                    "torch.minimum(straight, crossed)",
                    "torch.stack([straight, crossed], dim=1).min(dim=1).values.mean()",
                ),
            ),
        ),
    ),
    "GV846": (
        (
            "torch.where(torch.rand(len(label)) < 0.1, 3, label)",
            (
                (
                    "model(embed(label)) - label",
                    "model(embed(torch.where(torch.rand(len(label)) < 0.1, 3, label))) - label",
                ),
            ),
        ),
        (
            "put it in front of those of training",
            (("model(embed(label)) - label", "model(embed(torch.cat([torch.tensor([3]), label[1:]]))) - label"),),
        ),
    ),
    "GV845": (
        (
            "torch.logsumexp(logits.log_softmax(-1) + density, dim=-1)",
            (("(logits.softmax(-1) * density).sum(-1)", "torch.logsumexp(logits.log_softmax(-1) + density, dim=-1)"),),
        ),
    ),
    "GV844": (("error + divergence / len(data)", (("error + divergence", "error + divergence / len(data)"),)),),
    "GV843": (
        ("decode the target as well: target * std + mean", (("(decoded, target)", "(decoded, target * std + mean)"),)),
        ("compare the prediction as the model returned it", ((" = model(x) * std + mean", " = model(x)"),)),
    ),
    "GV842": (('mode="nearest"', (('mode="bilinear"', 'mode="nearest"'),)),),
    "GV841": (
        (
            "torch.cumprod(torch.cat([torch.ones_like(a[:, :1]), 1 - a], 1), 1)[:, :-1]",
            (("(1 - alpha, dim=1)", "(torch.cat([torch.ones_like(alpha[:, :1]), 1 - alpha], 1), dim=1)[:, :-1]"),),
        ),
    ),
    "GV840": (
        (
            "put x first: torch.stack([x, y], dim=-1)",
            (("[y + flow[:, 1], x + flow[:, 0]]", "[x + flow[:, 0], y + flow[:, 1]]"),),
        ),
    ),
    "GV739": (
        (
            "multiply both by the same flag",
            (("last = delta + 0.99 * 0.95 * last", "last = delta + 0.94 * alive[t] * last"),),
        ),
    ),
    "GV851": (
        (
            "register it once, before the loop",
            (
                (
                    "for epoch in range(4):\n    model.register_forward_hook("
                    "lambda module, given, made: kept.append(made))\n",
                    "model.register_forward_hook(lambda module, given, made: kept.append(made))\n"
                    "for epoch in range(4):\n",
                ),
            ),
        ),
        (
            "keep the handle, and handle.remove()",
            (
                ("    model.register", "    handle = model.register"),
                ("        optimizer.step()", "        optimizer.step()\n    handle.remove()"),
            ),
        ),
    ),
    "GV870": (
        (
            'reduction="sum"',
            (
                (
                    "    for x, y in batches:",
                    "    count = sum((y != -100).sum() for _, y in batches)\n    for x, y in batches:",
                ),
                ("(model(x), y) / 2", '(model(x), y, reduction="sum") / count'),
            ),
        ),
    ),
    "GV871": (("8 + torch.randint(30, ...)", (("torch.randint(0, 30, (8,))", "8 + torch.randint(30, (8,))"),)),),
    "GV872": (("series.view(6, -1).t()", (("series.view(-1, 6)", "series.view(6, -1).t()"),)),),
    "GV873": (("betas=(0.9, 0.999)", (("(0.999, 0.9)", "(0.9, 0.999)"),)),),
    "GV865": (
        (
            "conv(embedded.transpose(1, 2))",
            (("conv(embed(tokens))", "conv(embed(tokens).transpose(1, 2))"), ("Conv1d(6,", "Conv1d(8,")),
        ),
    ),
    "GV866": (
        (
            "gather(1, actions",
            (("network(states).max(1).values", "network(states).gather(1, actions.unsqueeze(1)).squeeze(1)"),),
        ),
    ),
    "GV867": (("-distances", (("cross_entropy(torch", "cross_entropy(-torch"),)),),
    "GV868": (("torch.min(q1, q2)", (("torch.max(", "torch.min("),)),),
    "GV869": (("(1 - p) ** gamma", (("(p**2 * ce)", "((1 - p) ** 2 * ce)"),)),),
    "GV879": (
        (
            "rows = maps.view(n, c, h * w), gram = rows @ rows.transpose(1, 2)",
            (
                ("view(n * c, h * w)", "view(n, c, h * w)"),
                ("rows @ rows.T", "rows @ rows.transpose(1, 2)"),
                ("style.repeat(n, n)", "style"),
            ),
        ),
    ),
    "GV874": (
        ("momentum=0.01", (("momentum=0.99", "momentum=0.01"),)),
        ("leave it out", ((", momentum=0.99", ""),)),
    ),
    "GV875": (("p=0.1", (("Dropout(0.9)", "Dropout(p=0.1)"),)),),
    "GV876": (("label_smoothing=0.1", (("label_smoothing=0.9", "label_smoothing=0.1"),)),),
    "GV877": (("from inputs and labels", (("model(x), y)", "model(inputs), labels)"),)),),
    "GV878": (
        ("call step() without a number", (("schedule.step(loss.item())", "schedule.step()"),)),
        (
            "use ReduceLROnPlateau",
            (("StepLR(optimizer, 2, 0.5)", "ReduceLROnPlateau(optimizer, factor=0.5, patience=2)"),),
        ),
    ),
    "GV884": (("scale.exp()", (("cross_entropy(scale *", "cross_entropy(scale.exp() *"),)),),
    "GV885": (("torch.arange(past, past + x.size(1))", (("torch.arange(token", "torch.arange(t, t + token"),)),),
    "GV890": (("(residual ** 2).mean()", (("residual.mean() ** 2", "(residual ** 2).mean()"),)),),
    "GV891": (
        ("bring the forecast back", (("model(window - level)", "model(window - level) + level"),)),
        ("take the same away from the targets", (("(forecast, future)", "(forecast, future - level)"),)),
    ),
    "GV886": (("loss + 0.01 * penalty", (("- 0.01 * penalty", "+ 0.01 * penalty"),)),),
    "GV887": (("weight_decay=0.0005", (("weight_decay=0.5", "weight_decay=0.0005"),)),),
    "GV888": (
        (
            "make it once, before the loop",
            (
                ("for epoch in range(4):\n    schedule =", "schedule ="),
                ("gamma=0.1)\n", "gamma=0.1)\nfor epoch in range(4):\n"),
            ),
        ),
    ),
    "GV889": (
        (
            "move zero_grad(), backward() and step() into the loop",
            (("    loss.backward()\n    optimizer.step()", "        loss.backward()\n        optimizer.step()"),),
        ),
        (
            "add the losses up",
            (
                (
                    "    for batch in range(4):\n        optimizer.zero_grad()\n",
                    "    optimizer.zero_grad()\n    total = 0\n    for batch in range(4):\n",
                ),
                ("loss = (model", "total = total + (model"),
                ("loss.backward()", "total.backward()"),
            ),
        ),
    ),
    "GV850": (
        (
            "add up the exponentials by the index by which the weighted rows are added up",
            (("index_add(0, source, e)[source]", "index_add(0, target, e)[target]"),),
        ),
    ),
    "GV789": (
        (
            "compute the outer loss with the other samples of the task",
            (("(inputs[:10] @ (start", "(inputs[10:] @ (start"), ("slope) - near)", "slope) - far)")),
        ),
    ),
    "GV780": (
        (
            "total = total + log_det",
            (
                ("z = torch.randn(16, 4)", "z, log_det = torch.randn(16, 4), 0"),
                ("log_det = s.sum(1)", "log_det = log_det + s.sum(1)"),
            ),
        ),
    ),
    "GV207": (("torch.tanh", (("torch.nn.ReLU()", "torch.nn.Tanh()"),)),),
    "GV678": (("swap the two: kl_divergence(posterior, prior)", (("(prior, posterior)", "(posterior, prior)"),)),),
    "GV679": (
        (
            "train with batches of several samples",
            (("range(4):\n        x", "range(1):\n        x"), ("torch.randn(1, 2", "torch.randn(4, 2")),
        ),
        ("GroupNorm", (("torch.nn.BatchNorm2d(2)", "torch.nn.GroupNorm(1, 2)"),)),
    ),
    "GV208": (
        ("choose bounds around the values that occur", (("clamp(min=10.0)", "abs().clamp(min=0.1)"),)),
        ("softplus", (("spread.clamp(min=10.0)", "torch.nn.functional.softplus(spread)"),)),
    ),
    "GV209": (
        (
            "put the activation between the two",
            (("pool(norm(torch.relu(conv(x))))", "pool(torch.relu(norm(conv(x))))"),),
        ),
        ("leave one of the two out", (("pool(norm(torch.relu(conv(x))))", "pool(torch.relu(conv(x)))"),)),
    ),
    "GV210": (
        (
            "torch.amp.GradScaler(device)",
            (
                ("for step", 'scaler = torch.amp.GradScaler("cpu")\nfor step'),
                ("loss.backward()", "scaler.scale(loss).backward()"),
                ("optimizer.step()", "scaler.step(optimizer)\n    scaler.update()"),
            ),
        ),
        ("bfloat16", (("torch.float16", "torch.bfloat16"),)),
    ),
    "GV629": (
        ("use a normalization of each sample", (("BatchNorm1d(8)", "LayerNorm(8)"),)),
        ("or none", (("torch.nn.BatchNorm1d(8), ", ""),)),
    ),
    "GV734": (
        ("keep a copy", (("momentum = weight.grad", "momentum = weight.grad.clone()"),)),
        ("begin with torch.zeros_like(p)", (("momentum = weight.grad", "momentum = torch.zeros_like(weight)"),)),
    ),
    "GV680": (
        (
            "give the step to the model as well",
            (("Linear(2, 2)", "Linear(3, 2)"), ("model(noisy)", "model(torch.cat([noisy, t[:, None] / 100], 1))")),
        ),
    ),
    "GV793": (
        (
            "convert both sides",
            (
                (
                    "last = torch.min(predicted",
                    "centre, half = predicted[:, :2], predicted[:, 2:] / 2\n"
                    "    own = torch.cat([centre - half, centre + half], dim=1)\n"
                    "    last = torch.min(own",
                ),
                ("torch.max(predicted", "torch.max(own"),
            ),
        ),
    ),
    "GV833": (("torch.randint(0, 30", (("other = torch.randint(0, 8", "other = torch.randint(0, 30"),)),),
    "GV794": (("index_add_(0, dst, x[src])", (("index_add_(0, src, x[src])", "index_add_(0, dst, x[src])"),)),),
    "GV624": (
        ("repeat_interleave(g, dim=0)", ((".repeat(4, 1)", ".repeat_interleave(4, dim=0)"),)),
        ("group them as they stand", ((".view(6, 4)", ".view(4, 6)"), (".mean(1, keepdim", ".mean(0, keepdim"))),
    ),
    "GV682": (
        ("torch.argsort(time, descending=True)", (("argsort(time)", "argsort(time, descending=True)"),)),
        (
            "flip the scores before the sum and the sum after it",
            (("torch.logcumsumexp(risk, 0)", "torch.logcumsumexp(risk.flip(0), 0).flip(0)"),),
        ),
    ),
    "GV688": (("values[order]", (("event[rows]\n", "event[rows][order]\n"),)),),
    "GV744": (("done[order.argsort()]", (("done[order]", "done[order.argsort()]"),)),),
    "GV745": (
        ("bound it once", (("    z = b", "    s = torch.tanh(s)\n    z = b"), ("exp(2 * torch.tanh(s))", "exp(s)"))),
    ),
    "GV689": (("multiply them with the same mask", (("= s.sum(-1)", "= ((1 - mask) * s).sum(-1)"),)),),
    "GV683": (('reduction="none"', (("% 3)", '% 3, reduction="none")'),)),),
    "GV742": (("subtract it: p.sub_", (("p.add_(p.grad, alpha=0.1)", "p.sub_(0.1 * p.grad)"),)),),
    "GV721": (
        ("give OneCycleLR one number for each group: max_lr=[0.001, 0.1]", (("max_lr=0.1", "max_lr=[0.001, 0.1]"),)),
    ),
    "GV722": (
        (
            "add the values first",
            (
                ("    returns = advantages + kept\n", ""),
                (
                    "    advantages = rewards - kept\n",
                    "    advantages = rewards - kept\n    returns = advantages + kept\n",
                ),
            ),
        ),
    ),
    "GV743": (
        (
            "for group in optimizer.param_groups",
            (("    optimizer.lr =", '    for group in optimizer.param_groups:\n        group["lr"] ='),),
        ),
    ),
    "GV212": (("normalize(x, dim=-1)", (("normalize(model(x))", "normalize(model(x), dim=-1)"),)),),
    "GV699": (
        (
            "items, labels = torch.unique(positive, return_inverse=True)",
            (
                ("items = torch.unique(positive)", "items, labels = torch.unique(positive, return_inverse=True)"),
                ("    labels = torch.arange(16)\n", ""),
            ),
        ),
    ),
    "GV698": (
        (
            "order = torch.argsort(time, descending=True); risk, event = risk[order], event[order]",
            (
                (
                    "    loss = -((risk - torch.logcumsumexp(risk, 0)) * event[batch])",
                    "    order = torch.argsort(time[batch], descending=True)\n"
                    "    risk, events = risk[order], event[batch][order]\n"
                    "    loss = -((risk - torch.logcumsumexp(risk, 0)) * events)",
                ),
            ),
        ),
    ),
    "GV697": (
        (
            "differentiate each column of the output on its own",
            (
                ("grad(flow, x, torch.ones_like(flow), create", "grad(flow[:, 0].sum(), x, create"),
                ("g[:, 0] + g[:, 1]", "g[:, 0] + torch.autograd.grad(flow[:, 1].sum(), x, create_graph=True)[0][:, 1]"),
            ),
        ),
    ),
    "GV649": (("-logsigmoid(pos - neg)", (("(neg - pos)", "(pos - neg)"),)),),
    "GV631": (("scores / 16 ** 0.5", (("* 16**0.5", "/ 16**0.5"),)),),
    "GV635": (("(var + eps).sqrt()", (("(variance + 1e-5)", "(variance + 1e-5).sqrt()"),)),),
    "GV648": (("torch.log_softmax(scores, dim=-1)", (("(p * scores)", "(p * log_p)"),)),),
    "GV686": (
        ("learn a variance instead", (("weights * errors", "torch.exp(-weights) * errors + weights"),)),
        ("keep the weights fixed", (("torch.nn.Parameter(torch.ones(2))", "torch.ones(2)"), (", weights]", "]"))),
    ),
    "GV687": (("around: subtract it", (("alpha_loss = (", "alpha_loss = -("),)),),
    "GV740": (
        (
            "keep what was added, and subtract it",
            (
                ("    with torch", "    moves = [0.05 * p.grad for p in model.parameters()]\n    with torch"),
                ("p in model.parameters():", "p, e in zip(model.parameters(), moves):"),
                ("p.add_(0.05 * p.grad)", "p.add_(e)"),
                (
                    "    optimizer.step()",
                    "    with torch.no_grad():\n        for p, e in zip(model.parameters(), moves):\n"
                    "            p.sub_(e)\n    optimizer.step()",
                ),
            ),
        ),
    ),
    "GV211": (
        ("take the result of the last time step: out[:, -1]", (("out[:, 0]", "out[:, -1]"),)),
        ("or the last state h_n[-1]", (("out[:, 0]", "h[-1]"),)),
    ),
    "GV694": (
        (
            "leave the padding out",
            (
                (
                    "h = embed(ids).mean(dim=1)",
                    "mask, h = (ids != 0).unsqueeze(-1), embed(ids)\n"
                    "    h = (h * mask).sum(1) / mask.sum(1).clamp(min=1)",
                ),
            ),
        ),
    ),
    "GV695": (
        (
            "differentiate by t here",
            (("u_t = torch.autograd.grad(u.sum(), x", "u_t = torch.autograd.grad(u.sum(), t"),),
        ),
    ),
    "GV696": (
        (
            "in reversed(...), and put each sum in front",
            (("in rewards:", "in reversed(rewards):"), ("returns.append(R)", "returns.insert(0, R)")),
        ),
    ),
    "GV691": (("use dt where it belongs", (("y + slope(y)", "y + dt * slope(y)"),)),),
    "GV692": (("without turning mask", (("logits[~mask], tokens[~mask]", "logits[mask], tokens[mask]"),)),),
    "GV684": (("add that error to the loss", (("- 0.5 * adversary", "+ 0.5 * adversary"),)),),
    "GV213": (("masked_fill", (("(distances * (1 - same))", "distances.masked_fill(same > 0, 1e9)"),)),),
    "GV214": (("an activation after the sum", (("key(x) + query(x[:, :1])", "(key(x) + query(x[:, :1])).tanh()"),)),),
    "GV749": (("draw from a normal distribution", (("rand_like", "randn_like"),)),),
    "GV750": (
        (
            "add -torch.log(-torch.log(u))",
            (("-torch.log(torch.rand_like(scores) + 1e-9)", "-torch.log(-torch.log(torch.rand_like(scores) + 1e-9))"),),
        ),
        (
            "gumbel_softmax(scores)",
            (
                ("    noise = -torch.log(torch.rand_like(scores) + 1e-9)\n", ""),
                ("torch.softmax((scores + noise) / 0.5, dim=-1)", "torch.nn.functional.gumbel_softmax(scores)"),
            ),
        ),
    ),
    "GV751": (("subtract the other way round", (("model(x) - y", "y - model(x)"),)),),
    "GV752": (("torch.log_softmax(w, dim=-1)", (("w + density", "torch.log_softmax(w, dim=-1) + density"),)),),
    "GV754": (("max(dim)[0]", (("max(1)[1]", "max(1)[0]"),)),),
    "GV830": (("table[before, after]", (("table[tags[:, t], tags[:, t - 1]]", "table[tags[:, t - 1], tags[:, t]]"),)),),
    "GV831": (
        ("torch.log1p(-log_p.exp())", (("torch.log(1 - log_p)", "torch.log1p(-log_p.exp())"),)),
        ("(1 - log_p.exp())", (("torch.log(1 - log_p)", "torch.log(1 - log_p.exp())"),)),
    ),
    "GV832": (("key_padding_mask=", (("memory, memory)", "memory, memory, key_padding_mask=ids == 0)"),)),),
    "GV755": (("torch.log_softmax(scores", (("target * torch.softmax", "target * torch.log_softmax"),)),),
    "GV756": (("p.abs().sum()", (("weights.sum()", "weights.abs().sum()"),)),),
    "GV757": (
        (
            "draw them once",
            (
                ("    frequencies = torch.randn(2, 8)\n", ""),
                ("for step", "frequencies = torch.randn(2, 8)\nfor step"),
            ),
        ),
    ),
    "GV781": (
        ("(high - x + (low == high))", (("high - place)", "high - place + (low == high))"),)),
        ("let high be low + 1", (("place.ceil().long()", "place.floor().long() + 1"),)),
    ),
    "GV782": (("turned = h.view_as(h)", (("turned = h\n", "turned = h.view_as(h)\n"),)),),
    "GV784": ((".detach().clone()", (("p.detach() for p", "p.detach().clone() for p"),)),),
    "GV785": (
        (
            "other dropout masks",
            (
                (
                    "torch.nn.ReLU(), torch.nn.Linear(8, 3)",
                    "torch.nn.ReLU(), torch.nn.Dropout(0.3), torch.nn.Linear(8, 3)",
                ),
            ),
        ),
    ),
    "GV786": (
        (".clone()", (("noisy = x\n", "noisy = x.clone()\n"),)),
        ("x = x + y for x += y", (("noisy += 0.3", "noisy = noisy + 0.3"),)),
    ),
    "GV761": (
        ("leave out this division", (("mean() / 4\n", "mean()\n"),)),
        ("or the other one", (("(loss / 4).backward()", "loss.backward()"),)),
    ),
    "GV762": (
        (
            "give the tokens themselves as labels",
            (("inputs, labels = tokens[:, :-1], tokens[:, 1:]", "inputs = labels = tokens"),),
        ),
        (
            "leave out the shift in the loss",
            (("logits[:, :-1].flatten(0, 1), labels[:, 1:]", "logits.flatten(0, 1), labels"),),
        ),
    ),
    "GV765": (("keepdim=True", (("mean(dim=1)", "mean(dim=1, keepdim=True)"),)),),
    "GV766": (("differentiate the sum", (("critic(x).mean()", "critic(x).sum()"),)),),
    "GV767": (("tau.view(1, -1, 1)", (("(tau - (e", "(tau.view(1, -1, 1) - (e"),)),),
    "GV768": (("multiply it by the number of positions", (("= torch.linalg", "= 16 * torch.linalg"),)),),
    "GV769": (("each.flatten(1).norm(dim=1)", (("each.norm()", "each.flatten(1).norm(dim=1)[:, None]"),)),),
    "GV776": (
        (
            "before the loop over the parameters",
            (
                ("            self.count += 1\n", ""),
                ("    def step(self):\n", "    def step(self):\n        self.count += 1\n"),
            ),
        ),
    ),
    "GV741": (
        (
            "p.ndim <= 1",
            (
                ("if not any(each in n for each in no_decay)", "if p.ndim > 1"),
                ("if any(each in n for each in no_decay)", "if p.ndim <= 1"),
                ('no_decay = ["bias", "LayerNorm.weight"]\n', ""),
            ),
        ),
    ),
    "GV777": (
        (
            "v.mul_(beta).addcmul_(g, g, value=1 - beta)",
            (
                (".add_(p.grad, alpha=0.01)", ".addcmul_(p.grad, p.grad, value=0.01)"),
                ("v[p].abs().sqrt()", "v[p].sqrt()"),
            ),
        ),
    ),
    "GV778": (("p.copy_(slow)", (("alpha=0.5)", "alpha=0.5)\n                p.copy_(s)"),)),),
    "GV693": (("subtract it: scores - log_probability", (("scores + share", "scores - share"),)),),
    "GV764": (("count the power from the output", (("0.5**i}", "0.5 ** (3 - i)}"),)),),
    "GV763": (
        (
            "schedule.base_lrs = [0.5 * rate for rate in schedule.base_lrs]",
            (
                (
                    "            group[",
                    "            warmup.base_lrs = [0.5 * rate for rate in warmup.base_lrs]\n            group[",
                ),
            ),
        ),
    ),
    "GV779": (
        (
            "set the rate after the loading",
            (
                (
                    "first.state_dict())",
                    'first.state_dict())\nfor group in second.param_groups:\n    group["lr"] = 0.0001',
                ),
            ),
        ),
    ),
    "GV783": (("turn its sign: score - margin", (("score + 0.35", "score - 0.35"),)),),
    "GV787": (("step += 1 after each step", (("    optimizer.step()", "    optimizer.step()\n    step += 1"),)),),
    "GV788": (
        ("let zero_grad() set gradients to None", (("zero_grad(set_to_none=False)", "zero_grad()"),)),
        (
            "set .grad = None on what is frozen",
            (
                (
                    "model[0].requires_grad_(False)",
                    "model[0].requires_grad_(False)\n        model[0].weight.grad = model[0].bias.grad = None",
                ),
            ),
        ),
        (
            "make the optimizer anew without it",
            (
                (
                    "model[0].requires_grad_(False)",
                    "model[0].requires_grad_(False)\n"
                    "        optimizer = torch.optim.AdamW(model[2].parameters(), lr=0.01, weight_decay=0.1)",
                ),
            ),
        ),
    ),
    "GV797": (
        (
            "draw the noise anew at each step",
            (("noise * (", "torch.randn_like(mean) * ("), ("noise = torch.randn(16, 4)\n", "")),
        ),
    ),
    "GV798": (
        (
            "draw once what is done, and do it to both",
            (("picture = picture.flip(-1)", "picture, mask = picture.flip(-1), mask.flip(-1)"),),
        ),
    ),
    "GV795": (
        (
            "normalize each group by itself",
            (
                (
                    "weights = torch.softmax(score(x[source] + x[node]), dim=0)",
                    "score_of = score(x[source] + x[node])\n    e = torch.exp(score_of - score_of.max())\n"
                    "    weights = e / torch.zeros(6, 1).index_add(0, node, e)[node]",
                ),
            ),
        ),
    ),
    "GV796": (
        ("swap the two arguments", (("advantages(values, rewards)", "advantages(rewards, values)"),)),
        ("give them by name", (("advantages(values, rewards)", "advantages(values=values, rewards=rewards)"),)),
    ),
    "GV673": (
        ("1 - overlap", (("loss = dice.mean()", "loss = 1 - dice.mean()"),)),
        ("the negative overlap", (("loss = dice.mean()", "loss = -dice.mean()"),)),
    ),
    "GV685": (("swap the two in the target: b - a", (("target = noise - data", "target = data - noise"),)),),
    "GV746": (
        (
            "target.load_state_dict(network.state_dict())",
            (
                (
                    "    optimizer.step()",
                    "    optimizer.step()\n    if step % 2 == 1:\n        target.load_state_dict(network.state_dict())",
                ),
            ),
        ),
        (
            "t.lerp_(p, 0.005)",
            (
                (
                    "    optimizer.step()",
                    "    optimizer.step()\n    with torch.no_grad():\n"
                    "        for t, p in zip(target.parameters(), network.parameters()):\n"
                    "            t.lerp_(p, 0.005)",
                ),
            ),
        ),
    ),
    "GV747": (("subtract it", (("+ 0.2 * score)", "- 0.2 * score)"),)),),
    "GV748": (
        ("log_alpha * (log_prob.detach() + target)", (("(score - 0.5)).mean()", "(score.detach() - 0.5)).mean()"),)),
    ),
    "GV759": (
        (
            "alpha_bars = torch.cumprod(1 - betas, 0)",
            (
                (
                    "alphas = 1 - torch.linspace(1e-4, 0.02, 100)",
                    "bars = torch.cumprod(1 - torch.linspace(1e-4, 0.02, 100), 0)",
                ),
                ("a = alphas[t]", "a = bars[t]"),
            ),
        ),
    ),
    "GV760": (
        (
            "give the layer none",
            (("out, state = network(x, state)\n    state = state.detach()", "out, _ = network(x)"),),
        ),
        (
            "or zeros",
            (
                (
                    "out, state = network(x, state)\n    state = state.detach()",
                    "out, _ = network(x, torch.zeros(1, 8, 4))",
                ),
            ),
        ),
    ),
    "GV758": (("dist.log_prob(action)", (("log_prob(distribution.sample())", "log_prob(action)"),)),),
    "GV753": (("swap the weights", (("(1 - lam) * entropy(out, y) + lam", "lam * entropy(out, y) + (1 - lam)"),)),),
    "GV681": (
        (
            "swap the two",
            (("(share, torch.sigmoid(model(x)))", "(torch.sigmoid(model(x)), share)"),),
        ),
    ),
    "GV101": (
        ("remove the detach()", ((".detach()", ""),)),
        ("detach a copy that the loss does not use", ((").detach()", ")\nkept = features.detach()"),)),
    ),
    "GV102": (
        ("compute it with gradients on", ((_INDENTED_FEATURES, "features"),)),
        (
            "keep them out of the optimizer and freeze them with requires_grad_(False)",
            ((_IN_OPTIMIZER, "torch.optim.SGD(head.parameters(), lr=0.1)\nencoder.requires_grad_(False)"),),
        ),
    ),
    "GV103": (
        ("compute it under torch.no_grad() instead", (("torch.inference_mode()", "torch.no_grad()"),)),
        ("copy it outside of inference mode with .clone()", (("head(features)", "head(features.clone())"),)),
    ),
    "GV104": (("use the tensor itself", ((".data", ""),)),),
    "GV406": (
        ("compute a new tensor", (("x += 0.1", "x = x + 0.1"),)),
        ("clone() the slice first", (("step % 3 * 4 + 4]", "step % 3 * 4 + 4].clone()"),)),
    ),
    "GV405": (
        ("make a new tensor instead of the write", (("squashed.data.mul_(0.5)", "squashed = squashed * 0.5"),)),
        (
            "write after backward()",
            (("squashed.data.mul_(0.5)\n", ""), (".backward()", ".backward()\nsquashed.data.mul_(0.5)")),
        ),
    ),
    "GV105": (
        (
            "compute this with torch's own functions (torch.fft",
            (
                ("np.fft.rfft(model(torch.randn(4, 8)).detach().numpy())", "torch.fft.rfft(model(torch.randn(4, 8)))"),
                ("torch.tensor(np.abs(spectrum).mean(), requires_grad=True)", "spectrum.abs().mean()"),
            ),
        ),
    ),
    "GV106": (
        ("add them up", ((".item()", ""), ("torch.tensor(sum(losses) / 3, requires_grad=True)", "sum(losses) / 3"))),
        (
            "torch.stack them",
            ((".item()", ""), ("torch.tensor(sum(losses) / 3, requires_grad=True)", "torch.stack(losses).mean()")),
        ),
    ),
    "GV107": (
        (
            "use a smooth function in the loss (softmax",
            ((".argmax(dim=1).float()", ".softmax(dim=1)[:, 1]"), (".mean().requires_grad_()", ".mean()")),
        ),
        (
            "gumbel_softmax for argmax",
            (
                ("prediction = model(", "prediction = torch.nn.functional.gumbel_softmax(model("),
                (".argmax(dim=1).float()", ", hard=True)[:, 1]"),
                (".mean().requires_grad_()", ".mean()"),
            ),
        ),
    ),
    "GV108": (
        (
            "keep floating-point numbers in the loss",
            ((".byte()", ""), (".mean().requires_grad_()", ".mean()")),
        ),
        (
            "to quantize, use a straight-through estimate",
            (
                (
                    "levels = (model(torch.randn(16, 8)).sigmoid() * 255).byte()",
                    "exact = model(torch.randn(16, 8)).sigmoid() * 255\n"
                    "levels = exact + (exact.byte() - exact).detach()",
                ),
                (".mean().requires_grad_()", ".mean()"),
            ),
        ),
    ),
    "GV109": (
        (".abs() for magnitudes", ((".to(torch.float32)", ".abs()"),)),
        (".real where the rest is zero", ((".to(torch.float32)", ".real"),)),
        ("torch.view_as_real for both", (("spectrum.to(torch.float32)", "torch.view_as_real(spectrum)"),)),
    ),
    "GV110": (
        (
            "call loss.backward() before the step",
            (("    optimizer.step()", "    loss.backward()\n    optimizer.step()"),),
        ),
    ),
    "GV111": (
        ("add the tensor itself, without item()", ((".item()", ""),)),
        (
            "leave it out of the loss",
            ((" + 0.1 * penalty.item()", ""), ("    penalty = model.weight.abs().sum()\n", "")),
        ),
    ),
    "GV112": (("pass create_graph=True", (("retain_graph=True", "create_graph=True"),)),),
    "GV113": (("draw with rsample()", ((".sample()", ".rsample()"),)),),
    "GV114": (
        (
            "multiply what is computed for the chosen rows by the value that chose them",
            (("choice = gates.argmax(1)", "weight, choice = gates.max(1)"), ("(out - x", "(weight[:, None] * out - x")),
        ),
    ),
    "GV115": (("give the cell its state as it is", (("h.detach()", "h"),)),),
    "GV116": (
        (
            "pass each as an argument of its own",
            (
                ("ctx, field, x)", "ctx, field, x, *parameters)"),
                ("save_for_backward(x)", "save_for_backward(x, *parameters)"),
                ("x = ctx.saved_tensors[0].detach()", "x, *parameters = ctx.saved_tensors\n        x = x.detach()"),
                (
                    "return None, torch.autograd.grad(y, x, grad)[0]",
                    "return None, *torch.autograd.grad(y, (x, *parameters), grad)",
                ),
                ("torch.randn(5, 3)))", "torch.randn(5, 3)), *field.parameters())"),
            ),
        ),
    ),
    "GV118": (
        (
            "compute this term with the result as it was before the cut",
            (("distance - critic(shown)", "distance - critic(made)"),),
        ),
    ),
    "GV117": (
        (
            "call the trained model here",
            (("head(average(torch", "head(encoder(torch"),),
        ),
    ),
    "GV201": (
        ("remove it in training", (("torch.round(encoder(x))", "encoder(x)"),)),
        ("use a smooth function instead", (("torch.round(", "torch.tanh("),)),
        (
            "x + (f(x) - x).detach()",
            (
                (
                    "code = torch.round(encoder(x))",
                    "code = encoder(x)\ncode = code + (torch.round(code) - code).detach()",
                ),
            ),
        ),
    ),
    "GV202": (
        ("start with a bias of 0", (("-20.0", "0.0"),)),
        ("use leaky_relu", (("torch.relu", "torch.nn.functional.leaky_relu"),)),
    ),
    "GV203": (
        ("start inside the range", (("9.0", "0.0"),)),
        ("widen the range", (("-5, 2", "-5, 20"),)),
        (
            "softplus",
            (
                (
                    "torch.clamp(head(torch.randn(16, 4)), -5, 2)",
                    "torch.nn.functional.softplus(head(torch.randn(16, 4)))",
                ),
            ),
        ),
    ),
    "GV204": (
        ("use residual connections", (("h = torch.sigmoid(layer(h))", "h = h + torch.sigmoid(layer(h))"),)),
        (
            "normalisation",
            (("torch.sigmoid(layer(h))", "torch.sigmoid(4 * torch.nn.functional.layer_norm(layer(h), (32,)))"),),
        ),
        (
            "an activation whose slope is near one (relu), with weights that are drawn for it",
            (
                ("torch.sigmoid", "torch.relu"),
                (
                    "h = torch.randn",
                    "for layer in layers:\n    torch.nn.init.kaiming_normal_(layer.weight)\nh = torch.randn",
                ),
            ),
        ),
    ),
    "GV205": (("divide with /: // rounds down", (("5 // 100", "5 / 100"),)),),
    "GV206": (
        (
            "look for a constant, an empty mask or a flat range",
            (("torch.zeros(4)", "torch.ones(4)"), ("block.parameters()", "[*block.parameters(), gate]")),
        ),
    ),
    "GV301": (("(x + 1e-12).sqrt()", ((".sum(1).sqrt()", ".sum(1).add(1e-12).sqrt()"),)),),
    "GV302": (
        (
            "x_safe = torch.where(mask, x, 1.0)",
            (("torch.where(x > 0, x.log()", "x_safe = torch.where(x > 0, x, 1.0)\ntorch.where(x > 0, x_safe.log()"),),
        ),
    ),
    "GV303": (
        ("softplus", (("torch.log(1 + torch.exp(x))", "torch.nn.functional.softplus(x)"),)),
        ("bound its input", (("torch.exp(x)", "torch.exp(x.clamp(max=50))"),)),
    ),
    "GV304": (
        ("torch.nn.init.kaiming_normal_", (("normal_(layer.weight)", "kaiming_normal_(layer.weight)"),)),
        (
            "normalise activations",
            (("torch.relu(layer(h))", "torch.nn.functional.layer_norm(torch.relu(layer(h)), (64,))"),),
        ),
    ),
    "GV305": (("x / y.clamp(min=1e-6)", (("table.std(0)", "table.std(0).clamp(min=1e-6)"),)),),
    "GV401": (
        ("x = x + y, not x += y", (("squashed += 1", "squashed = squashed + 1"),)),
        ("change a copy (x.clone())", (("squashed += 1", "squashed = squashed.clone()\nsquashed += 1"),)),
        (
            "change it after backward()",
            (("squashed += 1\n", ""), (".backward()", ".backward()\nsquashed.detach().add_(1)")),
        ),
    ),
    "GV402": (
        (
            "step only after the backward at line 10",
            (
                (
                    "optimizer.step()\nloss.backward(inputs=list(first.parameters()))",
                    "loss.backward(inputs=list(first.parameters()))\noptimizer.step()",
                ),
            ),
        ),
        (
            "compute that loss again after the step",
            (
                ("optimizer.step()\n", "optimizer.step()\nloss = second(first(torch.randn(4, 2))).mean()\n"),
                (", retain_graph=True", ""),
            ),
        ),
    ),
    "GV403": (("with torch.no_grad():", (("weight -= ", "with torch.no_grad():\n    weight -= "),)),),
    "GV404": (
        ("no trailing underscore", (("gate.sigmoid_()", "gate = gate.sigmoid()"),)),
        ("clone() the view", (("gate.sigmoid_()", "gate = gate.clone()\ngate.sigmoid_()"),)),
    ),
    "GV501": (
        (
            "add the losses and call backward() once",
            (("first.backward()\nsecond.backward()", "(first + second).backward()"),),
        ),
        ("retain_graph=True to the first call", (("first.backward()", "first.backward(retain_graph=True)"),)),
        (
            "detach() what it uses of it",
            (
                (
                    "shared = torch.randn(3, requires_grad=True).exp()",
                    "leaf = torch.randn(3, requires_grad=True)\nshared = leaf.exp()",
                ),
                ("shared.sum(), ", "(shared.detach() * torch.ones(3, requires_grad=True)).sum(), "),
            ),
        ),
    ),
    "GV502": (("detach() the state before the next step uses it", ((", state)", ", state.detach())"),)),),
    "GV503": (
        (".item() for a number", (("append(loss)", "append(loss.item())"),)),
        (".detach() for a tensor", (("append(loss)", "append(loss.detach())"),)),
    ),
    "GV601": (
        (
            "call optimizer.zero_grad() once for every step, before its backward()",
            (("    model(", "    optimizer.zero_grad()\n    model("),),
        ),
    ),
    "GV602": (
        (
            "make the optimizer after the replacement",
            (
                (
                    "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\nmodel[1] = torch.nn.Linear(8, 3)",
                    "model[1] = torch.nn.Linear(8, 3)\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)",
                ),
            ),
        ),
        (
            "put the new parameters in the place of the old ones in its param_groups",
            (("Linear(8, 3)", 'Linear(8, 3)\noptimizer.param_groups[0]["params"] = list(model.parameters())'),),
        ),
    ),
    "GV603": (("correct the formula", (("3 * x * grad", "3 * x**2 * grad"),)),),
    "GV604": (
        (
            "return None there; the order is that of forward's arguments",
            (("None, grad * ctx.factor", "grad * ctx.factor, None"),),
        ),
    ),
    "GV605": (("remove the decorator", (("    @once_differentiable\n", ""),)),),
    "GV606": (("return nothing", (("    return size\n", ""),)),),
    "GV607": (
        ("losses.mean().backward()", (("losses.backward(torch.ones_like(losses))", "losses.mean().backward()"),)),
    ),
    "GV608": (
        ("squeeze the result (50, 1)", (("layer(x) - y", "layer(x).squeeze() - y"),)),
        ("unsqueeze y (50,)", (("layer(x) - y", "layer(x) - y.unsqueeze(1)"),)),
    ),
    "GV609": (("leave out one of the two backward calls", (("    error.backward(retain_graph=True)\n", ""),)),),
    "GV610": (
        (
            "do it between backward() and step()",
            (("    optimizer.step()\n", ""), ("parameters(), 0.1)", "parameters(), 0.1)\n    optimizer.step()")),
        ),
    ),
    "GV611": (
        (
            "x.index_add(0, index, values)",
            (
                (
                    "total[node] += layer(torch.randn(6, 4))",
                    "total = total.index_add(0, node, layer(torch.randn(6, 4)))",
                ),
            ),
        ),
        ("make the index unique", (("[0, 0, 1, 1, 2, 2]", "[0, 1, 2]"), ("randn(6, 4)", "randn(3, 4)"))),
    ),
    "GV612": (
        (
            "compute the target under torch.no_grad()",
            (
                (
                    "    loss = (online(x) - 0.9 * target(x + 1))",
                    "    with torch.no_grad():\n        wanted = 0.9 * target(x + 1)\n    loss = (online(x) - wanted)",
                ),
            ),
        ),
    ),
    "GV613": (("(loss / 4).backward()", (("loss.backward()", "(loss / 4).backward()"),)),),
    "GV614": (
        (
            "leave out softmax(): give cross_entropy() the logits",
            (("torch.softmax(model(torch.randn(5, 4)), dim=1)", "model(torch.randn(5, 4))"),),
        ),
    ),
    "GV615": (("normalize along the axis in which the result is used: dim=-1", (("dim=1)", "dim=-1)"),)),),
    "GV616": (
        ("pass ignore_index=0 to cross_entropy()", (("target.flatten())", "target.flatten(), ignore_index=0)"),)),
        ("pad the target with -100", (("padding_value=0", "padding_value=-100"),)),
    ),
    "GV617": (
        (
            "seed once, before the loop",
            (
                ("    generator = torch.Generator().manual_seed(0)\n", ""),
                ("for x", "generator = torch.Generator().manual_seed(0)\nfor x"),
            ),
        ),
    ),
    "GV618": (
        (
            "compute the old value once, when the data are collected",
            (
                (
                    "for epoch in range(4):\n    with torch.no_grad():\n"
                    "        old = torch.log_softmax(policy(states), 1).gather(1, actions).squeeze(1)\n",
                    "with torch.no_grad():\n"
                    "    old = torch.log_softmax(policy(states), 1).gather(1, actions).squeeze(1)\n"
                    "for epoch in range(4):\n",
                ),
            ),
        ),
    ),
    "GV619": (("sum over the other axes only: .sum(dim=1)", ((".sum() +", ".sum(dim=1) +"),)),),
    "GV620": (
        ("assign the result: scores = scores.masked_fill(", (("    scores.masked", "    scores = scores.masked"),)),
    ),
    "GV621": (("invert the mask here: ~mask", (("(tokens != 0,", "(~(tokens != 0),"),)),),
    "GV622": (
        ("make the layer with batch_first=True", (("LSTM(3, 8)", "LSTM(3, 8, batch_first=True)"),)),
        ("give it (time, batch, features)", (("(16, 5, 3)", "(5, 16, 3)"), ("out[:, -1]", "out[-1]"))),
    ),
    "GV623": (
        (
            "draw one permutation, and index both with it",
            (
                ("    inputs, labels", "    order = torch.randperm(32)\n    inputs, labels"),
                ("x[torch.randperm(32)], y[torch.randperm(32)]", "x[order], y[order]"),
            ),
        ),
    ),
    "GV625": (("give them the axes of the other: .view(-1, 1, 1)", (("table[t] *", "table[t].view(-1, 1, 1) *"),)),),
    "GV626": (
        (
            "inputs tokens[:, :-1], targets tokens[:, 1:]",
            (("y = torch.stack([stream[i : i + 6]", "y = torch.stack([stream[i + 1 : i + 7]"),),
        ),
    ),
    "GV627": (
        (
            "write the keys into the bank after the logits are computed",
            (
                ("    bank[step * 4 : step * 4 + 4] = k\n", ""),
                ("dim=1)\n", "dim=1)\n    bank[step * 4 : step * 4 + 4] = k\n"),
            ),
        ),
    ),
    "GV628": (("turn the sign of this term around", (("= 0.5 * (1", "= -0.5 * (1"),)),),
    "GV630": (("exchange the axes instead: .transpose(1, 2)", ((".view(6, 10, 8)", ".transpose(1, 2)"),)),),
    "GV632": (("turn the sign of the entropy around", (("mean() + 0.01", "mean() - 0.01"),)),),
    "GV633": (
        (
            "use torch.autograd.grad(energy(x).sum(), x)[0] here",
            (
                ("energy(x).sum().backward()", "slope = torch.autograd.grad(energy(x).sum(), x)[0]"),
                ("0.1 * x.grad", "0.1 * slope"),
            ),
        ),
        (
            "call optimizer.zero_grad() after the loop",
            (("    optimizer.zero_grad()\n", ""), ("    loss =", "    optimizer.zero_grad()\n    loss =")),
        ),
    ),
    "GV634": (
        (
            "give it to the function that adds it to the input",
            (
                ("with_noise(x, t)", "with_noise(x, t, noise)"),
                ("t * torch.randn_like(x)", "t * noise"),
            ),
        ),
    ),
    "GV636": (
        (
            "order = torch.randperm(n); order[k:], order[:k]",
            (
                ("train, held_out", "order = torch.randperm(40)\ntrain, held_out"),
                ("torch.randperm(40)[8:], torch.randperm(40)[:8]", "order[8:], order[:8]"),
            ),
        ),
    ),
    "GV637": (
        (
            'F.mse_loss(x_hat, x, reduction="sum") / len(x)',
            (("mse_loss(decoder(z), x)", 'mse_loss(decoder(z), x, reduction="sum") / len(x)'),),
        ),
    ),
    "GV646": (("DataLoader(..., shuffle=True)", (("batch_size=16", "batch_size=16, shuffle=True"),)),),
    "GV650": (("exchange the two: x + (q - x).detach()", (("q + (z - q).detach()", "z + (q - z).detach()"),)),),
    "GV657": (("divide cosines by a temperature below 1", (("* 0.1,", "/ 0.1,"),)),),
    "GV658": (
        (
            "((g.flatten(1).norm(dim=1) - 1) ** 2).mean()",
            (("(slopes.norm() - 1) ** 2", "((slopes.flatten(1).norm(dim=1) - 1) ** 2).mean()"),),
        ),
    ),
    "GV659": (("torch.sigmoid() of the logits", (("p = model(x)", "p = torch.sigmoid(model(x))"),)),),
    "GV660": (("torch.relu(d_pos - d_neg + margin)", (("(near - far + 0.5)", "torch.relu(near - far + 0.5)"),)),),
    "GV661": (("D(p, z.detach())", (("(predictor(a), b,", "(predictor(a), b.detach(),"),)),),
    "GV662": (
        (
            "add the input to the last one: x + h",
            (("x = torch.relu", "h = torch.relu"), ("x = self.second(x)", "h = self.second(h)"), ("x + x", "x + h")),
        ),
    ),
    "GV663": (("x + table[: x.size(1)].transpose(0, 1)", (("[: x.size(0)]", "[: x.size(1)].transpose(0, 1)"),)),),
    "GV664": (("log_softmax(logits / 4, dim=-1)", (("student(x), dim=1", "student(x) / 4, dim=1"),)),),
    "GV665": (("advantage = returns - value.detach()", (("value.detach() - returns", "returns - value.detach()"),)),),
    "GV666": (("mask.sum(1).clamp(min=1)", ((".mean(dim=1)", ".sum(1) / mask.sum(1).clamp(min=1)"),)),),
    "GV667": (
        (
            "move the dropout before the last layer",
            ((", torch.nn.Dropout(0.2)", ""), ("torch.nn.ReLU(),", "torch.nn.ReLU(), torch.nn.Dropout(0.2),")),
        ),
    ),
    "GV668": (("reward + gamma * (1 - done) * value", (("0.9 * done *", "0.9 * (1 - done) *"),)),),
    "GV669": (
        (
            "subtract torch.log(1 - action.pow(2) + 1e-6)",
            (("0.2 * score", "0.2 * (score - torch.log(1 - action.pow(2) + 1e-6))"),),
        ),
    ),
    "GV670": (
        ("give the second call the prediction or the target", (("0.3 * error(out, y)", "0.3 * error(out, y[other])"),)),
    ),
    "GV671": (("cat([positive, negatives], dim=1)", (("[negatives, positive]", "[positive, negatives]"),)),),
    "GV672": (("store copies", (("before = state\n", "before = state.clone()\n"),)),),
    "GV677": (
        ("torch.relu() around the result of the first", (("second(first(x))", "second(torch.relu(first(x)))"),)),
    ),
    "GV676": (("number of zeros / number of ones", (("y.sum() / (1 - y).sum()", "(1 - y).sum() / y.sum()"),)),),
    "GV675": (
        (
            "a.sqrt() * x + (1 - a).sqrt() * noise",
            (("alpha_bar[t] * x", "alpha_bar[t].sqrt() * x"), ("(1 - alpha_bar[t])", "(1 - alpha_bar[t]).sqrt()")),
        ),
    ),
    "GV674": (("take the minimum of the two", (("torch.max(", "torch.min("),)),),
    "GV731": (
        (
            "keep copies: copy.deepcopy(model.state_dict())",
            (("start = model.state_dict()", "start = {n: p.detach().clone() for n, p in model.state_dict().items()}"),),
        ),
    ),
    "GV733": (("0.001 is usual to begin with", (("lr=1.0", "lr=0.001"),)),),
    "GV732": (("nn.init.normal_()", (("constant_(parameter, 0.1)", "normal_(parameter, std=0.1)"),)),),
    "GV730": (("leave the learning rate out", (("0.01 * 0.9**epoch", "0.9**epoch"),)),),
    "GV651": (
        (
            "clamp the sides at 0 before they are multiplied: .clamp(min=0)",
            (("torch.minimum(", "(torch.minimum("), ("maximum(first, corner)", "maximum(first, corner)).clamp(min=0)")),
        ),
    ),
    "GV638": (("(y + 1) / 2", (("(model(x), labels)", "(model(x), (labels + 1) / 2)"),)),),
    "GV639": (
        ("leave out sigmoid()", ((", torch.nn.Sigmoid()", ""),)),
        ("scale the targets to its range", (("5 * x[:, :1]", "torch.sigmoid(x[:, :1])"),)),
    ),
    "GV640": (
        (
            "multiply the noise with the standard deviation: torch.exp(0.5 * logvar)",
            (("mu + logvar.exp()", "mu + (0.5 * logvar).exp()"),),
        ),
    ),
    "GV652": (("+ instead of - before logvar, log(sigma) or logdet", (("- 0.5 * logvar", "+ 0.5 * logvar"),)),),
    "GV653": (("turn the sign around: loss = -log_p.mean()", (("loss = log_p", "loss = -log_p"),)),),
    "GV647": (("-critic(generator(noise)).mean()", (("generator_loss = critic", "generator_loss = -critic"),)),),
    "GV641": (("(prediction - target).square().mean()", (("- y).mean()", "- y).square().mean()"),)),),
    "GV642": (
        ('scores.masked_fill(mask, float("-inf"))', (("padding[:, None], 1e-9", 'padding[:, None], float("-inf")'),)),
    ),
    "GV643": (
        (
            "nn.Transformer.generate_square_subsequent_mask(T)",
            (("layer(embed(tokens[:, :-1]))", "layer(embed(tokens[:, :-1]), src_mask=mask)"),),
        ),
    ),
    "GV644": (("torch.cat([h[-2], h[-1]], dim=1)", (("out[:, -1]", "torch.cat([h[-2], h[-1]], dim=1)"),)),),
    "GV645": (
        (
            'similar.masked_fill(torch.eye(n, dtype=torch.bool), float("-inf"))',
            (("z @ z.T / 0.2", '(z @ z.T / 0.2).masked_fill(diagonal, float("-inf"))'),),
        ),
    ),
    "GV654": (("state.clone() of a tensor", (("(state, state.sum()", "(state.clone(), state.sum()"),)),),
    "GV655": (
        (
            "x / x.norm(dim=-1, keepdim=True)",
            (("a.norm()", "a.norm(dim=-1, keepdim=True)"), ("b.norm()", "b.norm(dim=-1, keepdim=True)")),
        ),
        (
            "F.normalize(x, dim=-1)",
            (("a / a.norm(), b / b.norm()", "(torch.nn.functional.normalize(x, dim=-1) for x in (a, b))"),),
        ),
    ),
    "GV656": (("r + gamma * (1 - done) * next_value", (("0.9 * model", "0.9 * (1 - done) * model"),)),),
    "GV690": (
        (
            "write scaler.scale(loss).backward()",
            (("    scaler.scale(loss)\n    loss.backward()", "    scaler.scale(loss).backward()"),),
        ),
    ),
    "GV701": (
        ("call requires_grad_() on it before its first use", (("model(x)", "x.requires_grad_()\nmodel(x)"),)),
        ("make it with requires_grad=True", (("torch.randn(3, 4)", "torch.randn(3, 4, requires_grad=True)"),)),
    ),
    "GV702": (
        (
            "compute first and set requires_grad on the result: (...).detach().requires_grad_()",
            (("torch.randn(3, requires_grad=True) * 0.01", "(torch.randn(3) * 0.01).detach().requires_grad_()"),),
        ),
    ),
    "GV703": (
        (
            "put the layers into a torch.nn.ModuleList",
            (
                (
                    "[torch.nn.Linear(4, 4) for _ in range(2)]",
                    "torch.nn.ModuleList([torch.nn.Linear(4, 4) for _ in range(2)])",
                ),
            ),
        ),
    ),
    "GV704": (
        ("call it in forward", (("sigmoid(self.value(x))", "sigmoid(self.gate(x))"),)),
        ("remove it from the model", (("        self.gate = torch.nn.Linear(4, 4)\n", ""),)),
    ),
    "GV705": (
        ("module_b.weight = module_a.weight", (("out.weight.data = embed.weight.data", "out.weight = embed.weight"),)),
    ),
    "GV706": (
        ("give them to the optimizer", (("(head.parameters(), ", "([*encoder.parameters(), *head.parameters()], "),)),
        ("freeze them with requires_grad_(False)", (("lr=0.1)", "lr=0.1)\nencoder.requires_grad_(False)"),)),
    ),
    "GV707": (("call model.train() before training", (("model.eval()", "model.eval()\nmodel.train()"),)),),
    "GV708": (
        (
            "call for_generator.step() here",
            (
                (
                    "    (-critic(generator(torch.randn(8, 4))).mean()).backward()\n    for_critic",
                    "    (-critic(generator(torch.randn(8, 4))).mean()).backward()\n    for_generator",
                ),
            ),
        ),
    ),
    "GV709": (("call teacher.eval() before the loop", (("for step", "teacher.eval()\nfor step"),)),),
    "GV710": (("set the learning rate of that group", (("lr=0.0", "lr=0.1"),)),),
    "GV711": (
        (
            "make it once, before the loop",
            (
                ("    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)\n", ""),
                ("for step", "optimizer = torch.optim.Adam(model.parameters(), lr=0.01)\nfor step"),
            ),
        ),
    ),
    "GV712": (
        ("assign torch.nn.Parameter(...)", (("torch.ones(1)", "torch.nn.Parameter(torch.ones(1))"),)),
        (
            "register_buffer('scale', ...)",
            (("self.scale = torch.ones(1)", 'self.register_buffer("scale", torch.ones(1))'),),
        ),
    ),
    "GV713": (
        (
            "copy.deepcopy(model.state_dict())",
            (("best = model.state_dict()", "import copy\nbest = copy.deepcopy(model.state_dict())"),),
        ),
    ),
    "GV714": (
        (
            "copy the buffers as well",
            (
                (
                    "        average(torch",
                    "        for mine, theirs in zip(average.buffers(), model.buffers()):\n"
                    "            mine.copy_(theirs)\n"
                    "        average(torch",
                ),
            ),
        ),
    ),
    "GV715": (
        (
            "leave it out of the freezing",
            (
                ("in adapter.parameters()", "in adapter.base.parameters()"),
                ("SGD(head.parameters(),", "SGD([*head.parameters(), adapter.a, adapter.b],"),
            ),
        ),
        (
            "set requires_grad_(True) on them afterwards",
            (
                (
                    "requires_grad = False\n",
                    "requires_grad = False\nadapter.a.requires_grad_(True)\nadapter.b.requires_grad_(True)\n",
                ),
                ("SGD(head.parameters(),", "SGD([*head.parameters(), adapter.a, adapter.b],"),
            ),
        ),
    ),
    "GV716": (
        ("change the copy, with the values of the trained model", (("s.mul_(0.9).add_(t,", "t.mul_(0.9).add_(s,"),)),
    ),
    "GV717": (
        (
            "swap the two groups: p.ndim >= 2 with weight decay",
            (("p.ndim < 2", "p.ndim ..."), ("p.ndim >= 2", "p.ndim < 2"), ("p.ndim ...", "p.ndim >= 2")),
        ),
    ),
    "GV718": (
        (
            "leave them out of for_critic",
            (
                ("[*critic.parameters(), *generator.parameters()]", "critic.parameters()"),
                ("critic(fake)", "critic(fake.detach())"),
            ),
        ),
    ),
    "GV719": (
        ("step the schedule once in each epoch", (("        schedule.step()", "    schedule.step()"),)),
        ("T_max=epochs * len(loader)", (("T_max=4", "T_max=24"),)),
    ),
    "GV720": (("leave out padding_idx", ((", padding_idx=0", ""),)),),
    "GV723": (
        ("step the schedule behind each optimizer.step()", (("    schedule.step()", "        schedule.step()"),)),
        ("let its figures count epochs", (("(step + 1) / 20", "(step + 1) / 2"),)),
    ),
    "GV724": (("move the result of the step before", (("fast = slow - 0.1", "fast = fast - 0.1"),)),),
    "GV735": (
        ("step the schedule behind each optimizer.step()", (("    schedule.step()", "        schedule.step()"),)),
        ("give it the number of epochs", (("T_max=3 * 6", "T_max=3"),)),
    ),
    "GV736": (('write mode="max"', (("patience=1", 'mode="max", patience=1'),)),),
    "GV737": (("m.mul_(0.9).add_(g, alpha=0.1)", (("m = 0.9 * m + 0.1 * g", "m.mul_(0.9).add_(g, alpha=0.1)"),)),),
    "GV738": (
        (
            "multiply the weights with it after each optimizer.step()",
            (
                (
                    "    optimizer.step()",
                    "    optimizer.step()\n    if step >= 2:\n        layer.weight.data.mul_(mask)",
                ),
            ),
        ),
    ),
    "GV801": (("pass use_reentrant=False", (("use_reentrant=True", "use_reentrant=False"),)),),
    "GV802": (("leave preserve_rng_state=False out", ((", preserve_rng_state=False", ""),)),),
    "GV902": (
        ("run it under torch.no_grad()", (("    score = ", "    with torch.no_grad():\n        score = "),)),
        ("torch.inference_mode()", (("    score = ", "    with torch.inference_mode():\n        score = "),)),
    ),
    "GV903": (("remove retain_graph=True", (("retain_graph=True", ""),)),),
    "GV904": (
        (
            "torch.from_numpy(array).float()",
            (("torch.from_numpy(np.ones((16, 1)))", "torch.from_numpy(np.ones((16, 1))).float()"),),
        ),
    ),
    "GV905": (
        (
            "compute it with tensors alone",
            (("    if x.sum() > 0:\n        x = 2 * x\n", "    x = torch.where(x.sum() > 0, 2 * x, x)\n"),),
        ),
        (
            "move it out of what is compiled",
            (
                (
                    '@torch.compile(backend="eager")\n',
                    '@torch.compile(backend="eager")\ndef sine(x):\n    return x.sin()\n\n',
                ),
                ("return x.sin()\n\nx", "return sine(x)\n\nx"),
            ),
        ),
    ),
    "GV906": (("not at all", (("named(x, str(step))", 'named(x, "step")'),)),),
    "GV725": (
        (
            "strip the prefix: {key.removeprefix('module.'): value for key, value in state.items()}",
            (("(state, strict=False)", "({key.removeprefix('module.'): value for key, value in state.items()})"),),
        ),
    ),
    "GV726": (
        (
            "call module.requires_grad_(False)",
            (
                ("body.requires_grad = False", "body.requires_grad_(False)"),
                ("[*body.parameters(), *head.parameters()]", "head.parameters()"),
            ),
        ),
    ),
    "GV727": (
        (
            "call its step() after optimizer.step()",
            (("    optimizer.step()", "    optimizer.step()\n    schedule.step()"),),
        ),
    ),
    "GV728": (
        (
            "make a module for each place",
            (
                ("block = torch", "make_block = lambda: torch"),
                ("[block] * 3", "[make_block() for _ in range(3)]"),
            ),
        ),
        (
            "copy.deepcopy(block)",
            (("[block] * 3", "[__import__('copy').deepcopy(block) for _ in range(3)]"),),
        ),
    ),
    "GV729": (
        ("change the parameter in place", (("p = p - 0.1 * p.grad", "p -= 0.1 * p.grad"),)),
        ("p.copy_(new)", (("p = p - 0.1 * p.grad", "p.copy_(p - 0.1 * p.grad)"),)),
        (
            "use an optimizer",
            (
                ("for step", "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\nfor step"),
                (
                    "    with torch.no_grad():\n        for p in model.parameters():\n            p = p - 0.1 * p.grad",
                    "    optimizer.step()",
                ),
            ),
        ),
    ),
    "GV773": (('reduction="none"', (("cross_entropy(model(x), y)", 'cross_entropy(model(x), y, reduction="none")'),)),),
    "GV770": (("make it a list", (("weights = model.parameters()", "weights = list(model.parameters())"),)),),
    "GV771": (("keep copies: p.grad.clone()", (("[p.grad for", "[p.grad.clone() for"),)),),
    "GV772": (("copy the tensors", (("new = list(grads)", "new = [each.clone() for each in grads]"),)),),
    "GV775": (
        (
            "transpose both before it",
            (("seen.reshape(32, 3)", "seen.transpose(0, 1).reshape(32, 3)"),),
        ),
        ("or neither", (("returns.transpose(0, 1).reshape(32)", "returns.reshape(32)"),)),
    ),
    "GV774": (("x.argsort(dim).argsort(dim)", (("descending=True)", "descending=True).argsort(-1)"),)),),
    "GV790": (("total = total + term", (("loss = torch.nn", "loss = loss + torch.nn"),)),),
    "GV791": (("edges + offset", (("torch.cat([edges for", "torch.cat([edges + 4 * graph for"),)),),
    "GV792": (("answers[train], targets[train]", (("(answers, y)", "(answers[train], y[train])"),)),),
    "GV799": (),
    "GV901": (),
    "GV895": (
        ("raise the bound", (("parameters(), 0.0)", "parameters(), 1.0)"),)),
        ("leave the clipping out", (("    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.0)\n", ""),)),
    ),
    "GV896": (("lr=0.01", (("lr=1e-8", "lr=0.01"),)),),
    "GV897": (("unindent it", (("    return total", "return total"),)),),
    "GV898": (("read held_out where the model is scored", (("for batch in loader)", "for batch in held_out)"),)),),
    "GV899": (
        (
            "for group in optimizer.param_groups",
            (("    rate *= 0.5", "    rate *= 0.5\n    for group in optimizer.param_groups: group['lr'] = rate"),),
        ),
        (
            "a schedule of torch.optim.lr_scheduler",
            (
                ("for epoch", "schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)\nfor epoch"),
                ("    rate *= 0.5", "    schedule.step()"),
            ),
        ),
    ),
    "GV883": (
        (
            "bring the copy up to date after each step",
            (
                ("copy.deepcopy(model)", "torch.optim.swa_utils.AveragedModel(model)"),
                ("    optimizer.step()", "    optimizer.step()\n    average.update_parameters(model)"),
            ),
        ),
        ("score the trained model", (("(average(x)", "(model(x)"),)),
    ),
    "GV882": (
        (
            "add the batches up",
            (
                ("    with torch.no_grad():", "    error = 0.0\n    with torch.no_grad():"),
                ("error = (model", "error += (model"),
                ("print(epoch, error)", "print(epoch, error / 4)"),
            ),
        ),
    ),
    "GV892": (("prepare both in the same way", (("held_out = x[48:]", "held_out = (x[48:] - 100) / 20"),)),),
}
"""By code of the rule. Two advise another command of gradviz only."""
