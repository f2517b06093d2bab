"""Losses."""

from __future__ import annotations

from collections.abc import Mapping

from gradviz.formulas.plain.plain_formula import PlainFormula, Trap

_MEAN_OVER_ALL = {"n": "self.numel() if reduction == 1 else 1"}
_NOTE = "reduction is 1 for the mean, 2 for the sum, where n is 1, and 0 for none."


def _elementwise(
    node: str,
    sentence: str,
    call: str,
    where: Mapping[str, str],
    *traps: Trap,
    target: str = "",
    note: str = "",
) -> PlainFormula:
    """A loss for each element, summed or averaged: `where` defines ``loss``, and ``slope``, its derivative with respect
    to the prediction; `target` is the gradient of the target, if it can have one."""
    gradients = {"self": "grad * slope / n"}
    if target:
        gradients["target"] = target
    return PlainFormula(
        node,
        sentence,
        call,
        gradients,
        forward="loss if reduction == 0 else loss.sum() / n",
        where={**_MEAN_OVER_ALL, **where},
        usual={"reduction": 1},
        symbols={"loss": "l", "slope": "l′", "delta": "δ", "weight": "weight"},
        note=f"{note} {_NOTE}".lstrip(),
        traps=traps,
    )


def _log_likelihood(node: str, sentence: str, classes: int, *traps: Trap) -> PlainFormula:
    return PlainFormula(
        node,
        sentence,
        "torch.nn.functional.nll_loss(self, target, weight, ignore_index=ignore_index, "
        "reduction=('none', 'mean', 'sum')[reduction])",
        {"self": f"torch.zeros_like(self).scatter({classes}, chosen, -(grad * counted / n).unsqueeze({classes}))"},
        forward="losses if reduction == 0 else losses.sum() / n",
        where={
            "weights": f"self.new_ones(self.size({classes})) if weight is None else weight",
            "chosen": f"(target * (target != ignore_index)).unsqueeze({classes})",
            "counted": f"weights[chosen.squeeze({classes})] * (target != ignore_index)",
            "n": "counted.sum() if reduction == 1 else 1",
            "losses": f"-self.gather({classes}, chosen).squeeze({classes}) * counted",
        },
        usual={"reduction": 1},
        outputs=("output",),
        symbols={"weight": "weight", "weights": "w", "counted": "c", "chosen": "k", "losses": "l"},
        note="k is the class that is meant, c its weight: 1 where none are given, 0 where the target is ignored. "
        f"{_NOTE}",
        traps=traps,
    )


LOSSES = (
    _elementwise(
        "MseLossBackward0",
        "The mean of squared errors.",
        "torch.ops.aten.mse_loss(self, target, reduction)",
        {"loss": "torch.square(self - target)", "slope": "2 * (self - target)"},
        target="-grad * slope / n",
    ),
    _elementwise(
        "SmoothL1LossBackward0",
        "Squared errors where they are small, absolute ones where they are large.",
        "torch.ops.aten.smooth_l1_loss(self, target, reduction, beta)",
        {
            "loss": "torch.where(torch.abs(self - target) < beta, torch.square(self - target) / (2 * beta), "
            "torch.abs(self - target) - beta / 2)",
            "slope": "torch.clamp((self - target) / beta, -1, 1)",
        },
        target="-grad * slope / n",
    ),
    _elementwise(
        "HuberLossBackward0",
        "Squared errors where they are small, absolute ones, times δ, where they are large.",
        "torch.ops.aten.huber_loss(self, target, reduction, delta)",
        {
            "loss": "torch.where(torch.abs(self - target) < delta, torch.square(self - target) / 2, "
            "delta * (torch.abs(self - target) - delta / 2))",
            "slope": "torch.clamp(self - target, -delta, delta)",
        },
        target="-grad * slope / n",
    ),
    _elementwise(
        "BinaryCrossEntropyBackward0",
        "The surprise of probabilities of yes or no.",
        "torch.ops.aten.binary_cross_entropy(self, target, weight, reduction)",
        {
            "w": "1 if weight is None else weight",
            "loss": "-w * (target * torch.log(self) + (1 - target) * torch.log(1 - self))",
            "slope": "w * (self - target) / (self * (1 - self))",
        },
        Trap(
            "At a probability that rounded to exactly 0 the loss is cut off at 100, and the slope at −10¹².",
            "p = torch.tensor([0.0], requires_grad=True)\n"
            "torch.nn.functional.binary_cross_entropy(p, torch.ones(1)).backward()\n"
            "bool(p.grad < -1e11)",
            "True",
        ),
        target="grad * w * (torch.log(1 - self) - torch.log(self)) / n",
    ),
    _elementwise(
        "BinaryCrossEntropyWithLogitsBackward0",
        "The surprise of logits of yes or no, without rounding to log(0).",
        "torch.ops.aten.binary_cross_entropy_with_logits(self, target, weight, pos_weight, reduction)",
        {
            "w": "1 if weight is None else weight",
            "p": "1 if pos_weight is None else pos_weight",
            "loss": "w * (p * target * torch.log(1 + torch.exp(-self)) + "
            "(1 - target) * torch.log(1 + torch.exp(self)))",
            "slope": "w * ((1 - target) * torch.sigmoid(self) - p * target * torch.sigmoid(-self))",
        },
        target="grad * w * (p * torch.log(1 + torch.exp(-self)) - torch.log(1 + torch.exp(self))) / n",
        note="Without weights, l′ is sigmoid(x) − t.",
    ),
    _elementwise(
        "SoftMarginLossBackward0",
        "The surprise of logits for targets of −1 and 1.",
        "torch.ops.aten.soft_margin_loss(self, target, reduction)",
        {"loss": "torch.log(1 + torch.exp(-target * self))", "slope": "-target * torch.sigmoid(-target * self)"},
    ),
    _log_likelihood(
        "NllLossBackward0",
        "Minus the log-probability of each target: the second half of cross_entropy.",
        -1,
        Trap(
            "Where every target is ignored, the mean is 0 / 0: a loss of NaN.",
            "x = torch.zeros(1, 2, requires_grad=True)\ntorch.nn.functional.nll_loss(x, torch.tensor([-100])).item()",
            "nan",
        ),
    ),
    _log_likelihood("NllLoss2DBackward0", "Minus the log-probability of the target of each pixel.", 1),
)
