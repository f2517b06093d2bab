"""Calls that do something else in training than in evaluation: dropout and batch normalization."""

from __future__ import annotations

from gradviz.graph.call_log import Call

WORDS = {
    "torch.nn.functional.dropout": "dropout",
    "torch.nn.functional.feature_dropout": "dropout",
    "torch.nn.functional.dropout1d": "dropout",
    "torch.nn.functional.dropout2d": "dropout",
    "torch.nn.functional.dropout3d": "dropout",
    "torch.nn.functional.feature_alpha_dropout": "dropout",
    "torch.nn.functional.alpha_dropout": "dropout",
    "torch.nn.functional.batch_norm": "batch normalization",
}


def is_training(call: Call) -> bool | None:
    """The mode of a dropout or normalization that could change something; None for other calls."""
    if call.function not in WORDS or call.scalars.get("p", call.scalars.get("1", 0.5)) == 0.0:
        return None
    if call.function.endswith("batch_norm"):
        flag = call.scalars.get("training", call.scalars.get("5"))
        has_statistics = len([use for use in call.inputs if use.place in _STATISTICS]) == len(_STATISTICS) // 2
        return flag if isinstance(flag, bool) and has_statistics else None
    flag = call.scalars.get("training", call.scalars.get("2"))
    return flag if isinstance(flag, bool) else None


def is_idle(call: Call) -> bool:
    """Whether it is a dropout that changes nothing: in evaluation mode, or with a probability of 0."""
    return "dropout" in call.function and not is_training(call)


_STATISTICS = ("1", "2", "running_mean", "running_var")
"""Where running statistics are given."""
