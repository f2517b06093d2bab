"""What operations do where two numbers are equal: torch has changed it, so it is read from the installed torch.

Up to some release one of the two got the whole gradient, later they share it or none passes. Which of them holds is
told by torch's own formulas, of which a few lines are read here as text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from msgspec.structs import replace

from gradviz.formulas.plain.plain_formula import PlainFormula, Trap

_IN_HALVES = "grad / 2"
_BELOW, _AT_LOW = "(self < low) & (low <= high)", "(self == low) & (low < high)"
_ABOVE, _AT_HIGH = "(self > high) | (low > high)", "(self == high) & (low < high)"
_INSIDE = "(self > low) & (self < high) | (self == low) & (low == high)"


def as_installed(formulas: Mapping[str, PlainFormula], derivatives: str) -> dict[str, PlainFormula]:
    """The formulas, where torch's own `derivatives` say that ties are treated otherwise."""
    changed = dict(formulas)
    for node, (function, word, change) in _CHANGES.items():
        if word in _entry(derivatives, function):
            changed[node] = replace(formulas[node], **change(formulas[node]))
    fmax, fmin = _entry(derivatives, "fmax("), _entry(derivatives, "fmin(")
    for node, entry, wins in (("FmaxBackward0", fmax, ">"), ("FminBackward0", fmin, "<")):
        if _IN_HALVES in entry:
            changed[node] = _in_halves(formulas[node], wins, tells_numbers_from_nan="isnan" in entry)
    return changed


def _entry(derivatives: str, function: str) -> str:
    """The gradients of one function in torch's file, without those of its forward."""
    found = re.search(rf"^- name: {re.escape(function)}.*\n((?:[ #].*\n)*)", derivatives, re.MULTILINE)
    lines = found[1].splitlines() if found else []
    return "\n".join(line for line in lines if not line.startswith(("  #", "  result:")))


def _none_at_bounds(formula: PlainFormula) -> dict[str, object]:
    traps = tuple(
        Trap("At a bound no gradient passes.", trap.program, "[0.0]") if "At a bound" in trap.sentence else trap
        for trap in formula.traps
    )
    strict = formula.gradients["self"].replace(">=", ">").replace("<=", "<")
    return {"gradients": {"self": strict}, "traps": traps}


def _bounds_share(_: PlainFormula) -> dict[str, object]:
    return {
        "gradients": {
            "self": f"grad * (({_INSIDE}) + ({_AT_LOW}) / 2 + ({_AT_HIGH}) / 2)",
            "min": f"grad * (({_BELOW}) + ({_AT_LOW}) / 2)",
            "max": f"grad * (({_ABOVE}) + ({_AT_HIGH}) / 2)",
        }
    }


def _bound_shares(bound: str, inside: str, outside: str) -> Callable[[PlainFormula], dict[str, object]]:
    def change(_: PlainFormula) -> dict[str, object]:
        tie = f"(self == {bound}) / 2"
        return {
            "gradients": {
                "self": f"grad * ((self {inside} {bound}) + {tie})",
                bound: f"grad * ((self {outside} {bound}) + {tie})",
            }
        }

    return change


_CHANGES: Mapping[str, tuple[str, str, Callable[[PlainFormula], dict[str, object]]]] = {
    "ClampMinBackward0": ("clamp_min(", "self > min", _none_at_bounds),
    "ClampMaxBackward0": ("clamp_max(", "self < max", _none_at_bounds),
    # torch writes these two in C++; they were changed together with the others.
    "ClampBackward1": ("clamp_min(", "self > min", _none_at_bounds),
    "ClampBackward0": ("clamp_min.Tensor(", _IN_HALVES, _bounds_share),
    "ClampMinBackward1": ("clamp_min.Tensor(", _IN_HALVES, _bound_shares("min", ">", "<")),
    "ClampMaxBackward1": ("clamp_max.Tensor(", _IN_HALVES, _bound_shares("max", "<", ">")),
}
"""By node: the function and the words in its entry that tell it, and what they change."""


def _in_halves(formula: PlainFormula, wins: str, *, tells_numbers_from_nan: bool) -> PlainFormula:
    loses = "<" if wins == ">" else ">"
    tie = "(self == other) / 2"
    if tells_numbers_from_nan:
        gradients = {
            "self": f"grad * ((self {wins} other) | torch.isnan(other)) + grad * {tie}",
            "other": f"grad * ~((self {wins} other) | (self == other) | torch.isnan(other)) + grad * {tie}",
        }
    else:
        gradients = {
            "self": f"grad * ~((self {loses} other) | (self == other)) + grad * {tie}",
            "other": f"grad * ~((self {wins} other) | (self == other)) + grad * {tie}",
        }
    (trap,) = formula.traps
    shared = replace(trap, sentence="Where both are equal, each gets half.", shows="[0.5]")
    return replace(formula, gradients=gradients, traps=(shared,))
