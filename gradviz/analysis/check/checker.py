"""Runs rules over a capture, and sorts what they find."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from gradviz.analysis.case import Case
from gradviz.analysis.finding import SEVERITIES, Finding, Location, Severity
from gradviz.analysis.rule import Rule, is_called
from gradviz.collector import collector_paused
from gradviz.errors import BadInput, near_matches

NO_RULE = "GV000"
"""Code of notes that no rule makes: on a rule that failed, or that does not exist."""


class SkippedRule(Struct, frozen=True):
    """A rule that did not run, because the torch of the recording does not show what the rule needs."""

    code: str
    cause: str
    reason: str
    """``custom functions are not seen``."""


class CheckResult(Struct, frozen=True):
    """The result of a check."""

    findings: tuple[Finding, ...]
    """The most severe first; then those of rules that name a mistake, then those that `Rule.comes_later` or
    `Rule.is_last_resort` puts behind them; ties in the order of the rules."""
    rules: tuple[str, ...]
    """Codes of the rules that ran to the end."""
    not_looked_for: tuple[SkippedRule, ...] = ()
    """Rules that should have run but could not."""


def named_rules(rules: Iterable[type[Rule]], words: Sequence[str]) -> list[type[Rule]]:
    """The rules with these names, codes, or starts of codes; all rules if there are no words.

    Raises `BadInput` for a word that matches no rule.
    """
    known = list(rules)
    for word in words:
        if not any(is_called(rule.code, rule.name, word) for rule in known):
            raise BadInput(f"no rule {word!r}", hint=near_matches(word, rule_names(known)))
    return [rule for rule in known if not words or any(is_called(rule.code, rule.name, word) for word in words)]


def rule_names(rules: Iterable[type[Rule]]) -> list[str]:
    """The codes and names of these rules."""
    return [name for rule in rules for name in (rule.code, rule.name)]


def chosen_rules(
    rules: Iterable[type[Rule]], select: Sequence[str], ignore: Sequence[str], requested: Iterable[type[Rule]] = ()
) -> list[type[Rule]]:
    """The selected rules (all, if none is selected) and the `requested` ones, without the ignored ones.

    Raises `BadInput` for a word that matches no rule, or that selects a rule that only runs on request.
    """
    known = list(rules)
    chosen = [*(rule for rule in named_rules(known, select) if not rule.requested_by), *requested]
    codes = {rule.code for rule in chosen}
    for rule in known:
        if rule.code not in codes and (rule.code in select or rule.name in select):
            raise BadInput(f"{rule.code} ({rule.name}) only runs on request", hint=f"{rule.requested_by} asks for it")
    left_out = {rule.code for rule in named_rules(known, ignore)} if ignore else set()
    return [rule for rule in chosen if rule.code not in left_out]


def check_case(case: Case, rules: Iterable[type[Rule]]) -> CheckResult:
    """Run the rules on a case. A rule that fails is reported, and the other rules still run."""
    with collector_paused():  # the indexes of a log are a million objects, none of them garbage
        return _checked(case, rules)


def _checked(case: Case, rules: Iterable[type[Rule]]) -> CheckResult:
    findings: list[Finding] = []
    completed: list[type[Rule]] = []
    skipped: list[SkippedRule] = []
    for rule in rules:
        reason = _why_not(rule, case)
        if reason is not None:
            skipped.append(SkippedRule(rule.code, rule.name, reason))
            continue
        try:
            found = list(rule().check(case))
        except Exception as defect:
            findings.append(failed_rule(rule, defect))
        else:
            findings += found
            completed.append(rule)
    kept = _merged(_without_explained(findings, completed, _first_names(case))) if findings else []
    if len(kept) > 1:
        kept.sort(key=_order_of(completed))
    return CheckResult(tuple(kept), tuple(rule.code for rule in completed), tuple(skipped))


def _order_of(rules: Iterable[type[Rule]]) -> Callable[[Finding], tuple[int, int]]:
    """The only place that decides which finding a user reads first."""
    places = {rule.code: 2 if rule.is_last_resort else 1 if rule.comes_later else 0 for rule in rules}
    return lambda finding: (SEVERITIES.index(finding.severity), places.get(finding.code, 0))


def _why_not(rule: type[Rule], case: Case) -> str | None:
    missing = case.capture.missing
    if not missing:  # nearly always, and asked for each of hundreds of rules
        return None
    return next((missing[name] for name in rule.needs if name in missing), None)


def failed_rule(rule: type[Rule], defect: Exception) -> Finding:
    """A note that a rule raised `defect`."""
    return Finding(
        code=NO_RULE,
        cause="failed_rule",
        severity="note",
        message=f"rule {rule.code} ({rule.name}) of {rule.__module__} failed: {type(defect).__name__}: {defect}",
        fix="the other rules ran; please report this to the author of the rule",
    )


def _first_names(case: Case) -> dict[str, str]:
    """By each dotted name of a parameter, its first one: rules that read graphs may know it by another one."""
    log = case.dataflow.log
    tensors = (log.tensors[number] for number in log.parameters)
    names = {name: tensor.names[0] for tensor in tensors for name in tensor.names if "." in name}
    return {name: _before_reparametrization(first, names) for name, first in names.items()}


def _before_reparametrization(name: str, known: Container[str]) -> str:
    """The name that a weight had before ``weight_norm`` and the like made other parameters of it: a finding about one
    of the two explains a finding about the other."""
    found = _REPARAMETRIZED.search(name)
    if found is None or (found["factor"] and name[:-1] + _OTHER_FACTOR[found["factor"]] not in known):
        return name
    return name[: found.start()] + (found["new"] or found["old"])


_REPARAMETRIZED = re.compile(r"(?:parametrizations\.(?P<new>\w+)\.original\d*|(?P<old>\w+)_(?:(?P<factor>[gv])|orig))$")
_OTHER_FACTOR = {"g": "v", "v": "g"}


def _without_explained(
    findings: Sequence[Finding], rules: Iterable[type[Rule]], first_names: Mapping[str, str]
) -> list[Finding]:
    """Leaves out a rule's finding if a rule that it yields to reports the same tensors, or at the same line."""
    known = list(rules)
    explained: dict[str, set[object]] = {}
    tensors = [tuple(first_names.get(name, name) for name in finding.tensors) for finding in findings]
    for finding, names in zip(findings, tensors, strict=True):
        explained.setdefault(finding.cause, set()).update(names, _lines_explained(finding))
    last = {rule.code for rule in known if rule.is_last_resort}
    repeating = {rule.code for rule in known if rule.only_repeats_error}
    others = [finding for finding in findings if finding.code not in last | repeating]
    causes = tuple(finding.cause for finding in others)
    deeper = {rule.code: (*rule.yields_to, *(causes if rule.code in last | repeating else ())) for rule in known}
    general = {rule.code for rule in known if rule.is_general}
    is_told = any(finding.is_alarm and not finding.tensors for finding in others)
    is_error_told = any(finding.is_alarm and finding.symptom == "raises" for finding in others)
    return [
        finding
        for finding, names in zip(findings, tensors, strict=True)
        if not (is_told and finding.code in last)
        and not (is_error_told and finding.code in repeating)
        and not _is_told_precisely(finding, findings, general)
        and not any(
            explained.get(name, set()).intersection((*names, (finding.severity, finding.location)))
            for name in deeper.get(finding.code, ())
        )
    ]


