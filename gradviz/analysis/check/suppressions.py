"""Findings that a comment in the user's source suppresses: ``# gradviz: ignore[GV101]``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from gradviz.analysis.check.checker import NO_RULE, rule_names
from gradviz.analysis.finding import Finding, Location, SourceText, text_at
from gradviz.analysis.rule import Rule, is_called
from gradviz.capture.capture import Capture
from gradviz.errors import near_matches

_COMMENT = re.compile(r"#\s*gradviz:\s*ignore(?:\[([^\]]*)\])?")


def without_suppressed(sources: SourceText, findings: Iterable[Finding]) -> tuple[list[Finding], list[Finding]]:
    """The findings to show, and those that a comment on their line of cause or of symptom suppresses."""
    shown: list[Finding] = []
    hidden: list[Finding] = []
    for finding in findings:
        (hidden if _is_suppressed(sources, finding) else shown).append(finding)
    return shown, hidden


def _is_suppressed(sources: SourceText, finding: Finding) -> bool:
    return any(_says(text_at(sources, location), finding) for location in (finding.location, finding.symptom_location))


def _says(line: str, finding: Finding) -> bool:
    """Whether a line suppresses a finding. ``ignore`` alone suppresses all rules; brackets list codes or names."""
    found = _COMMENT.search(line)
    if found is None:
        return False
    return found[1] is None or any(is_called(finding.code, finding.cause, word) for word in _words(found[1]))


def _words(bracket: str) -> list[str]:
    return [word for part in bracket.split(",") if (word := part.strip())]


def on_unknown_words(capture: Capture, rules: Iterable[type[Rule]]) -> Iterator[Finding]:
    """A note on each word in such a comment that matches none of all `rules`, so that it suppresses nothing."""
    known = list(rules)
    for file, lines in capture.sources.items():
        for number, line in lines.items():
            found = _COMMENT.search(line) if "gradviz" in line else None
            for word in _words(found[1] or "") if found is not None else ():
                if not any(is_called(rule.code, rule.name, word) for rule in known):
                    yield Finding(
                        code=NO_RULE,
                        cause="unknown_rule",
                        severity="note",
                        message=f"the comment suppresses nothing: there is no rule {word!r}",
                        fix=near_matches(word, rule_names(known)),
                        location=Location(file, number),
                    )
