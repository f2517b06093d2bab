"""The result of a check: the findings, what was left out, and what was checked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import PurePath

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.check.baseline import Baseline, without_known
from gradviz.analysis.check.checker import SkippedRule, check_case, chosen_rules
from gradviz.analysis.check.installed_rules import all_rules
from gradviz.analysis.check.suppressions import on_unknown_words, without_suppressed
from gradviz.analysis.check.training_facts import TrainingFact, training_facts
from gradviz.analysis.dataflow.tensor_words import together
from gradviz.analysis.finding import Finding, Location, SourceText, is_at_least, text_at
from gradviz.analysis.parameters.parameter_outcomes import counted_outcomes
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.sources.own_files import files_in_parts, goes_over_names
from gradviz.capture.capture import Capture
from gradviz.graph.number_words import counted


class Report(Struct, frozen=True):
    """One checked run, ready to be shown. Every format shows this and nothing else."""

    program: str
    findings: tuple[Finding, ...]
    source: SourceText
    """Text of the lines that findings name, by file and line."""
    checked: tuple[str, ...]
    """What was checked, a few words each: ``148 parameters, all reached``."""
    trained: tuple[TrainingFact, ...] = ()
    """What was trained, to compare with what was meant; only where nothing worse than a note was found."""
    rules: tuple[str, ...] = ()
    """Codes of the rules that ran."""
    suppressed: int = 0
    """The number of findings that comments in the source suppress."""
    known: int = 0
    """The number of findings that the baseline contains."""
    disclosures: tuple[str, ...] = ()
    not_looked_for: tuple[SkippedRule, ...] = ()
    """Rules that could not run on the torch of the recording."""
    raised: str | None = None
    """The type of the exception that ended the program, if any."""
    exited_with_error: bool = False
    """Whether the program ended itself with an exit code of failure."""
    is_empty: bool = False
    """Whether there was nothing to check: no backward ran, and nothing was found."""
    hang: tuple[str, ...] = ()
    """Of a job in which no rank got on: where each rank stood, and why."""

    def line_at(self, location: Location | None) -> str:
        """The text of a line; empty if unknown."""
        return text_at(self.source, location)


def check_report(
    case: Case, rules: Iterable[type[Rule]], baseline: Baseline | None = None, besides: Iterable[Finding] = ()
) -> Report:
    """The findings of these rules and `besides`, except those that source comments or the baseline suppress."""
    capture = case.capture
    result = check_case(case, rules)
    shown, suppressed = without_suppressed(capture.sources, (*result.findings, *besides))
    known_rules = all_rules().rules
    shown += on_unknown_words(capture, known_rules)
    source = _source(capture, shown)
    known: list[Finding] = []
    if baseline is not None:
        shown, known = without_known(baseline, shown, source)
    is_quiet = not any(is_at_least(each.severity, "warning") for each in (*result.findings, *shown))
    trained = training_facts(case) if is_quiet and capture.error is None else ()
    skipped = [each.code for each in result.not_looked_for]
    checked = (*_what_was_checked(case), *_what_was_left_out(known_rules, (*result.rules, *skipped), len(skipped)))
    unseen = (*capture.disclosures, *_what_was_not_read(case))
    return Report(
        capture.program.name, tuple(shown), source, checked, trained, result.rules, len(suppressed), len(known),
        unseen, result.not_looked_for, None if capture.error is None else capture.error.type_name,
        capture.outcome == "failed" and capture.error is None,
        not (capture.backward_calls or case.measured_graphs or result.findings or capture.error),
    )  # fmt: skip


def skipped_rules_in_words(report: Report) -> tuple[str, ...]:
    """A line for each reason why rules could not run, with their codes."""
    by_reason: dict[str, list[str]] = {}
    for each in report.not_looked_for:
        by_reason.setdefault(each.reason, []).append(each.code)
    return tuple(f"{', '.join(codes)} ({reason})" for reason, codes in by_reason.items())


def _source(capture: Capture, findings: Iterable[Finding]) -> SourceText:
    locations = {
        location for each in findings for location in (each.location, each.symptom_location) if location is not None
    }
    source: SourceText = {}
    for location in sorted(locations):
        text = text_at(capture.sources, location)
        if text:
            source.setdefault(location.file, {})[location.line] = text
    return source


def _what_was_checked(case: Case) -> Iterable[str]:
    calls = case.capture.backward_calls
    if calls:
        kept = sum(graph.backward is not None for graph in case.graphs)
        recorded = f" ({kept:,} of them edge by edge)" if 0 < kept < calls else ""
        yield f"{counted(calls, 'backward call')}{recorded}"
    elif case.capture.error is None and not case.measured_graphs:
        yield "no backward() ran, so no gradient could be checked"
    parameters = counted_outcomes(case)
    if parameters and calls:
        yield parameters
    if not case.measured_graphs:
        return
    if not parameters:
        yield _rows_in_words(case)
    edges = sum(
        figures is not None and figures.is_measured
        for number in case.measured_graphs
        for node in case.graphs[number].nodes
        for figures in node.gradients
    )
    yield f"{edges:,} gradients measured"


def _what_was_not_read(case: Case) -> Iterable[str]:
    files = sorted({PurePath(file).name for file in files_in_parts(case)})
    if files:
        lines = f"the lines of {together(files)} far from those that ran"
        yield f"{lines}: rules that read whole files saw nothing there (GV735, GV770 to GV772)"
    if goes_over_names(case):
        count = len(case.program_source.left_out) + case.capture.imported_left_out
        if count:
            files_left_out = f"{counted(count, 'more file')} of the program"
            yield f"{files_left_out}: rules that follow names of parameters saw nothing there (GV741, GV976)"


def _what_was_left_out(known: Sequence[type[Rule]], ran: Sequence[str], skipped: int) -> Iterable[str]:
    usual = {rule.code for rule in chosen_rules(known, (), ())}
    if skipped or not usual.issubset(ran):
        yield f"{len(usual.intersection(ran)) - skipped:,} of {counted(len(usual), 'rule')} ran"


def _rows_in_words(case: Case) -> str:
    """For a capture without the calls of the run: the parameters of its last graph."""
    count = len(case.flow_of(case.measured_graphs[-1]).rows)
    silent = [row.name for row in case.rows_without_gradient]
    reached = f"{len(silent):,} without a gradient: {together(silent)}" if silent else "all reached"
    return f"{counted(count, 'parameter')}, {reached}"
