"""The derivatives of the installed torch, and the file in which they are cached."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from gradviz.errors import MissingDependency
from gradviz.formulas import available_formulas, torch_formulas
from gradviz.formulas.available_formulas import (
    MAX_CACHE_FILES,
    KnownFormulas,
    cache_file,
    cache_folder,
    known_formulas,
    of,
    write_cached,
)
from gradviz.formulas.derivative import Derivative, FormulaTable, ForwardFormula, InputFormula, SavedValue
from gradviz.formulas.torch_formulas import FormulaFiles, find_formula_files

KEPT = FormulaTable("of a test", (Derivative("ExpBackward0", "exp", "exp(Tensor self) -> Tensor"),))


@pytest.fixture
def asked_anew(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A separate cache folder that does not exist yet, with nothing cached in memory."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("GRADVIZ_CACHE_DIR", str(folder))
    monkeypatch.setattr(available_formulas, "known_formulas", known_formulas.__wrapped__)
    return folder


def test_a_product_has_a_formula_for_each_factor_and_keeps_the_other() -> None:
    product = of("MulBackward0")
    assert product is not None
    assert product.schema == "mul.Tensor(Tensor self, Tensor other) -> Tensor"
    assert product.inputs == (
        InputFormula(("self",), "mul_tensor_backward(grad, other, self.scalar_type())", ("self_scalar_type", "other")),
        InputFormula(("other",), "mul_tensor_backward(grad, self, other.scalar_type())", ("self", "other_scalar_type")),
    )
    assert product.forward == (ForwardFormula(("result",), "other_t * self_p + self_t * other_p"),)
    assert any(each.startswith("mul_.Tensor") for each in product.other_schemas)


def test_saved_inputs_and_saved_results_are_distinguished() -> None:
    root = of("SqrtBackward0")
    assert root is not None
    assert root.saved == (SavedValue("result", "result", "result"),)


def test_arguments_and_results_without_gradient_are_named() -> None:
    selection, order = of("WhereBackward0"), of("SortBackward0")
    assert selection is not None
    assert order is not None
    assert selection.without_gradient == ("condition",)
    assert order.differentiable_outputs == (True, False)


@pytest.mark.parametrize(
    ("node", "is_possible", "functions"),
    [
        ("SoftmaxBackward0", True, ("_softmax_backward_data",)),
        ("SiluBackward0", True, ()),
        ("CdistBackward0", False, ("_cdist_backward",)),
    ],
)
def test_whether_a_backward_can_be_differentiated(node: str, is_possible: bool, functions: tuple[str, ...]) -> None:
    found = of(node)
    assert found is not None
    assert found.second.is_possible is is_possible
    if functions:
        assert found.second.functions == functions


def test_a_node_that_torch_does_not_generate_has_none() -> None:
    assert of("torch::autograd::AccumulateGrad") is None
    assert of("MyFunctionBackward") is None


def test_a_file_in_the_cache_is_read_in_place_of_torchs_own(asked_anew: Path) -> None:
    write_cached(cache_file(find_formula_files()), KEPT)
    assert available_formulas.known_formulas() == KnownFormulas(KEPT)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"torch_version": 3}', b'{"torch_version": ""}', b"\xff\xfe"])
def test_a_damaged_cache_is_disclosed_and_written_anew(
    asked_anew: Path, content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(available_formulas, "read_formulas", lambda files: KEPT)
    path = cache_file(find_formula_files())
    asked_anew.mkdir()
    path.write_bytes(content)
    found = available_formulas.known_formulas()
    assert found.table == KEPT
    assert str(path) in found.disclosures[0]
    assert available_formulas.known_formulas() == KnownFormulas(KEPT)


def test_of_many_releases_only_the_newest_few_are_kept_and_no_file_of_others_is_touched(tmp_path: Path) -> None:
    names = [f"formulas-2.{release}.0-{release:012}.json" for release in range(MAX_CACHE_FILES + 3)]
    for time, name in enumerate(["formulas-of-mine.json", "formulas-killed.part", *names]):
        (tmp_path / name).write_bytes(b"{}")
        os.utime(tmp_path / name, (time, time))
    write_cached(tmp_path / "formulas-3.0.0-000000000000.json", KEPT)
    kept = {path.name for path in tmp_path.iterdir()}
    assert kept == {"formulas-of-mine.json", "formulas-3.0.0-000000000000.json", *names[-MAX_CACHE_FILES + 1 :]}


def test_a_cache_that_cannot_be_written_is_disclosed_and_the_formulas_are_there(
    asked_anew: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(available_formulas, "read_formulas", lambda files: KEPT)
    asked_anew.write_text("a file where the folder should be")
    found = available_formulas.known_formulas()
    assert found.table == KEPT
    assert "cannot be cached" in found.disclosures[0]
    assert len(found.disclosures) == 1


def test_files_that_cannot_be_read_are_disclosed(asked_anew: Path, tmp_path: Path) -> None:
    paths = tuple(tmp_path / name for name in ("derivatives.yaml", "native_functions.yaml", "tags.yaml"))
    for path in paths:
        path.write_text("- of: another\n  shape: entirely\n")
    with pytest.raises(MissingDependency, match=r"formulas of torch 9\.9 could not be read: \w+"):
        torch_formulas.read_formulas(FormulaFiles("9.9", paths))


def test_without_torch_there_are_no_formulas_and_a_disclosure_says_so(
    asked_anew: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch_formulas, "find_spec", lambda name: None)
    found = available_formulas.known_formulas()
    assert not found.by_node
    assert "torch is not installed" in found.disclosures[0]


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have other folders")
def test_the_cache_is_where_the_system_keeps_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GRADVIZ_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "/home/ada")
    assert cache_folder() == Path("/home/ada/.cache/gradviz")
    monkeypatch.setenv("XDG_CACHE_HOME", "not/absolute")
    assert cache_folder() == Path("/home/ada/.cache/gradviz")
    monkeypatch.setenv("XDG_CACHE_HOME", "/var/cache/ada")
    assert cache_folder() == Path("/var/cache/ada/gradviz")
