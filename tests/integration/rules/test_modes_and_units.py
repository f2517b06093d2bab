"""Functions that drop values when their model is evaluated, and predicted boxes in other units than the data."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

MODEL = (
    HEAD + "class Attend(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.rate = 0.2\n"
    "        self.qkv, self.drop, self.head = nn.Linear(4, 12), nn.Dropout(0.1), nn.Linear(4, 1)\n"
    "    def forward(self, x):\n        q, k, v = self.qkv(x).chunk(3, -1)\nATTENTION"
    "        return self.head(self.drop(y)).mean(1)\n"
    "net = Attend()\noptimizer = torch.optim.Adam(net.parameters())\n"
    "for step in range(3):\n    loss = net(torch.randn(8, 5, 4)).square().mean()" + TRAIN
)
EVALUATED = (
    "    net.eval()\n    with torch.no_grad():\n        print(net(torch.randn(8, 5, 4)).square().mean().item())\n"
)
EVALUATED += "    net.train()\n"
AVERAGED = (
    "net.eval()\nx = torch.randn(8, 5, 4)\nwith torch.no_grad():\n"
    "    print(torch.stack([net(x) for _ in range(3)]).std(0).mean())\n"
)
ALWAYS = "        y = F.scaled_dot_product_attention(q, k, v, dropout_p=self.rate)  # HERE\n"


def attending(lines: str, after: str = EVALUATED) -> str:
    """A model with an attention of its own."""
    return MODEL.replace("ATTENTION", lines) + after


STILL_DROPPING = {
    "an attention with a rate of the module": attending(ALWAYS),
    "over several lines, with a number": attending(
        "        y = F.scaled_dot_product_attention(  # HERE\n            q,\n            k,\n            v,\n"
        "            dropout_p=0.1,\n        )\n"
    ),
    "by position, with a variable": attending(
        "        rate = self.rate\n        y = F.scaled_dot_product_attention(q, k, v, None, rate)  # HERE\n"
    ),
    "evaluated in inference mode by a function": attending(
        ALWAYS,
        "@torch.inference_mode()\ndef evaluate(model, x):\n    model.eval()\n    return model(x).mean().item()\n"
        "print(evaluate(net, torch.randn(8, 5, 4)))\n",
    ),
    "a model that begins with positions": attending(ALWAYS).replace(
        "def forward(self, x):\n", "def forward(self, x):\n        x = x + torch.arange(5)[:, None]\n"
    ),
    "a teacher whose dropout is a function": HEAD
    + "class Teacher(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    "        self.linear = nn.Linear(4, 2)\n"
    "    def forward(self, x):\n        return F.dropout(self.linear(x), 0.3)  # HERE\n"
    "teacher, net = Teacher().eval(), nn.Linear(4, 2)\noptimizer = torch.optim.Adam(net.parameters())\n"
    "for step in range(3):\n    x = torch.randn(8, 4)\n    with torch.no_grad():\n        goal = teacher(x)\n"
    "    loss = F.mse_loss(net(x), goal)" + TRAIN,
    "a dropout function": attending(
        "        y = F.dropout(F.scaled_dot_product_attention(q, k, v), p=self.rate)  # HERE\n"
    ),
}
TOLD_THE_MODE = {
    "a rate that depends on the mode": attending(
        "        rate = self.rate if self.training else 0.0\n"
        "        y = F.scaled_dot_product_attention(q, k, v, dropout_p=rate)\n"
    ),
    "an average over dropout": attending(ALWAYS, AVERAGED),
    "an attention that is never evaluated": attending(ALWAYS, ""),
    "a layer of torch": attending("        y = self.attention(q, k, v)[0]\n").replace(
        "self.rate =",
        "self.attention = nn.MultiheadAttention(4, 2, dropout=0.2, batch_first=True)\n        self.rate =",
    ),
    "a rate of zero": attending("        y = F.scaled_dot_product_attention(q, k, v, dropout_p=0.0)\n"),
}

BOXES = (
    HEAD + "net = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 4))\n"
    "optimizer = torch.optim.Adam(net.parameters())\n"
    "def overlap(a, b):\n    low, high = torch.max(a[:, :2], b[:, :2]), torch.min(a[:, 2:], b[:, 2:])\n"
    "    shared = (high - low).clamp(min=0).prod(1)\n"
    "    own = (a[:, 2:] - a[:, :2]).prod(1) + (b[:, 2:] - b[:, :2]).prod(1)\n"
    "    return shared / (own - shared + 1e-6)\n"
    "for step in range(4):\n    x, corner = torch.randn(8, 6), torch.rand(8, 2) * 20 + 3\n"
    "    boxes = torch.cat([corner, corner + 4 + 8 * torch.rand(8, 2)], 1)\n"
)
UNBOUND = "    a, b, c, d = p.unbind(1)\n    e, f, g, h = t.unbind(1)\n"
CENTRED = "    c, half = p[:, :2], p[:, 2:] / 2\n    p = torch.cat([c - half, c + half], dim=1)\n"
PULLED = "    loss = (1 - overlap(p, boxes)).mean() + 1e-3 * net(x).square().mean()" + TRAIN
IN_OTHER_UNITS = {
    "centres and sizes": BOXES + "    p = net(x).sigmoid()  # HERE\n" + CENTRED
    + "    loss = (1 - overlap(p, boxes)).mean()" + TRAIN,
    "corners, beside another term": BOXES
    + "    a, b = torch.sigmoid(net(x)).split(2, 1)  # HERE\n    p = torch.cat([a, a + b], 1)\n" + PULLED,
    "boxes one by one, as columns": BOXES.replace("overlap(a, b):\n", "overlap(p, t):\n")
    .replace("    low, high = torch.max(a[:, :2], b[:, :2]), torch.min(a[:, 2:], b[:, 2:])\n", "")
    .replace("    shared = (high - low).clamp(min=0).prod(1)\n", UNBOUND)
    .replace(
        "    own = (a[:, 2:] - a[:, :2]).prod(1) + (b[:, 2:] - b[:, :2]).prod(1)\n",
        "    w, h2 = torch.minimum(c, g) - torch.maximum(a, e), torch.minimum(d, h) - torch.maximum(b, f)\n"
        "    shared = F.relu(w) * F.relu(h2)\n    own = (c - a) * (d - b) + (g - e) * (h - f)\n",
    )
    + "    p = net(x).tanh() * 0.5 + 0.5  # HERE\n" + CENTRED + PULLED,
}  # fmt: skip
IN_THE_SAME_UNITS = {
    "scaled to the image": BOXES + "    p = net(x).sigmoid() * 40\n" + CENTRED + PULLED,
    "targets as shares of the image": BOXES + "    p, boxes = net(x).sigmoid(), boxes / 36\n" + CENTRED + PULLED,
    "offsets of places on a grid": BOXES
    + "    p = (net(x).sigmoid() + torch.randint(0, 4, (8, 4))) * 9\n" + CENTRED + PULLED,
    "without bounds": BOXES + "    p = net(x) + 10\n" + CENTRED + PULLED,
    "limits that are never reached": BOXES
    + "    p = torch.minimum(net(x).sigmoid(), torch.full((8, 4), 100.0))\n    loss = p.square().mean()" + TRAIN,
}  # fmt: skip


@pytest.mark.parametrize("case", STILL_DROPPING)
def test_functions_that_drop_in_evaluation_are_told(case: str, tmp_path: Path) -> None:
    assert_first_alarm(STILL_DROPPING[case], "training_mode", tmp_path)


@pytest.mark.parametrize("case", TOLD_THE_MODE)
def test_functions_that_are_told_the_mode_are_left_alone(case: str, tmp_path: Path) -> None:
    assert "training_mode" not in [each.cause for each in alarms(TOLD_THE_MODE[case], tmp_path)]


def test_an_attention_of_a_model_that_stays_in_training_mode_is_no_fault_of_the_attention(tmp_path: Path) -> None:
    script = TOLD_THE_MODE["a rate that depends on the mode"].replace("    net.eval()\n", "")
    (found,) = alarms(script, tmp_path)
    assert (found.cause, "net.eval()" in found.fix) == ("training_mode", True)


@pytest.mark.parametrize("case", IN_OTHER_UNITS)
def test_boxes_in_other_units_are_told(case: str, tmp_path: Path) -> None:
    assert_first_alarm(IN_OTHER_UNITS[case], "target_never_reached", tmp_path)


def test_what_boxes_in_other_units_explain_is_not_told_again(tmp_path: Path) -> None:
    (found,) = alarms(IN_OTHER_UNITS["centres and sizes"], tmp_path)
    assert "0.weight" in " ".join(found.tensors)


@pytest.mark.parametrize("case", IN_THE_SAME_UNITS)
def test_boxes_in_the_same_units_are_left_alone(case: str, tmp_path: Path) -> None:
    assert "target_never_reached" not in [each.cause for each in alarms(IN_THE_SAME_UNITS[case], tmp_path)]
