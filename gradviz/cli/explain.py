"""``gradviz explain``: shows how torch computes the gradient of an operation, and what it computed at one node."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from gradviz.cli.options.shared import GroupedCommand, optional_recording_options, terminal_options

if TYPE_CHECKING:
    from gradviz.analysis.explain.explanation import Explanation
    from gradviz.analysis.rule import Rule
    from gradviz.cli.captures.source import SourceOptions
    from gradviz.cli.terminal.terminal import Terminal
    from gradviz.errors import GradvizError
    from gradviz.formulas.available_formulas import KnownFormulas

MIN_WIDTH = 40


@click.command("explain", cls=GroupedCommand)
@click.argument("what", required=False, metavar="WHAT")
@optional_recording_options
@click.option(
    "--gradcheck",
    is_flag=True,
    help="For a custom function: run SCRIPT to its end, and compare its backward with finite differences.",
)
@click.option("--format", metavar="text|json", default="text", show_default=True, help="json is for programs.")
@terminal_options(min_width=MIN_WIDTH)
def explain_command(what: str | None, words: tuple[str, ...], **options: Any) -> int:
    """Show how torch computes the gradient of WHAT: the formulas that torch itself uses.

    WHAT is a node (MulBackward0), a function (mul, torch.softmax, F.linear), a module of torch (nn.GELU) or a rule of
    `gradviz check` (GV101). With a SCRIPT or RECORDING, WHAT is any name of a node in its graph, and the formula is
    shown with the numbers of that node. The numbers of small tensors are recorded for it.
    """
    from gradviz.cli.terminal.paging import show
    from gradviz.cli.terminal.terminal import standard_output

    name = _checked(what, words, options["format"])
    terminal = standard_output(options["color"])
    if not words and options["module"] is None:
        _check_that_nothing_is_to_run()
        show(_general(name, options, terminal), terminal, use_pager=not options["no_pager"])
        return 0
    return _of_a_graph(name, _source_choice(words, options), options, terminal)


def _checked(what: str | None, words: tuple[str, ...], format_name: str) -> str:
    from gradviz.errors import BadInput, check_choice

    check_choice("format", format_name, ("text", "json"))
    if not what or not what.strip():
        raise BadInput("nothing to explain", hint="name a node, a function or a rule: gradviz explain MulBackward0")
    if what.endswith((".py", ".gradviz")):
        swapped = f"gradviz explain {words[0] if words else 'WHAT'} {what}"
        raise BadInput(f"nothing to explain in {what}", hint=f"name a node first: {swapped}")
    return what


def _general(name: str, options: dict[str, Any], terminal: Terminal) -> str:
    """The explanation of a name without any program."""
    from gradviz.analysis.explain.explanation import explain
    from gradviz.cli.rules import rule_text
    from gradviz.cli.terminal.progress import working
    from gradviz.errors import BadInput
    from gradviz.formulas import known_formulas
    from gradviz.formulas.word_lookup import meaning_of

    rules = _rules_named(name)
    with working("reading torch's formulas"):
        known = known_formulas()
    meaning = None if rules else meaning_of(name, known)
    if meaning is not None:
        return _explanation_text(explain(meaning, known), options, terminal)
    rules = rules or _rules_named(name, also_by_name=True)
    if not rules:
        raise _unknown(name, known)
    if options["format"] == "json":
        raise BadInput(f"the documentation of a rule ({name}) is text", hint="leave out --format json")
    return "\n".join(map(rule_text, rules))


def _rules_named(name: str, *, also_by_name: bool = False) -> list[type[Rule]]:
    """The rules with this code, or, if wanted, with this name; as in `gradviz rules`."""
    from gradviz.analysis.check.checker import named_rules
    from gradviz.analysis.check.installed_rules import all_rules

    known = all_rules().rules
    if re.fullmatch(r"GV\d+", name, re.IGNORECASE):
        return named_rules(known, [name.upper()])
    return [rule for rule in known if also_by_name and rule.name == name]


def _unknown(name: str, known: KnownFormulas) -> GradvizError:
    """The error for an unknown name, with near matches."""
    from gradviz.analysis.check.checker import rule_names
    from gradviz.analysis.check.installed_rules import all_rules
    from gradviz.errors import BadInput, near_matches
    from gradviz.formulas.word_lookup import known_words

    words = [*known_words(known), *rule_names(all_rules().rules)]
    near = near_matches(name.rpartition(".")[2] or name, words)
    of_a_graph = f"for a node of a graph, name its script: gradviz explain {name} SCRIPT"
    is_near = near.startswith("did you mean") and not name.startswith("node:")
    return BadInput(f"nothing to explain is called {name!r}", hint=f"{near} ({of_a_graph})" if is_near else of_a_graph)


def _explanation_text(explanation: Explanation, options: dict[str, Any], terminal: Terminal) -> str:
    from gradviz.rendering.reports.explanation_json import explanation_json
    from gradviz.rendering.reports.explanation_text import ExplanationText

    if options["format"] == "json":
        return explanation_json(explanation)
    return ExplanationText(terminal.text_width(options["width"], MIN_WIDTH), terminal.has_colors).text(explanation)


def _check_that_nothing_is_to_run() -> None:
    from gradviz.errors import BadInput

    context = click.get_current_context()
    for name in ("backward", "keep_going", "root", "gradients", "values", "values_up_to", "inside", "gradcheck"):
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            option = name.replace("_", "-") if name != "gradients" else "no-gradients"
            raise BadInput(f"--{option} needs a script to run", hint="gradviz explain WHAT SCRIPT")


def _source_choice(words: tuple[str, ...], options: dict[str, Any]) -> SourceOptions:
    """Record values, which are shown; for finite differences, also every torch call."""
    from gradviz.cli.captures.views import source_options
    from gradviz.cli.options.settings import CheckSettings
    from gradviz.errors import BadInput
    from gradviz.recording.run.recording_plan import RunLimits

    choice = source_options(options | {"words": words})
    if choice.is_capture:
        if options["gradcheck"]:
            raise BadInput(f"--gradcheck needs a script to run; {choice.name} is a recording")
        return choice
    choice = replace(choice, values=True)
    if not options["gradcheck"]:
        return choice
    return replace(choice, calls=True, keep_going=True, limits=RunLimits(CheckSettings.seconds))


def _of_a_graph(name: str, choice: SourceOptions, options: dict[str, Any], terminal: Terminal) -> int:
    """Explain a node of a graph, with its numbers."""
    import msgspec

    from gradviz.analysis.explain.node_explanation import explain_in_graph
    from gradviz.cli.captures.kept_recording import keeping_recording
    from gradviz.cli.captures.source import open_source, report_early_stop
    from gradviz.cli.terminal.paging import show
    from gradviz.cli.terminal.progress import working
    from gradviz.formulas import known_formulas

    source = open_source(choice, own_output=True)
    with keeping_recording(source, choice):
        with working("reading torch's formulas"):
            known = known_formulas()
        explanation = explain_in_graph(source.capture, source.graphs, name, known)
        if options["gradcheck"] and explanation.custom is None:
            note = f"--gradcheck compares custom functions; {explanation.node} is a function of torch"
            explanation = msgspec.structs.replace(explanation, disclosures=(*explanation.disclosures, note))
        show(_explanation_text(explanation, options, terminal), terminal, use_pager=not options["no_pager"])
    report_early_stop(source, choice)
    return source.exit_code