def _is_told_precisely(finding: Finding, findings: Iterable[Finding], general: Container[str]) -> bool:
    """Whether a rule with more precise words joins the same two lines."""
    if finding.code not in general or finding.location is None or finding.symptom_location is None:
        return False
    lines, tensors = {finding.location, finding.symptom_location}, {*finding.tensors}
    return any(
        other.is_alarm
        and other.code not in general
        and {other.location, other.symptom_location} == lines
        and not tensors.isdisjoint(other.tensors)
        for other in findings
    )


def _lines_explained(finding: Finding) -> Iterator[tuple[Severity, Location]]:
    """The line of a finding, and that where it shows, with each severity of what it explains there."""
    lines = [each for each in (finding.location, finding.symptom_location) if each is not None]
    yield from ((severity, line) for line in lines for severity in SEVERITIES[SEVERITIES.index(finding.severity) :])


_NUMBER = re.compile(r"(?<!line )(?<![\w.])\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?(?![\w.])")
"""Not a digit in a name, and not a line."""


def _merged(findings: Iterable[Finding]) -> list[Finding]:
    """One finding in place of several that say the same of one line: it may run for several modules, and for several
    callers, then often with other counts."""
    alike: dict[tuple[object, ...], list[Finding]] = {}
    for finding in findings:
        message = finding.message if finding.tensors else _NUMBER.sub("0", finding.message)
        says = (finding.code, finding.severity, message, finding.location, finding.symptom_location, finding.fix)
        is_alone = finding.location is None or finding.cut is not None
        alike.setdefault((len(alike),) if is_alone else says, []).append(finding)
    return [
        replace(
            group[0],
            tensors=tuple(dict.fromkeys(name for each in group for name in each.tensors)),
            nodes=tuple(dict.fromkeys(node for each in group for node in each.nodes)),
        )
        for group in alike.values()
    ]
