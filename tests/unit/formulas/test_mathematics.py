from __future__ import annotations

import re

import pytest

from gradviz.formulas.plain import plain_formulas, reading
from gradviz.formulas.plain.expressions import parsed
from gradviz.formulas.plain.mathematics import Writing, mathematics

SYMBOLS = {"self": "x", "other": "b", "grad": "ȳ", "result": "y", "alpha": "α"}


@pytest.mark.parametrize(
    ("expression", "printed"),
    [
        ("grad * other", "ȳ ∘ b"),
        ("2 * grad", "2 · ȳ"),
        ("result * (grad - (grad * result).sum(dim, keepdim=True))", "y ∘ (ȳ − ⟨ȳ, y⟩)"),
        ("torch.exp(self) / torch.exp(self).sum(dim, keepdim=True)", "exp(x) / Σ exp(x)"),
        ("grad.sum(0) * other * self", "(Σ_0 ȳ) ∘ b ∘ x"),
        ("grad / (self * other)", "ȳ / (x ∘ b)"),
        ("grad / self * other", "(ȳ / x) ∘ b"),
        ("grad - (self - other)", "ȳ − (x − b)"),
        ("grad * (self > 0)", "ȳ ∘ [x > 0]"),
        ("torch.where(self > 0, grad, torch.zeros_like(grad))", "ȳ where x > 0, else 0"),
        ("2 * torch.where(self > 0, grad, 0)", "2 · (ȳ where x > 0, else 0)"),
        ("-(self + other) ** 2", "−(x + b)²"),
        ("self ** -2", "x⁻²"),
        ("self ** (alpha - 1)", "x^(α − 1)"),
        ("alpha * (grad @ other.mH)", "α · ȳ bᵀ"),
        ("torch.sqrt(1 + self * self)", "√(1 + x ∘ x)"),
        ("torch.sqrt(self) ** 3", "(√x)³"),
    ],
)
def test_python_is_printed_as_mathematics(expression: str, printed: str) -> None:
    assert mathematics(parsed(expression), Writing(SYMBOLS, {"self", "other", "grad", "result"})) == printed


def test_no_python_is_left_in_mathematics() -> None:
    python = re.compile(r"torch|math|self|grad\b|None|True|False|\*|\)\(|==|__")
    for formula in plain_formulas().values():
        for complex_numbers in (False, True):
            lines_of_formula = reading(formula, settings={}, complex_numbers=complex_numbers)
            lines = (lines_of_formula.forward, *lines_of_formula.where, *lines_of_formula.gradients.values())

            assert not [line for line in lines if python.search(line)], formula.node
            assert set(formula.gradients) <= set(lines_of_formula.symbols)


def test_notes_and_traps_are_sentences() -> None:
    for formula in plain_formulas().values():
        for text in (formula.sentence, formula.note, *(trap.sentence for trap in formula.traps)):
            assert text == "" or text.endswith("."), text


def test_an_abbreviation_is_defined_if_a_line_shows_it() -> None:
    """Sums are printed without the dimensions along which they run, so no line refers to ``dim``."""
    lines_of_formula = reading(plain_formulas()["NativeBatchNormBackward0"])
    assert [line.partition(" = ")[0] for line in lines_of_formula.where] == ["μ", "σ²", "r", "x̂", "g"]


def test_a_divisor_of_one_is_left_out() -> None:
    lines_of_formula = reading(plain_formulas()["SoftplusBackward0"])
    assert lines_of_formula.forward == "y = x where x > threshold, else log(1 + exp(x))"


def test_conjugates_are_printed_for_complex_numbers_only() -> None:
    formula = plain_formulas()["MulBackward0"]

    assert reading(formula).gradients["self"] == "ā = ȳ ∘ b"
    assert reading(formula, complex_numbers=True).gradients["self"] == "ā = ȳ ∘ conj(b)"


def test_values_replace_symbols() -> None:
    formula = plain_formulas()["MulBackward0"]

    assert reading(formula, {"grad": "2.0", "other": "-3.0"}).gradients["self"] == "ā = 2.0 ∘ (-3.0)"


def test_a_value_does_not_replace_a_shape() -> None:
    formula = plain_formulas()["ViewBackward0"]

    assert reading(formula, {"self": "[1, 2]", "grad": "[3, 4]"}).gradients["self"] == "x̄ = [3, 4] in the shape of x"


def test_known_settings_leave_out_parts_for_other_settings() -> None:
    lines_of_formula = reading(plain_formulas()["MseLossBackward0"], settings={"reduction": 1})

    assert lines_of_formula.forward == "y = (Σ l) / n"
    assert lines_of_formula.where == ("n = count(x)", "l = (x − t)²", "l′ = 2 · (x − t)")
    assert lines_of_formula.where_of_gradients == ("n = count(x)", "l′ = 2 · (x − t)")


def test_a_factor_that_is_known_to_be_1_is_left_out() -> None:
    settings = {"alpha": 1, "beta": 1}

    assert reading(plain_formulas()["AddmmBackward0"], settings=settings).gradients["mat1"] == "Ā = Ȳ Bᵀ"
    assert reading(plain_formulas()["SubBackward0"], settings=settings).gradients["other"] == "b̄ = −ȳ"
    assert reading(plain_formulas()["AddmmBackward0"], settings={"alpha": 2}).gradients["mat1"] == "Ā = α · Ȳ Bᵀ"


def test_an_unknown_setting_stays_a_condition() -> None:
    lines_of_formula = reading(plain_formulas()["MseLossBackward0"], settings={})

    assert lines_of_formula.assumes == ""
    assert lines_of_formula.where[0] == "n = count(x) if reduction = 1, else 1"


def test_without_a_node_the_usual_settings_are_assumed_and_named() -> None:
    lines_of_formula = reading(plain_formulas()["MseLossBackward0"])

    assert (lines_of_formula.where[0], lines_of_formula.assumes) == ("n = count(x)", "reduction = 1")
