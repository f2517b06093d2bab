"""Every example in a docstring is correct."""

from __future__ import annotations

import doctest
from importlib import import_module
from pathlib import Path

import pytest

import gradviz

PACKAGE = Path(str(gradviz.__file__)).parent


def modules_with_examples() -> list[str]:
    """Names of all modules that hold an example."""
    paths = [path for path in sorted(PACKAGE.rglob("*.py")) if ">>> " in path.read_text(encoding="utf-8")]
    return [
        ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__") for path in paths
    ]


def test_the_functions_of_the_package_have_examples() -> None:
    assert {"gradviz.api", "gradviz.graph.model"} <= set(modules_with_examples())


@pytest.mark.parametrize("name", modules_with_examples())
def test_the_examples_are_true(name: str) -> None:
    found = doctest.testmod(import_module(name), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert found.attempted
    assert not found.failed
