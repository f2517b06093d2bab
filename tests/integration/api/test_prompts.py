"""gradviz at a prompt and in a notebook, with no script file anywhere."""

# mypy: allow-untyped-calls
from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.command import installed_python

PROMPT = """\
import torch, gradviz
model = torch.nn.Linear(3, 1)
loss = model(torch.ones(2, 3)).sum()
gradviz.inspect(loss, model=model)
with gradviz.record() as recording:
    model(torch.ones(2, 3)).sum().backward()

recording.tree(plumbing=True)
recording.svg()
"""


def test_a_prompt_shows_trees_as_they_are(tmp_path: Path) -> None:
    run = installed_python("-i", "-q", "-c", "", cwd=tmp_path, stdin=PROMPT)
    assert run.exit_code == 0
    assert "Error" not in run.stderr
    trees = [line.split() for line in run.stdout.splitlines() if "TBackward0" in line or "weight" in line]
    assert trees[0][-1] == "AccumulateGrad"
    assert any("model.weight" in line for line in run.stdout.splitlines())
    assert any("TBackward0" in line for line in run.stdout.splitlines())
    assert "\\n" not in run.stdout
    assert "<SVG of " in run.stdout
    assert "in <python>" in run.stdout


def test_a_program_from_standard_input_is_recorded(tmp_path: Path) -> None:
    run = installed_python("-", cwd=tmp_path, stdin=PROMPT + "print(recording.tree())")
    assert (run.exit_code, run.stderr) == (0, "")
    assert "SumBackward0" in run.stdout


CELLS = [
    "import torch, gradviz\nmodel = torch.nn.Linear(3, 1)\nmodel",
    "with gradviz.record() as recording:\n    loss = model(torch.ones(2, 3)).sum()\n    loss.backward()\nrecording",
    "gradviz.inspect(loss)",
    "recording.svg(direction='LR')",
    "recording.tree()",
    """\
class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    def backward(ctx, gradient):
        return 2 * gradient

with gradviz.record(calls=True) as logged:
    Twice.apply(model(torch.ones(3)).sum()).backward()

log = logged.capture.calls
{place.file for place in (*log.call_sites, *log.definitions) if not getattr(place, "is_library", False)}""",
]


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What a notebook with `CELLS` shows below each, run by a real kernel."""
    import nbformat
    from nbclient import NotebookClient

    folder = tmp_path_factory.mktemp("notebook")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JUPYTER_PLATFORM_DIRS", "1")
        patch.setenv("JUPYTER_DATA_DIR", str(_kernel(folder)))
        patch.setenv("IPYTHONDIR", str(folder / "ipython"))
        NotebookClient(notebook, timeout=600, kernel_name="under-test").execute(cwd=str(folder))
    assert all(cell.outputs[0].output_type == "execute_result" for cell in notebook.cells), notebook.cells
    return [cell.outputs[0].data for cell in notebook.cells]


def _kernel(folder: Path) -> Path:
    """A Jupyter data folder whose kernel is the Python that runs this test."""
    import json

    home = folder / "kernels" / "under-test"
    home.mkdir(parents=True)
    command = [sys.executable, "-Xfrozen_modules=off", "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    (home / "kernel.json").write_text(json.dumps({"argv": command, "display_name": "x", "language": "python"}))
    return folder


def test_a_notebook_draws_what_was_recorded(outputs: list[dict[str, Any]]) -> None:
    for shown in (outputs[1], outputs[2]):
        assert set(shown) == {"text/html", "image/svg+xml", "text/plain"}
        assert "<iframe" in shown["text/html"]
        assert "SumBackward0" in shown["image/svg+xml"]
        assert "SumBackward0" in shown["text/plain"]
    assert outputs[1]["text/html"] != outputs[2]["text/html"]


def test_a_cell_is_named_as_the_notebook_names_it(outputs: list[dict[str, Any]]) -> None:
    tree = outputs[1]["text/plain"]
    assert "In[2]:2" in tree
    assert "In[2]:3" in tree
    assert "nodes in In[2]" in tree
    assert "ipykernel" not in outputs[1]["image/svg+xml"]


def test_a_model_that_a_cell_has_shown_keeps_its_name(outputs: list[dict[str, Any]]) -> None:
    assert "model.weight" in outputs[2]["text/plain"]


def test_options_are_for_pictures_and_trees_in_a_notebook_too(outputs: list[dict[str, Any]]) -> None:
    assert outputs[3]["text/html"] != outputs[1]["text/html"]
    assert outputs[3]["image/svg+xml"].startswith("<svg")
    assert outputs[4] == {"text/plain": outputs[4]["text/plain"]}
    assert outputs[4]["text/plain"].startswith("operation ")


def test_the_log_of_calls_names_cells_too(outputs: list[dict[str, Any]]) -> None:
    assert outputs[5]["text/plain"] == "{'In[6]'}"
