"""The numbers of a node in the formulas of its gradients."""

from __future__ import annotations

from gradviz.analysis.numbers.node_inputs import NamedTensor
from gradviz.formulas.plain import plain_formula
from gradviz.graph.gradients import TensorFigures
from gradviz.graph.model import Attribute
from gradviz.graph.tensor_facts import TensorFacts
from gradviz.rendering.words.formula_words import mathematics_with_numbers, with_minus


def tensor(name: str, *values: float, dtype: str = "float32") -> NamedTensor:
    shape = () if len(values) == 1 else (len(values),)
    figures = TensorFigures(shape=shape, count=len(values), values=values) if values else None
    return NamedTensor(name, (), TensorFacts(shape if values else (2,), dtype), figures)


def written(node: str, *tensors: NamedTensor, **settings: Attribute) -> dict[str, str]:
    plain = plain_formula(node)
    assert plain is not None
    return mathematics_with_numbers(plain, settings, tensors)


def test_known_numbers_replace_letters_and_other_letters_stay() -> None:
    found = written("MulBackward0", tensor("self", 1.0, -2.0), tensor("other"), tensor("grad", 0.5, 1.0))
    assert found == {"self": "ā = [0.5, 1] ∘ b", "other": "b̄ = [0.5, 1] ∘ [1, −2]"}


def test_scalars_are_multiplied_by_a_dot_and_negative_ones_are_in_parentheses() -> None:
    assert written("MulBackward0", tensor("other", -3.0), tensor("grad", -1.0))["self"] == "ā = (−1) · (−3)"


def test_settings_alone_are_no_reason_to_write_a_formula_again() -> None:
    assert written("PowBackward0", tensor("self"), tensor("grad"), exponent=3.0) == {}


def test_conjugates_are_written_if_some_numbers_are_complex() -> None:
    found = written("MulBackward0", tensor("other", dtype="complex64"), tensor("grad", 1.0, 2.0))
    assert found["self"] == "ā = [1, 2] ∘ conj(b)"


def test_a_minus_of_words_stays_a_hyphen() -> None:
    assert with_minus("[-1, -Inf] of a quasi-norm") == "[−1, −Inf] of a quasi-norm"
