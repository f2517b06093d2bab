"""Run logs of `gradviz.watch` in ``gradviz flow``: the last step as a table; all steps as table, picture or data."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gradviz.capture.job_file import named_capture
from gradviz.capture.run_log_file import is_run_log, load_run_log
from gradviz.cli.terminal.progress import working
from gradviz.errors import BadInput, NothingRecorded

if TYPE_CHECKING:
    from gradviz.capture.run_log import RunLog
    from gradviz.cli.captures.source import SourceOptions
    from gradviz.rendering.reports.terminal_tables import TableLook


@dataclass(frozen=True)
class RunLogOptions:
    """The options that are for run logs only."""

    over_steps: bool = False
    output: str | None = None
    to_tensorboard: str | None = None

    def refuse(self, source: SourceOptions) -> None:
        """Raise `BadInput` if one of these options is given for `source`, a script or a capture."""
        if not (self.over_steps or self.to_tensorboard):
            return
        if source.file is not None and source.is_capture:
            named_capture(source.name)  # raises if it is damaged or empty
        elif source.file is not None and not source.file.exists():
            raise BadInput(f"no such run log: {source.name}", hint="gradviz.watch(model) in a script writes one")
        kind = "a recording of single backward calls" if source.is_capture else "a script"
        remedy = "gradviz.watch(model) in the script writes one"
        for name, is_given in (("--over-steps", self.over_steps), ("--to-tensorboard", bool(self.to_tensorboard))):
            if is_given:
                raise BadInput(f"{name} needs a run log, and {source.name} is {kind}", hint=remedy)


def is_run_log_file(source: SourceOptions) -> bool:
    """Whether the source is a file that `gradviz.watch` wrote."""
    start = source.start_of_file
    return start is not None and is_run_log(start)


def show_run_log(source: SourceOptions, options: RunLogOptions, look: TableLook, *, as_json: bool) -> str:
    """Write the files that the options ask for, and return the text for standard output."""
    _check(source, options, as_json=as_json)
    assert source.file is not None, "a run log is a file"
    with working(f"reading {source.name}"):
        log = load_run_log(source.file)
    if not log.steps:
        raise NothingRecorded(f"{source.name} has no steps", hint="the program ended before its first step did")
    if options.to_tensorboard is not None:
        return _exported(log, options.to_tensorboard)
    if options.output is not None:
        return _drawn(log, options.output, look)
    if as_json:
        return _json(log)
    return _all_steps(log, look) if options.over_steps else _last_step(log, look, source.name)


def _check(source: SourceOptions, options: RunLogOptions, *, as_json: bool) -> None:
    from gradviz.file_output import check_outputs

    for name, is_given in (
        ("--backward", source.backward is not None),
        ("--keep-going", source.keep_going),
        ("--values", bool(source.values)),
        ("--values-up-to", source.values_up_to is not None),
        ("--root-shares", source.root_shares),
        ("--inside", source.inside),
    ):
        if is_given:
            raise BadInput(f"{name} needs a script or a recording; {source.name} is a run log")
    if source.arguments:
        raise BadInput(f"unexpected {source.arguments[0]!r}: {source.name} is a run log and is not run")
    if options.to_tensorboard is not None and (options.over_steps or options.output is not None or as_json):
        raise BadInput("--to-tensorboard cannot be combined with other outputs", hint="leave out the other options")
    if not options.over_steps and (options.output is not None or as_json):
        raise BadInput(f"{'-o' if options.output is not None else '--json'} of a run log needs --over-steps")
    if options.output is not None:
        if as_json:
            raise BadInput("-o and --json exclude each other", hint="-o draws a picture, --json prints figures")
        if Path(options.output).suffix.lower() != ".svg":
            raise BadInput(f"{options.output!r} does not end in .svg", hint="a run log is drawn as .svg")
        check_outputs([options.output], inputs=source.inputs)


def _drawn(log: RunLog, path: str, look: TableLook) -> str:
    from gradviz.file_output import write_output
    from gradviz.rendering.svg.flow_chart import FlowChartRenderer
    from gradviz.rendering.words.common_words import counted

    with working(f"drawing {path}"):
        picture = FlowChartRenderer(depth=look.depth, show_all=look.show_all).render(log)
    write_output(path, picture)
    return f"wrote {path}: {counted(len(log.steps), 'measured step')} of {log.header.program.name}\n"


def _exported(log: RunLog, folder: str) -> str:
    from gradviz.recording.watch.tensorboard import export_to_tensorboard
    from gradviz.rendering.words.common_words import counted

    with working(f"writing to {folder}"):
        export_to_tensorboard(log, Path(folder))
    return f"wrote {counted(len(log.steps), 'measured step')} to {folder}\nnext:  tensorboard --logdir {folder}\n"


def _last_step(log: RunLog, look: TableLook, name: str) -> str:
    from gradviz.analysis.flow.flow_over_steps import flow_of_last_step
    from gradviz.rendering.reports.flow_table import FlowContent, FlowTable, silent_remarks
    from gradviz.rendering.words.run_log_words import what_is_missing

    flow = flow_of_last_step(log)
    title = f"gradients of step {log.steps[-1].step:,} of {log.header.program.name}"
    missing = ((sentence, "yellow") for sentence in what_is_missing(log))
    text = FlowTable(look).text_of(FlowContent(title, flow, (*silent_remarks(flow), *missing)))
    if len(log.steps) == 1:
        return text
    return f"{text}next:  gradviz flow {name} --over-steps   shows all {len(log.steps):,} measured steps\n"


def _all_steps(log: RunLog, look: TableLook) -> str:
    from gradviz.rendering.reports.steps_table import StepsTable

    return StepsTable(look).text(log)


def _json(log: RunLog) -> str:
    from dataclasses import asdict

    from gradviz.analysis.flow.flow_over_steps import flow_over_steps
    from gradviz.capture.encoding import json_text
    from gradviz.rendering.words.run_log_words import what_is_missing

    flow = flow_over_steps(log)
    document = {
        "schema": "gradviz flow over steps",
        "version": 1,
        "program": log.header.program,
        "every": log.header.every,
        "disclosures": tuple(what_is_missing(log)),
        "steps": flow.steps,
        "norm": flow.total,
        # JSON has no NaN; it is written as null.
        "parameters": [asdict(series) for series in flow.series],
    }
    return json_text(document)
