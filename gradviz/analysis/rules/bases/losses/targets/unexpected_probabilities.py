"""Losses that expect logits or log-probabilities, and what is told where they get probabilities."""

from __future__ import annotations

from msgspec import Struct


class WrongInput(Struct, frozen=True):
    """What a loss gets, instead of what it expects."""

    makers: frozenset[str]
    message: str
    why: str
    fix: str
    fix_here: str = ""
    """The same, where the probabilities are needed for something else."""


OF_LOGITS = "{loss}() expects logits, and gets the probabilities that {maker}(){at_line} computed"
_OF_LOGARITHMS = "{loss}() expects log-probabilities, and gets the probabilities that {maker}(){at_line} computed"
_WHY_LOGITS = (
    "{loss}() normalizes its input itself: for values between 0 and 1 its gradient is small, and never points to a "
    "certain answer"
)
_NO_LOGITS = "leave out {maker}(): give {loss}() the logits"
_NO_LOGITS_HERE = (
    "give {loss}() the logits here, not what {maker}(){at_line} makes of them: the probabilities that it computes "
    "otherwise stay as they are"
)
_USE_LOGARITHMS = "use log_softmax() there"
_USE_LOGARITHMS_HERE = (
    "give {loss}() log_softmax() of the logits as this argument: the probabilities that {maker}(){at_line} computes "
    "otherwise stay as they are"
)
WRONG_INPUTS = {
    "cross_entropy": WrongInput(frozenset({"softmax"}), OF_LOGITS, _WHY_LOGITS, _NO_LOGITS, _NO_LOGITS_HERE),
    "binary_cross_entropy_with_logits": WrongInput(
        frozenset({"sigmoid", "softmax"}), OF_LOGITS, _WHY_LOGITS, _NO_LOGITS, _NO_LOGITS_HERE
    ),
    "gumbel_softmax": WrongInput(
        frozenset({"softmax"}),
        OF_LOGITS,
        "{loss}() adds noise and normalizes: values between 0 and 1 are nearly equal beside the noise, so that the "
        "classes are drawn almost at random",
        "leave out {maker}(): give {loss}() the logits, or the logarithm of the probabilities",
        _NO_LOGITS_HERE,
    ),
    "nll_loss": WrongInput(
        frozenset({"softmax"}),
        _OF_LOGARITHMS,
        "nll_loss() takes no logarithm: it needs that of log_softmax()",
        _USE_LOGARITHMS,
        _USE_LOGARITHMS_HERE,
    ),
    "ctc_loss": WrongInput(
        frozenset({"softmax"}),
        _OF_LOGARITHMS,
        "ctc_loss() adds up logarithms over the time: of probabilities, it makes no likelihood",
        _USE_LOGARITHMS,
        _USE_LOGARITHMS_HERE,
    ),
    "kl_div": WrongInput(
        frozenset({"softmax", "sigmoid"}),
        _OF_LOGARITHMS,
        "kl_div() takes no logarithm of its first argument: without it, this is no divergence, and goes below zero",
        _USE_LOGARITHMS,
        _USE_LOGARITHMS_HERE,
    ),
}
SOFTMAX_AGAIN = WrongInput(
    frozenset({"softmax"}),
    OF_LOGITS,
    "{loss}() normalizes its input itself: of values between 0 and 1 it makes nearly equal ones, so little is left of "
    "what the first {maker}() knew",
    "leave out the first {maker}(): keep the logits, and give them to {loss}()",
)
