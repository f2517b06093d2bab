"""Opens a source and marks findings on its graphs: for ``--check``, and for captures that a check has written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from gradviz.cli.captures.source import Source, SourceOptions, open_source, selected
from gradviz.cli.options.settings import check_settings
from gradviz.cli.terminal.progress import working
from gradviz.errors import BadInput
from gradviz.graph.number_words import counted
from gradviz.graph.query.root_names import why_it_did_not_begin
from gradviz.recording.run.recording_plan import RunLimits

if TYPE_CHECKING:
    from gradviz.analysis.check.installed_rules import RuleSet
    from gradviz.analysis.rule import Rule
    from gradviz.cli.options.settings import CheckSettings


def open_for_drawing(options: SourceOptions, *, own_output: bool = False) -> Source:
    """Open a source, with findings on its graphs if ``--check`` is given or a check wrote the capture.

    Raises `BadInput`, before the program runs, if it cannot be checked.
    """
    if not options.check:
        return _for_drawing(open_source(options, own_output=own_output), options, None)
    _check_that_nothing_is_left_out(options)
    settings = check_settings({}, Path.cwd())
    source = open_source(options_for_check(options, settings), own_output=own_output)
    return _for_drawing(source, options, rules_of(settings))


def sources_of_ranks(source: Source, options: SourceOptions) -> Iterator[Source]:
    """The source, ready to be drawn, once for each rank of a job that ran now, unless the user asked for one."""
    job = source.job
    if job is None or options.rank is not None or len(job.ranks) < 2:
        yield source
        return
    rules = rules_of(check_settings({}, Path.cwd())) if options.check else None
    yield source
    for capture in list(job.captures())[1:]:
        yield _for_drawing(replace(source, capture=capture, graphs=capture.graphs), options, rules)


def _for_drawing(source: Source, options: SourceOptions, rules: RuleSet | None) -> Source:
    """Mark findings if `rules` are given or a check wrote the capture."""
    if rules is None:
        if options.check is False or source.capture.calls is None:
            return _with_advice_to_check(source, options)
        rules = rules_of(check_settings({}, Path.cwd()))
    return _chosen(_marked(source, rules), options)


def _with_advice_to_check(source: Source, options: SourceOptions) -> Source:
    """If torch refused the backward call, add a note: the graph shows a root without history, but not the cause."""
    why = next(filter(None, map(why_it_did_not_begin, source.graphs)), None)
    if why is None:
        return source
    can_be_checked = source.capture.calls is not None or not options.is_capture
    remedy = "--check" if can_be_checked else "a check of the script itself"
    return replace(source, notes=(*source.notes, f"{why}; {remedy} shows where its history was cut"))


def options_for_check(options: SourceOptions, settings: CheckSettings) -> SourceOptions:
    """Record every backward call and every torch call, to the script's end or a limit; of a capture, use all graphs."""
    if options.is_capture:
        return replace(options, backward="all")
    limits = RunLimits(settings.seconds, settings.steps)
    return replace(options, backward="all", keep_going=True, calls=True, limits=limits)


def _check_that_nothing_is_left_out(options: SourceOptions) -> None:
    for name, is_given in (("--root", options.root is not None), ("--no-gradients", not options.gradients)):
        if is_given:
            raise BadInput(f"{name} and --check exclude each other", hint="a check needs the gradients of backward()")


def _marked(source: Source, rules: RuleSet) -> Source:
    from gradviz.check_result import marked

    with working("checking"):
        capture, notes = marked(source.capture, rules)
    return replace(source, capture=capture, graphs=capture.graphs, notes=notes)


def _chosen(source: Source, options: SourceOptions) -> Source:
    """The graphs that the options select; if they select none, only the first in which a finding has a node.

    A check records every backward call, and nobody wants a picture of each.
    """
    if options.backward is not None:
        return selected(source, options)
    from gradviz.analysis.check.marked_findings import first_graph_with_alarm

    graph = source.graphs[first_graph_with_alarm(source.capture)]
    others = len(source.graphs) - 1
    are = "is" if others == 1 else "are"
    note = (
        f"{counted(others, 'more backward call')} {are} recorded (--backward N draws one of them, --backward all each)"
    )
    return replace(source, graphs=(graph,), notes=(*source.notes, note) if others else source.notes)


def rules_of(settings: CheckSettings) -> RuleSet:
    """The rules of these settings, and a finding for each installed rule that cannot run."""
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
