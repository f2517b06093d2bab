"""The explanation of an operation as data for programs: ``gradviz explain --format json``."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from gradviz.analysis.explain.explanation import Explanation
from gradviz.analysis.numbers.node_inputs import NamedTensor
from gradviz.analysis.numbers.node_numbers import NodeNumbers
from gradviz.capture.encoding import json_text
from gradviz.rendering.export.json import finite_figures, schema_with_all_numbers


def explanation_json(page: Explanation) -> str:
    """The explanation as JSON text."""
    return json_text(replace(page, numbers=None if page.numbers is None else _finite(page.numbers)))


def explanation_schema() -> dict[str, Any]:
    """The JSON Schema of an explanation."""
    return schema_with_all_numbers(Explanation)


def _finite(numbers: NodeNumbers) -> NodeNumbers:
    leaf = numbers.leaf_gradient
    if leaf is not None:
        leaf = replace(leaf, before=finite_figures(leaf.before), after=finite_figures(leaf.after))
    changed = {name: _finite_tensors(getattr(numbers, name)) for name in ("inputs", "arrived", "results", "sent")}
    return replace(numbers, **changed, leaf_gradient=leaf)


def _finite_tensors(tensors: tuple[NamedTensor, ...]) -> tuple[NamedTensor, ...]:
    return tuple(replace(each, figures=finite_figures(each.figures)) for each in tensors)
