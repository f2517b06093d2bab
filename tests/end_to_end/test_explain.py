"""``gradviz explain`` of a node of a script, with its numbers."""

from __future__ import annotations

from pathlib import Path

from tests.end_to_end.command import SAMPLES, gradviz, written_script

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
    run = gradviz("explain", *arguments, "--width", "80", cwd=cwd)
    assert run.exit_code == 0, run.stderr
    return run.stdout


def test_the_numbers_of_a_node_are_put_into_its_formula(tmp_path: Path) -> None:
    page = explained("product", SAMPLES / "log_of_product.py", cwd=tmp_path)
    assert "log_of_product.py:8  product = x * y" in page
    assert "ā = 0.1 · 5 = 0.5" in page
    assert "b̄ = 0.1 · 2 = 0.2" in page


def test_a_custom_function_is_shown_with_its_source_and_compared_with_finite_differences(tmp_path: Path) -> None:
    page = explained("Square", written_script(tmp_path, WRONG_SQUARE), "--gradcheck", cwd=tmp_path)
    assert "3   class Square(torch.autograd.Function):" in page
    assert "11          return x * gradient" in page
    assert "first input  WRONG: 4.41 where the slope of forward is 8.82; 1 element" in page


def test_a_script_that_fails_is_explained_as_far_as_it_went(tmp_path: Path) -> None:
    script = written_script(
        tmp_path, "import torch\ny = torch.ones(2, requires_grad=True).exp()\nraise ValueError(y)\n"
    )
    run = gradviz("explain", "y", script, cwd=tmp_path)
    assert run.exit_code == 1
    assert "ExpBackward0" in run.stdout
    assert "no backward was recorded" in run.stdout.replace("\n  ", " ")
