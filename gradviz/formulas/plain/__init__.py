"""Gradients in plain mathematics, by node name: every entry was compared with autograd.

>>> from gradviz.formulas.plain import plain_formula, reading
>>> reading(plain_formula("SoftmaxBackward0")).gradients["self"]
'x̄ = y ∘ (ȳ − ⟨ȳ, y⟩)'
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType

from gradviz.formulas.plain.notation import signs_in as signs_in
from gradviz.formulas.plain.plain_formula import PlainFormula as PlainFormula
from gradviz.formulas.plain.plain_formula import Trap as Trap
from gradviz.formulas.plain.reading import Reading as Reading
from gradviz.formulas.plain.reading import reading as reading
from gradviz.formulas.torch_formulas import derivatives_as_text


def plain_formula(node_name: str) -> PlainFormula | None:
    """The formula for ``grad_fn.name()``; None where none was written, as for custom functions."""
    return plain_formulas().get(node_name)


@lru_cache(maxsize=1)
def plain_formulas() -> Mapping[str, PlainFormula]:
    """Every formula by the name of its node, family by family; those of kernels for other devices last."""
    from gradviz.formulas.plain.families import FAMILIES
    from gradviz.formulas.plain.other_kernels import of_other_kernels
    from gradviz.formulas.plain.ties import as_installed

    formulas = {formula.node: formula for family in FAMILIES for formula in family}
    formulas = as_installed(formulas, derivatives_as_text())
    return MappingProxyType({**formulas, **of_other_kernels(formulas)})
