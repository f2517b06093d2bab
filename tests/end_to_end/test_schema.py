"""What `gradviz schema` prints describes the files that gradviz writes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.end_to_end.command import gradviz, refusal


@pytest.mark.parametrize(("what", "root"), [("json", "GraphDocument"), ("capture", "Capture")])
def test_a_schema_is_printed_for_programs(what: str, root: str, tmp_path: Path) -> None:
    run = gradviz("schema", what, cwd=tmp_path)
    assert run.exit_code == 0
    schema = json.loads(run.stdout)
    assert schema["$ref"].endswith(root)
    assert {"id", "name", "edges", "outputs", "scope"} <= set(schema["$defs"]["Node"]["properties"])


def test_the_schema_of_the_memory_document_names_its_figures(tmp_path: Path) -> None:
    schema = json.loads(gradviz("schema", "memory", cwd=tmp_path).stdout)
    assert {"saved_bytes", "storages"} <= set(schema["$defs"]["MemoryDocument"]["required"])


def test_the_schema_of_the_flow_document_names_its_figures(tmp_path: Path) -> None:
    schema = json.loads(gradviz("schema", "flow", cwd=tmp_path).stdout)
    assert {"norm", "ratio", "losses"} <= set(schema["$defs"]["ParameterFlow"]["required"])


def test_the_schemas_of_jobs_name_how_ranks_ended_and_differ(tmp_path: Path) -> None:
    job = json.loads(gradviz("schema", "job", cwd=tmp_path).stdout)
    assert {"terminated", "died", "hung"} <= set(job["$defs"]["RankEnd"]["properties"]["how"]["enum"])
    ranks = json.loads(gradviz("schema", "ranks", cwd=tmp_path).stdout)
    assert {"kind", "what", "missing", "location"} <= set(ranks["$defs"]["RankDifference"]["properties"])


def test_the_schema_of_an_answer_to_why_names_its_kinds(tmp_path: Path) -> None:
    schema = json.loads(gradviz("schema", "why", cwd=tmp_path).stdout)
    assert {"cut off", "frozen", "unused"} <= set(schema["$defs"]["WhyDocument"]["properties"]["kind"]["enum"])


def test_an_unknown_schema_is_reported_with_what_there_is(tmp_path: Path) -> None:
    assert "'json'" in refusal(gradviz("schema", "jsn", cwd=tmp_path))
