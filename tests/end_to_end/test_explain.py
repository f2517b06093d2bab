"""``gradviz explain``: the page of an operation, and of a node with its numbers."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from gradviz.analysis.explanation import Explanation
from tests.end_to_end.command import SAMPLES, gradviz, refused, written_script

NARROW = ("--width", "80")

WRONG_SQUARE = """
import torch
class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x
    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return x * gradient

Square.apply(torch.tensor([3.0], requires_grad=True)).backward()
"""


def explained(*arguments: str | Path, cwd: Path) -> str:
    run = gradviz("explain", *arguments, *NARROW, cwd=cwd)
    assert run.exit_code == 0, run.stderr
    assert all(len(line) <= 80 for line in run.stdout.splitlines())
    return run.stdout


def test_an_operation_is_explained_in_mathematics_and_in_torchs_own_words(tmp_path: Path) -> None:
    page = explained("torch.softmax", cwd=tmp_path)
    assert page.startswith("SoftmaxBackward0\n")
    assert "x̄ = y ∘ (ȳ − ⟨ȳ, y⟩)" in page
    assert "self  _softmax_backward_data(grad, result, dim, self.scalar_type())" in page
    assert "result  result * (self_t - logsumexp_jvp(self_p, self_t, {dim}, true))" in page
    assert "diagonal of\n  the Jacobian" in page


def test_the_numbers_of_a_node_are_put_into_its_formula(tmp_path: Path) -> None:
    page = explained("product", SAMPLES / "log_of_product.py", cwd=tmp_path)
    assert "log_of_product.py:8  product = x * y" in page
    assert "ā = 0.1 ∘ 5 = 0.5" in page
    assert "b̄ = 0.1 ∘ 2 = 0.2" in page


def test_the_readme_shows_what_is_printed(tmp_path: Path) -> None:
    readme = (SAMPLES.parent / "README.md").read_text(encoding="utf-8")
    shown = readme.partition("```sh\ngradviz explain sqrt")[2].partition("```text\n")[2].partition("```")[0]
    page = explained("sqrt", SAMPLES / "where_does_not_hide_nan.py", cwd=tmp_path)
    assert len(shown.splitlines()) > 4
    assert [line for line in shown.splitlines() if line not in page.splitlines()] == []


def test_a_rule_has_the_page_that_gradviz_rules_prints(tmp_path: Path) -> None:
    page = gradviz("rules", "GV302", cwd=tmp_path).stdout
    assert page != ""
    assert gradviz("explain", "gv302", cwd=tmp_path).stdout == page
    assert gradviz("explain", "nan_in_masked_branch", cwd=tmp_path).stdout == page


def test_programs_get_the_same_as_data(tmp_path: Path) -> None:
    text = gradviz("explain", "mul", "--format", "json", cwd=tmp_path).stdout
    page = msgspec.json.decode(text, type=Explanation)
    assert page.derivative is not None
    assert page.derivative.inputs[0].formula == "mul_tensor_backward(grad, other, self.scalar_type())"
    schema = json.loads(gradviz("schema", "explain", cwd=tmp_path).stdout)
    assert schema["$ref"].endswith("Explanation")


def test_a_capture_without_values_says_how_to_record_them(folder: Path) -> None:
    page = explained("linear", "run.gradviz", cwd=folder)
    assert "record the script with --values" in page
    assert "recorded with torch 2.13.0; the formulas are those of torch 2.13.0+cpu" in page.replace("\n  ", " ")


def test_a_custom_function_is_shown_with_its_source_and_compared_with_finite_differences(tmp_path: Path) -> None:
    script = written_script(tmp_path, WRONG_SQUARE)
    page = explained("Square", script, "--gradcheck", cwd=tmp_path)
    assert "3   class Square(torch.autograd.Function):" in page
    assert "11          return x * gradient" in page
    assert "argument 0  WRONG: 4.41 where the slope of forward is 8.82; 1 element compared" in page
    assert "--gradcheck runs the script" in explained("Square", script, cwd=tmp_path)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "nothing to explain; name a node, a function or a rule"),
        (("MulBackwrd0",), "did you mean 'MulBackward0'"),
        (("softmx",), "did you mean 'softmax'"),
        (("GV999",), "did you mean 'GV"),
        (("train.py",), "what of train.py is to be explained?; name it first: gradviz explain WHAT train.py"),
        (("train.py", "exp"), "name it first: gradviz explain exp train.py"),
        (("mul", "--format", "yaml"), "unknown format 'yaml'"),
        (("GV101", "--format", "json"), "the page of a rule (GV101) is text"),
        (("no_such", "run.gradviz"), "nothing in this graph is named 'no_such'"),
        (("model", "run.gradviz"), "stands for"),
        (("mul", "missing.py"), "missing.py"),
        (("mul", "run.gradviz", "--values"), "--values needs a script"),
        (("mul", "run.gradviz", "--gradcheck"), "--gradcheck needs a script to run; run.gradviz is a capture"),
        (("mul", "--gradcheck"), "--gradcheck needs a script to run"),
        (("mul", "--backward", "2"), "--backward needs a script to run"),
    ],
)
def test_what_cannot_be_explained_is_told_in_one_line(words: tuple[str, ...], said: str, folder: Path) -> None:
    assert said in refused("explain", *words, cwd=folder)


def test_a_cache_that_cannot_be_written_costs_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file where the folder should be")
    run = gradviz("explain", "exp", cwd=tmp_path, env={"GRADVIZ_CACHE_DIR": str(tmp_path / "cache")})
    assert run.exit_code == 0
    assert "grad * result.conj()" in run.stdout
    assert "cannot be kept for the next time" in run.stdout


def test_a_script_that_fails_is_explained_as_far_as_it_went(tmp_path: Path) -> None:
    script = written_script(
        tmp_path, "import torch\ny = torch.ones(2, requires_grad=True).exp()\nraise ValueError(y)\n"
    )
    run = gradviz("explain", "y", script, cwd=tmp_path)
    assert run.exit_code == 1
    assert "ExpBackward0" in run.stdout
    assert "no backward was recorded" in run.stdout.replace("\n  ", " ")
