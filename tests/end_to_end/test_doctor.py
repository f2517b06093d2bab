"""``gradviz doctor``: what works on this machine and with this torch, for bug reports."""

from __future__ import annotations

import json
import platform
from pathlib import Path

import msgspec
import pytest
import torch

import gradviz as package
from gradviz.recording.torch_access.capabilities import CAPABILITIES
from gradviz.rendering.reports.doctor_document import DoctorDocument
from tests.end_to_end.command import GRADVIZ, forked, gradviz, installed_gradviz, written_script


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> str:
    run = gradviz("doctor", cwd=tmp_path_factory.mktemp("doctor"))
    assert (run.exit_code, run.stderr) == (0, "")
    return run.stdout


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> DoctorDocument:
    run = gradviz("doctor", "--json", cwd=tmp_path_factory.mktemp("doctor"))
    assert (run.exit_code, run.stderr) == (0, "")
    return msgspec.json.decode(run.stdout, type=DoctorDocument)


def test_the_text_names_the_versions_of_python_gradviz_and_torch(text: str) -> None:
    for version in (platform.python_version(), package.__version__, str(torch.__version__)):
        assert version in text


def test_the_text_fits_eighty_columns(text: str) -> None:
    assert max(map(len, text.splitlines())) <= 80


def test_every_row_has_a_sign_and_a_word(text: str) -> None:
    rows = [line for line in text.splitlines()[1:] if line[:1] in "✓·!✗" and line]
    assert {line.split()[1] for line in rows} <= {"works", "absent", "limited", "problem"}
    assert len(rows) >= len(CAPABILITIES) + 15


def test_the_data_has_a_result_for_every_capability(document: DoctorDocument) -> None:
    assert [each.name for each in document.capabilities] == [each.name for each in CAPABILITIES]
    assert {each.state for each in document.capabilities} <= {"works", "limited"}
    assert document.problems == 0


def test_the_data_tells_of_everything_else_that_gradviz_uses(document: DoctorDocument) -> None:
    assert [each.name for each in document.versions][:4] == ["Python", "gradviz", "torch", "msgspec"]
    names = ["font", "formulas of torch", "formula cache", "browser", "Graphviz's dot", "PDF", "networkx", "GPU"]
    assert [each.name for each in document.machine] == names


def test_what_works_does_so_in_a_script_too(document: DoctorDocument, tmp_path: Path) -> None:
    script = written_script(tmp_path, "import torch\ntorch.ones(2, requires_grad=True).sum().backward()\n")
    disclosures = json.loads(gradviz("check", script, "--format", "json", cwd=tmp_path).stdout)["disclosures"]
    for each in document.capabilities:
        if each.state == "works" and each.lost:
            assert each.lost not in " ".join(disclosures)


def test_its_schema_describes_its_json(tmp_path: Path) -> None:
    schema = json.loads(gradviz("schema", "doctor", cwd=tmp_path).stdout)
    assert schema["$ref"].endswith("DoctorDocument")
    assert schema["$defs"]["Part"]["properties"]["state"]["enum"] == ["absent", "limited", "problem", "works"]


def test_a_cache_that_cannot_be_written_is_a_limit_with_its_remedy(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    run = gradviz("doctor", cwd=tmp_path, env={"GRADVIZ_CACHE_DIR": str(tmp_path / "file" / "cache")})
    assert run.exit_code == 0
    first, _, limit = run.stdout.splitlines()[:3]
    assert first.startswith("gradviz works here, with ")
    assert limit.startswith("! limited  formula cache")
    assert "set GRADVIZ_CACHE_DIR" in run.text


def test_without_torch_it_says_so_and_succeeds(tmp_path: Path) -> None:
    run = forked("tests.end_to_end.without_torch:run_gradviz", GRADVIZ, "doctor", cwd=tmp_path)
    assert (run.exit_code, run.stderr) == (0, "")
    assert run.stdout.startswith("torch is not installed: recordings can be shown, nothing can be recorded\n")
    assert "pip install torch" in run.stdout


def test_a_torch_that_cannot_be_imported_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("raise OSError('libtorch.so: cannot open')\n")
    run = installed_gradviz(
        "doctor", cwd=tmp_path, env={"PYTHONPATH": f"{tmp_path}:{Path(package.__file__).parents[1]}"}
    )
    assert (run.exit_code, run.stderr) == (1, "")
    assert run.stdout.startswith("1 problem")
    assert "torch cannot be imported: OSError: libtorch.so: cannot open" in run.text


def test_it_leaves_nothing_behind(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    assert gradviz("doctor", cwd=tmp_path, env={"GRADVIZ_CACHE_DIR": str(cache)}).exit_code == 0
    assert list(tmp_path.rglob("*")) == [cache]


def test_a_terminal_that_shows_ascii_only_gets_signs_that_it_can_show(tmp_path: Path) -> None:
    run = installed_gradviz("doctor", cwd=tmp_path, env={"PYTHONIOENCODING": "ascii"})
    assert (run.exit_code, run.stderr) == (0, "")
    assert run.stdout.isascii()
    assert "+ works" in run.stdout
