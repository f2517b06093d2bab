"""All rules, in the order of their codes. One problem, one file."""

from __future__ import annotations

from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.exploding_chain import ExplodingChain
from gradviz.analysis.rules.vanishing_chain import VanishingChain

RULES: tuple[type[Rule], ...] = (VanishingChain, ExplodingChain)
