"""Rules of other packages: entry points of the group ``gradviz.rules``.

Such an entry point names a `Rule`, or a list or tuple of rules. One that cannot be used is reported, and the others
run.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from importlib.metadata import EntryPoint, entry_points

from msgspec import Struct

from gradviz.analysis.check.checker import NO_RULE
from gradviz.analysis.finding import SEVERITIES, Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules import ON_REQUEST, RULES

GROUP = "gradviz.rules"


class RuleSet(Struct, frozen=True):
    """All available rules."""

    rules: tuple[type[Rule], ...]
    """gradviz's own, then those of other packages in the order of their codes."""
    unusable: tuple[Finding, ...] = ()
    """A note for each entry point that could not be used."""


@cache
def all_rules() -> RuleSet:
    """gradviz's own, including those on request, and those of installed packages."""
    return with_installed_rules(sorted((*RULES, *ON_REQUEST), key=lambda rule: rule.code))


def with_installed_rules(own: Iterable[type[Rule]], points: Iterable[EntryPoint] | None = None) -> RuleSet:
    """gradviz's rules and those of installed packages; of two with the same code or name only the first one counts."""
    rules = list(own)
    added: list[type[Rule]] = []
    unusable: list[Finding] = []
    for point in sorted(entry_points(group=GROUP) if points is None else points):
        try:
            for rule in _rules_of(point):
                _check(rule, [*rules, *added])
                added.append(rule)
        except Exception as defect:
            unusable.append(_told(point, defect))
    return RuleSet((*rules, *sorted(added, key=lambda rule: rule.code)), tuple(unusable))


def _rules_of(point: EntryPoint) -> Iterable[type[Rule]]:
    found = point.load()
    return found if isinstance(found, (list, tuple)) else (found,)


def _check(rule: object, known: Iterable[type[Rule]]) -> None:
    if not isinstance(rule, type) or not issubclass(rule, Rule):
        raise TypeError(f"{rule!r} is not a gradviz.analysis.rule.Rule")
    missing = [name for name in ("code", "name", "severity") if not isinstance(getattr(rule, name, None), str)]
    if missing:
        raise TypeError(f"{rule.__name__} has no {' and no '.join(missing)}")
    if rule.severity not in SEVERITIES:
        raise ValueError(f"{rule.__name__}: {rule.severity!r} is not a severity")
    for other in known:
        if rule.code == other.code or rule.name == other.name:
            raise ValueError(f"{rule.code} {rule.name} exists already, as {other.code} {other.name}")


def _told(point: EntryPoint, defect: Exception) -> Finding:
    package = f" of {point.dist.name}" if point.dist is not None else ""
    return Finding(
        code=NO_RULE,
        cause="failed_rule",
        severity="note",
        message=f"the rules {point.value}{package} cannot be used: {type(defect).__name__}: {defect}",
        fix="the other rules ran; please report this to the authors of these rules",
    )
