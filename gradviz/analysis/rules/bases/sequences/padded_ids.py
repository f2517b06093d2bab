"""Ids that only pad the sequences of a batch: which they are, and whether a program means them so."""

from __future__ import annotations

import re

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.rules.bases.losses.objectives import has_line_with
from gradviz.graph.call_log import Padding

LOOKUPS = frozenset({"embedding", "embedding_bag"})
MOST_READ = 3
"""The calls of a line whose ids were looked at."""
_SAYS_PADDING = re.compile(r"(?<![a-z])(pad(?!ding)|padding_(idx|value|token|mask)|padded)", re.IGNORECASE)
_SAYS_END = re.compile(r"(?<![a-z])(eos|eot|end_?token|end_?of|stop|blank)", re.IGNORECASE)


def same_padding(found: list[Padding | None]) -> Padding | None:
    """What pads the ids of all of these calls, if it is one id at one side; as in the first of them."""
    sides = {each and (each.value, each.axis, each.is_at_end) for each in found}
    return found[0] if len(sides) == 1 else None


def is_meant_to_pad(case: Case, value: int) -> bool:
    """Whether an id pads what a model looks up, and is no token that ends sequences."""
    is_named = has_line_with(case, _SAYS_PADDING)
    is_end = has_line_with(case, _SAYS_END) and not is_named
    return value in _padding_of_inputs(case) and not is_end and (is_named or value == 0)


def _padding_of_inputs(case: Case) -> set[int]:
    lookups = [call for call in case.dataflow.log.calls if plain_name(call.function) in LOOKUPS]
    padding = {each.value for call in lookups for each in call.padding.values()}
    return padding | {index for call in lookups if type(index := call.scalars.get("padding_idx")) is int}


def in_words(ids: Padding) -> str:
    """``12 of 40 ids of the first batch are the 0 with which rows end``."""
    side = "end" if ids.is_at_end else "begin"
    return f"{ids.count:,} of the {ids.of:,} ids of the first batch are the {ids.value} with which sequences {side}"
