"""``gradviz explain`` without a program, and for a recording."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from gradviz.analysis.explain.explanation import Explanation
from gradviz.capture.capture_file import write_capture
from gradviz.cli import run
from gradviz.formulas import known_formulas
from tests.captures import small_capture


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The current folder, with a recording in it."""
    (tmp_path / "run.gradviz").write_bytes(write_capture(small_capture()))
    monkeypatch.chdir(tmp_path)


def printed(capfd: pytest.CaptureFixture[str], *words: str) -> str:
    assert run(list(words)) == 0
    return capfd.readouterr().out


def test_an_operation_is_explained_in_mathematics_and_in_torchs_own_words(capfd: pytest.CaptureFixture[str]) -> None:
    page = printed(capfd, "explain", "torch.softmax", "--width", "80")
    assert page.startswith("SoftmaxBackward0\n")
    assert "x̄ = y ∘ (ȳ − ⟨ȳ, y⟩)" in page
    assert "self  _softmax_backward_data(grad, result, dim, self.scalar_type())" in page
    assert "result  result * (self_t - logsumexp_jvp(self_p, self_t, {dim}, true))" in page
    assert "diagonal of\n  the Jacobian" in page


@pytest.mark.parametrize(
    ("word", "title"),
    [
        ("gv302", "GV302 nan_in_masked_branch"),
        ("nan_in_masked_branch", "GV302 nan_in_masked_branch"),
        ("GV901", "GV901 saved_memory (error, only with --max-saved)"),
    ],
)
def test_a_rule_has_the_documentation_that_gradviz_rules_prints(
    word: str, title: str, capfd: pytest.CaptureFixture[str]
) -> None:
    page = printed(capfd, "explain", word)
    assert page.startswith(title)
    assert printed(capfd, "rules", title.partition(" ")[0]) == page


def test_programs_get_the_same_as_data(capfd: pytest.CaptureFixture[str]) -> None:
    page = msgspec.json.decode(printed(capfd, "explain", "mul", "--format", "json"), type=Explanation)
    assert page.derivative is not None
    assert page.derivative.inputs[0].formula == "mul_tensor_backward(grad, other, self.scalar_type())"
    schema = json.loads(printed(capfd, "schema", "explain"))
    assert set(msgspec.to_builtins(page)) <= set(schema["$defs"]["Explanation"]["properties"])


def test_a_recording_without_values_says_how_to_record_them(capfd: pytest.CaptureFixture[str]) -> None:
    capture = small_capture()
    older = msgspec.structs.replace(capture, program=msgspec.structs.replace(capture.program, torch_version="2.4.0"))
    Path("run.gradviz").write_bytes(write_capture(older))
    page = printed(capfd, "explain", "linear", "run.gradviz").replace("\n  ", " ")
    assert "record with --values" in page
    installed = known_formulas().table.torch_version
    assert f"recorded with torch 2.4.0; the formulas are those of torch {installed}" in page


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "nothing to explain; name a node, a function or a rule"),
        (("MulBackwrd0",), "did you mean 'MulBackward0'"),
        (("softmx",), "did you mean 'softmax'"),
        (("x[0]",), "for a node of a graph, name its script: gradviz explain x[0] SCRIPT"),
        (("GV999",), "no rule 'GV999'; did you mean 'GV"),
        (("train.py",), "nothing to explain in train.py; name a node first: gradviz explain WHAT train.py"),
        (("train.py", "exp"), "name a node first: gradviz explain exp train.py"),
        (("mul", "--format", "yaml"), "unknown format 'yaml'"),
        (("GV101", "--format", "json"), "the documentation of a rule (GV101) is text"),
        (("no_such", "run.gradviz"), "nothing in this graph is named 'no_such'"),
        (("model", "run.gradviz"), " means "),
        (("mul", "missing.py"), "missing.py"),
        (("mul", "run.gradviz", "--values"), "--values needs a script"),
        (("mul", "run.gradviz", "--gradcheck"), "--gradcheck needs a script to run; run.gradviz is a recording"),
        (("mul", "--gradcheck"), "--gradcheck needs a script to run"),
        (("mul", "--backward", "2"), "--backward needs a script to run"),
        (("mul", "--no-gradients"), "--no-gradients needs a script to run"),
    ],
)
def test_what_cannot_be_explained_is_reported_in_one_line(
    words: tuple[str, ...], said: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(["explain", *words]) == 2
    out, error = capfd.readouterr()
    assert out == ""
    assert error.count("\n") == 1
    assert said in error
