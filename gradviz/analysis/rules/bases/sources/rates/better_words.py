"""What a program calls a number, which tells whether more of it is better."""

from __future__ import annotations

import re

from gradviz.analysis.rules.bases.kept_best import Better

_TOLD = re.compile(r"\.step\((?P<told>.*)\)")
_WORDS = re.compile(r"[A-Z]?[a-z]+[0-9]?|[A-Z]+[0-9]?(?![a-z])")
_FROM_THE_END = re.compile(r"\[-\d+\]")
_RISE = frozenset({
    "acc", "accs", "accuracy", "accuracies", "auc", "auroc", "correct", "f1", "iou", "miou", "dice", "precision",
    "recall", "psnr", "ssim", "bleu", "rouge", "reward", "rewards", "ndcg", "dcg", "mrr", "ap", "top1", "top5",
    "kappa", "mcc", "jaccard", "specificity", "sensitivity",
})  # fmt: skip
_FALL = frozenset({
    "loss", "losses", "mse", "mae", "rmse", "nll", "perplexity", "ppl", "err", "error", "errors", "wer",
    "cer",
})  # fmt: skip
_OTHER = frozenset({"neg", "negative", "minus", "inverse", "log", "distance", "elbo"})


def better_by_line(line: str) -> Better | None:
    """What is better of the number that a line tells a schedule."""
    told = _TOLD.search(line)
    if told is None or is_turned_round(told["told"]):
        return None
    return better_by_words(told["told"])


def is_turned_round(text: str) -> bool:
    """Whether something is subtracted in an expression; ``history[-1]`` is only the last of several."""
    return "-" in _FROM_THE_END.sub("", text)


def better_by_words(text: str) -> Better | None:
    """What is better, by the words in names; None if they say nothing, or both."""
    words = {word.lower() for word in _WORDS.findall(text)}
    rises, falls = not words.isdisjoint(_RISE), not words.isdisjoint(_FALL)
    if rises == falls or not words.isdisjoint(_OTHER):
        return None
    return "max" if rises else "min"
