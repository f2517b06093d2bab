"""All rules, in the order of their codes. One problem, one file."""

from __future__ import annotations

from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.broadcast_mismatch import BroadcastMismatch
from gradviz.analysis.rules.custom_function_bad_return import CustomFunctionBadReturn
from gradviz.analysis.rules.exploding_chain import ExplodingChain
from gradviz.analysis.rules.vanishing_chain import VanishingChain

RULES: tuple[type[Rule], ...] = (
    VanishingChain,
    ExplodingChain,
    CustomFunctionBadReturn,
    BroadcastMismatch,
)
