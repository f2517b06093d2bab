"""``gradviz rules``: lists what ``gradviz check`` looks for, and prints the documentation of a rule."""

from __future__ import annotations

from collections.abc import Iterable
from textwrap import indent, wrap
from typing import TYPE_CHECKING, Any

import click

from gradviz.cli.options.shared import GroupedCommand, terminal_options

if TYPE_CHECKING:
    from gradviz.analysis.rule import Rule

_CODE_SECTIONS = ("Example", "Instead")
_INDENT = " " * 9


@click.command("rules", cls=GroupedCommand)
@terminal_options(min_width=40)
@click.argument("words", nargs=-1, metavar="[RULE]...")
def rules_command(words: tuple[str, ...], no_pager: bool, **options: Any) -> int:
    """List the rules of `gradviz check`. With RULE (GV101, GV1 or a name), print its documentation."""
    from gradviz.analysis.check.checker import named_rules
    from gradviz.analysis.check.installed_rules import all_rules
    from gradviz.cli.terminal.paging import show
    from gradviz.cli.terminal.terminal import standard_output

    terminal = standard_output(options["color"])
    known = all_rules()
    rules = named_rules(known.rules, words)
    text = "\n".join(map(rule_text, rules)) if words else _table(rules, terminal.text_width(options["width"], 40))
    for finding in known.unusable:
        text += f"\n{finding.message}\n"
    show(text, terminal, use_pager=not no_pager)
    return 0


def _table(rules: Iterable[type[Rule]], width: int) -> str:
    from gradviz.analysis.rule import family_of

    lines: list[str] = []
    family = None
    for rule in rules:
        if family_of(rule.code) != family:
            family = family_of(rule.code)
            lines += [""] * bool(lines) + [" ".join(family)]
        title = f"{rule.code}  {rule.name} {_severity(rule)}"
        lines += wrap(title, width, initial_indent="  ", subsequent_indent=_INDENT, break_on_hyphens=False)
        lines += wrap(rule.headline(), width, initial_indent=_INDENT, subsequent_indent=_INDENT)
    return "\n".join(lines) + "\n"


def _severity(rule: type[Rule]) -> str:
    return f"({rule.severity}, only with {rule.requested_by})" if rule.requested_by else f"({rule.severity})"


def rule_text(rule: type[Rule]) -> str:
    """The documentation of a rule: what it finds, why that matters, an example, and what to write instead."""
    parts = [f"{rule.code} {rule.name} {_severity(rule)}", rule.headline()]
    for title, body in rule.documentation().items():
        parts.append(f"{title}\n{indent(body, '    ' if title in _CODE_SECTIONS else '')}")
    return "\n\n".join(parts) + "\n"
