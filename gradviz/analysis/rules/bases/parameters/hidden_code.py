"""The words for code in which gradviz knows no calls: compiled code, and what runs below Python."""

from __future__ import annotations

from typing import NamedTuple

from gradviz.analysis.parameters.parameter_histories import ParameterHistories


class HiddenCode(NamedTuple):
    """The words for code whose calls are not known."""

    what: str
    where: str
    shown_by: str
    loses: str
    look: str


_COMPILED = HiddenCode(
    "compiled code",
    "that torch.compile runs",
    "TORCHDYNAMO_DISABLE=1",
    "the result is not used, or it goes without gradient through code that torch.compile leaves uncompiled, where "
    "gradviz does not see each call",
    "look where the result leaves compiled code: a number taken with .item(), a comparison, NumPy, a list",
)
_BELOW_PYTHON = HiddenCode(
    "code below Python, such as TorchScript",
    "below Python",
    "PYTORCH_JIT=0",
    "the result is not used, or it is cut off in code below Python, where gradviz sees no calls",
    "use the result; if TorchScript does, check again with PYTORCH_JIT=0 in the environment, which shows every call",
)


def hidden_code(histories: ParameterHistories) -> HiddenCode | None:
    """What may use a parameter, or cut off its result, where no call is known."""
    if histories.has_compiled_code:
        return _COMPILED
    return _BELOW_PYTHON if histories.has_unseen_code else None
