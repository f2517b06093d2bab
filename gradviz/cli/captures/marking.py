"""What a check finds, marked on the graphs that a command draws: ``--check``, and captures that a check has made."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from gradviz.cli.captures.source import Source, SourceOptions, open_source, selected
from gradviz.cli.options.settings import check_settings
from gradviz.cli.terminal.progress import working
from gradviz.errors import BadInput
from gradviz.graph.query.root_names import why_it_did_not_begin
from gradviz.graph.words import counted
from gradviz.recording.run.plan import RunLimits

if TYPE_CHECKING:
    from gradviz.analysis.check.installed_rules import RuleSet
    from gradviz.analysis.rule import Rule
    from gradviz.cli.options.settings import CheckSettings


def open_to_draw(options: SourceOptions, *, own_output: bool = False) -> Source:
    """Open a source; findings stand on its graphs where ``--check`` asks for them, or a check made the capture.

    Raises `BadInput` before the program runs where it cannot be checked.
    """
    if not options.check:
        source = open_source(options, own_output=own_output)
        if options.check is False or source.capture.calls is None:
            return _told_what_a_check_shows(source, options)
        return selected(_marked(source, rules_of(check_settings({}, Path.cwd()))), options)
    _check_that_nothing_is_left_out(options)
    settings = check_settings({}, Path.cwd())
    rules = rules_of(settings)
    source = _marked(open_source(as_check_runs_it(options, settings), own_output=own_output), rules)
    return _with_its_graph(source) if options.backward is None else selected(source, options)


def _told_what_a_check_shows(source: Source, options: SourceOptions) -> Source:
    """Where a graph is that of a refused call, the picture shows that nothing leads back from its root, but not why."""
    why = next(filter(None, map(why_it_did_not_begin, source.graphs)), None)
    if why is None:
        return source
    can_be_checked = source.capture.calls is not None or not options.is_capture
    remedy = "--check" if can_be_checked else "a check of the script itself"
    return replace(source, notes=(*source.notes, f"{why}; {remedy} shows where its way back was cut"))


def as_check_runs_it(options: SourceOptions, settings: CheckSettings) -> SourceOptions:
    """Every backward call and every torch call is recorded, until the script's end or a limit; of a capture, all."""
    if options.is_capture:
        return replace(options, backward="all")
    limits = RunLimits(settings.seconds, settings.steps)
    return replace(options, backward="all", keep_going=True, calls=True, limits=limits)


def _check_that_nothing_is_left_out(options: SourceOptions) -> None:
    for name, is_given in (("--root", options.root is not None), ("--no-gradients", not options.gradients)):
        if is_given:
            raise BadInput(f"{name} and --check exclude each other", hint="a check looks at what backward() sends")


def _marked(source: Source, rules: RuleSet) -> Source:
    from gradviz.checked import marked

    with working("checking"):
        capture, notes = marked(source.capture, rules)
    return replace(source, capture=capture, graphs=capture.graphs, notes=notes)


def _with_its_graph(source: Source) -> Source:
    """The one that shows most of what was found, as nobody asked for another."""
    from gradviz.analysis.check.marked_findings import first_graph_with_alarm

    graph = source.graphs[first_graph_with_alarm(source.capture)]
    others = len(source.graphs) - 1
    are = "is" if others == 1 else "are"
    note = f"{counted(others, 'more backward call')} {are} recorded (--backward N draws one of them)"
    return replace(source, graphs=(graph,), notes=(*source.notes, note) if others else source.notes)


def rules_of(settings: CheckSettings) -> RuleSet:
    """The rules that run under these settings, and a finding on each installed one that cannot."""
    from gradviz.analysis.check.checker import chosen_rules
    from gradviz.analysis.check.installed_rules import RuleSet, all_rules
    from gradviz.analysis.rules.cost.saved_memory import saved_memory_above
    from gradviz.analysis.rules.parameters.parameter_without_gradient import ParameterWithoutGradient

    requested: list[type[Rule]] = []
    if settings.all_params_get_grad:
        requested.append(ParameterWithoutGradient)
    if settings.saved_limit is not None:
        requested.append(saved_memory_above(settings.saved_limit))
    known = all_rules()
    return RuleSet(tuple(chosen_rules(known.rules, settings.select, settings.ignore, requested)), known.unusable)
