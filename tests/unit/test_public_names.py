"""What `import gradviz` offers, and what it must not load."""

from __future__ import annotations

import ast
import subprocess
import sys
from inspect import getdoc
from pathlib import Path

import pytest

import gradviz

PUBLIC = {
    "BadCapture",
    "BadInput",
    "Capture",
    "Checked",
    "Differed",
    "GradvizError",
    "Graph",
    "Inspection",
    "MissingDependency",
    "Node",
    "NothingFound",
    "NothingRecorded",
    "Recording",
    "Watch",
    "__version__",
    "callbacks",
    "check",
    "diff",
    "inspect",
    "load",
    "record",
    "watch",
}


def run_python(source: str) -> str:
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, encoding="utf-8", timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_public_names_are_these_and_no_others() -> None:
    assert set(gradviz.__all__) == PUBLIC
    assert list(gradviz.__all__) == sorted(gradviz.__all__)
    assert set(dir(gradviz)) >= PUBLIC


@pytest.mark.parametrize("name", sorted(PUBLIC - {"__version__"}))
def test_every_public_name_is_there_and_documented(name: str) -> None:
    assert getdoc(getattr(gradviz, name))


def test_type_checkers_see_the_names_that_are_loaded_on_first_use() -> None:
    tree = ast.parse(Path(str(gradviz.__file__)).read_text(encoding="utf-8"))
    (branch,) = [node for node in tree.body if isinstance(node, ast.If)]
    seen = {
        (node.module, alias.name) for node in branch.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    homes = {(home, name) for home, names in gradviz._MODULES.items() for name in names}  # type: ignore[attr-defined]
    assert seen == homes | {("gradviz", "callbacks")}
    assert {name for _, name in seen} == PUBLIC - {"__version__"}
    assert (Path(str(gradviz.__file__)).parent / "py.typed").is_file()


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'inspekt'"):
        gradviz.inspekt  # type: ignore[attr-defined] # noqa: B018


def test_importing_gradviz_loads_nothing_heavy() -> None:
    heavy = ("torch", "numpy", "msgspec", "rich", "click", "graphlay", "gradviz.api")
    loaded = run_python(f"import sys, gradviz; print([name for name in {heavy} if name in sys.modules])")
    assert loaded == "[]"


def test_looking_at_a_saved_recording_needs_no_torch(tmp_path: Path) -> None:
    demo = Path(str(gradviz.__file__)).parent / "cli" / "demo.gradviz"
    source = f"""
import sys
sys.modules["torch"] = None  # as if it were not installed
import gradviz
inspection = gradviz.load({str(demo)!r})
inspection.save({str(tmp_path / "demo.svg")!r})
inspection.graph.find("nll_loss")
print(inspection)
"""
    assert "NllLossBackward0" in run_python(source)
    assert (tmp_path / "demo.svg").read_text(encoding="utf-8").startswith("<svg")
