"""The explanation of an operation in a terminal."""

from __future__ import annotations

from gradviz.analysis.explain.custom_explanation import CustomExplanation
from gradviz.analysis.explain.explanation import Explanation, explain
from gradviz.analysis.numbers.node_inputs import NamedTensor
from gradviz.analysis.numbers.node_numbers import NodeNumbers
from gradviz.formulas.available_formulas import KnownFormulas
from gradviz.formulas.derivative import (
    Derivative,
    FormulaTable,
    ForwardFormula,
    InputFormula,
    SavedValue,
    SecondDerivative,
)
from gradviz.formulas.word_lookup import meaning_of
from gradviz.graph.gradients import TensorFigures
from gradviz.graph.tensor_facts import TensorFacts
from gradviz.rendering.reports.explanation_text import ExplanationText

DERIVATIVE = Derivative(
    "ScaleBackward0",
    "scale",
    "scale(Tensor self, Tensor by, int dim) -> Tensor",
    (
        InputFormula(("self",), "grad * by", ("by", "dim")),
        InputFormula(("by",), "scale_backward(grad, self)", ("self",)),
    ),
    (ForwardFormula(("result",), "self_t * by_p + self_p * by_t"),),
    (SavedValue("self", "self"), SavedValue("by", "by"), SavedValue("dim", "dim")),
    second=SecondDerivative(False, ("scale_backward",)),
)
PAGE = """\
ScaleBackward0

gradients, as torch 2.13.0 computes them
  self  grad * by
  by    scale_backward(grad, self)

function
  scale(Tensor self, Tensor by, int dim) -> Tensor

forward mode
  result  self_t * by_p + self_p * by_t

saves for backward
  self  for the gradient of by
  by    for the gradient of self
        and no tensors: dim

differentiable twice
  no: torch has no derivative for scale_backward; a second backward raises
"""


def test_an_explanation_has_formulas_saved_tensors_and_whether_a_second_derivative_exists() -> None:
    page = Explanation("scale", "ScaleBackward0", torch_version="2.13.0", derivative=DERIVATIVE)
    assert ExplanationText(80).text(page) == PAGE


def test_names_of_a_program_are_not_markup_and_matrices_have_a_line_for_each_row() -> None:
    value = TensorFigures(shape=(2, 2), count=4, values=(1.0, 2.0, -3.0, float("nan")))
    given = NamedTensor("self", ("[red]x[0]",), TensorFacts((2, 2), "float32"), value)
    page = Explanation("x", "ScaleBackward0", numbers=NodeNumbers(3, "ScaleBackward0", inputs=(given,)))
    assert "  self  [red]x[0]  [2, 2]\n        [[1, 2],\n         [-3, NaN]]\n" in ExplanationText(80).text(page)


def test_the_formula_of_torch_gets_the_numbers_if_there_is_none_in_plain_mathematics() -> None:
    def scalar(name: str, value: float) -> NamedTensor:
        return NamedTensor(name, (), TensorFacts((), "float32"), TensorFigures(count=1, values=(value,)))

    numbers = NodeNumbers(
        1,
        "ScaleBackward0",
        inputs=(scalar("self", 2.0), scalar("by", 5.0)),
        arrived=(scalar("grad", -0.5),),
        sent=(scalar("self", -2.5),),
    )
    page = Explanation("scale", "ScaleBackward0", derivative=DERIVATIVE, numbers=numbers)
    assert "put into the formula\n  self  -0.5 * 5 = -2.5\n" in ExplanationText(80).text(page)


def test_a_function_without_a_file_has_no_source_and_the_explanation_says_why() -> None:
    page = Explanation("Cube", "CubeBackward", custom=CustomExplanation("Cube", "", (), (True,)))
    assert "code from exec() or a prompt has no file" in ExplanationText(120).text(page)


def test_without_torch_the_mathematics_is_shown_and_a_note_says_what_is_missing() -> None:
    nothing = KnownFormulas(FormulaTable(""), ("no torch is installed",))
    meaning = meaning_of("softmax", nothing)
    assert meaning is not None
    text = ExplanationText(80).text(explain(meaning, nothing))
    assert "x̄ = y ∘ (ȳ − ⟨ȳ, y⟩)" in text
    assert text.endswith("\nnote: no torch is installed\n")
    assert "as torch" not in text
