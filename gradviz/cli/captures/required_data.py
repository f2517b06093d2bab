"""Checks that a recording has the gradients or values that a command shows, and says how to record them."""

from __future__ import annotations

from gradviz.cli.captures.source import Source, SourceOptions
from gradviz.errors import BadInput, NothingRecorded
from gradviz.graph.query.root_names import why_it_did_not_begin


def check_columns_before_run(columns: str | None, options: SourceOptions) -> None:
    """Raise `BadInput` for columns that this run would not record."""
    wanted = _named(columns)
    if options.is_capture:
        return
    if "value" in wanted and not (options.values or options.values_up_to):
        raise BadInput("the column value shows what --values records", hint="add --values")
    if "gradient" in wanted and not options.gradients:
        raise BadInput("--no-gradients leaves the column gradient empty", hint="leave one of them out")


def check_columns(columns: str | None, source: Source, options: SourceOptions) -> None:
    """Raise `NothingRecorded` for columns that are not in the recording."""
    wanted = _named(columns)
    if "gradient" in wanted:
        check_gradients(source, options)
    if "value" in wanted and not any(node.values for graph in source.graphs for node in graph.nodes):
        raise NothingRecorded(
            f"{options.name} was recorded without values", hint="record it again with --values; or leave out the column"
        )


def check_gradients(source: Source, options: SourceOptions) -> None:
    """Raise `NothingRecorded`, with a hint, if no gradient was measured."""
    from gradviz.analysis.flow.gradient_flow import has_gradients

    if any(has_gradients(graph) for graph in source.graphs):
        return
    name, hint, error = options.name, None, source.capture.error
    not_begun = why_it_did_not_begin(source.graphs[0])
    if not_begun is not None:
        message, hint = f"no gradient of {name} to show: {not_begun}", f"{options.command('check')} says why"
    elif source.graphs[0].backward is None and not (error and error.in_backward):
        message, hint = f"{name}: no backward() ran, so no gradient flowed", "call backward() on the loss"
    else:
        disclosures = source.capture.disclosures
        why = next((sentence for sentence in disclosures if "gradients" in sentence), None)
        if why is None and options.is_capture:
            message = f"{name} was recorded without gradients"
            hint = "record it again, with this gradviz and without --no-gradients"
        else:
            why = why or next(iter(disclosures), "backward failed before any node ran")
            message = f"no gradient of {name} to show: {why}"
    refusal = NothingRecorded(message, hint=hint)
    refusal.exit_code = source.exit_code or refusal.exit_code
    raise refusal


def _named(columns: str | None) -> set[str]:
    return {name.strip().lower().removeprefix("+") for name in (columns or "").split(",")}
