"""``gradviz schema``: describes the files of gradviz for programs that read them."""

from __future__ import annotations

import click

from gradviz.cli.options.shared import GroupedCommand

KINDS = ("json", "capture", "memory", "flow", "check", "why", "diff", "ranks", "job", "compiled", "explain", "doctor")


@click.command("schema", cls=GroupedCommand)
@click.argument("what", metavar=f"[{'|'.join(KINDS)}]", default="json")
def schema_command(what: str) -> int:
    """Print the JSON Schema of a .json file, of a recording or a job (.gradviz), or of the JSON output of a command."""
    import msgspec

    from gradviz.analysis.compiled.compiled_functions import compiled_schema
    from gradviz.analysis.flow.flow_document import flow_schema
    from gradviz.analysis.memory.memory_document import memory_schema
    from gradviz.capture.capture_file import capture_schema
    from gradviz.capture.job_file import job_schema
    from gradviz.cli.terminal.printing import print_document
    from gradviz.errors import BadInput, near_matches
    from gradviz.rendering.export.json import graph_schema
    from gradviz.rendering.reports.diff_json import diff_schema
    from gradviz.rendering.reports.doctor_document import doctor_schema
    from gradviz.rendering.reports.explanation_json import explanation_schema
    from gradviz.rendering.reports.findings.json import check_schema
    from gradviz.rendering.reports.ranks_json import ranks_schema
    from gradviz.rendering.reports.why_json import why_schema

    schemas = {
        "json": graph_schema,
        "capture": capture_schema,
        "memory": memory_schema,
        "flow": flow_schema,
        "check": check_schema,
        "why": why_schema,
        "diff": diff_schema,
        "ranks": ranks_schema,
        "job": job_schema,
        "compiled": compiled_schema,
        "explain": explanation_schema,
        "doctor": doctor_schema,
    }
    if what not in schemas:
        raise BadInput(f"no schema of {what!r}", hint=near_matches(what, schemas))
    text = msgspec.json.format(msgspec.json.encode(schemas[what]()), indent=2).decode()
    print_document(text + "\n")
    return 0
