"""Which of the node names that the installed torch has are explained."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from gradviz.formulas.available_formulas import known_formulas
from gradviz.formulas.plain import plain_formulas
from gradviz.formulas.special_nodes import SPECIAL_NODES
from tests.integration.formulas.cases import CASES


@dataclass(frozen=True)
class KnownNames:
    """Names of nodes, without their namespace."""

    of_torch: frozenset[str]
    """Those that this torch was compiled with."""
    exact: frozenset[str]
    special: frozenset[str]
    plain: frozenset[str]
    compared: frozenset[str]
    """Those of `plain` whose expressions are compared with autograd by a test."""


def known_names() -> KnownNames:
    """Of the installed torch."""
    return KnownNames(
        of_torch=frozenset(name for name in dir(torch._C._functions) if not name.startswith("__")),
        exact=frozenset(known_formulas().by_node),
        special=frozenset(each.name for each in SPECIAL_NODES),
        plain=frozenset(plain_formulas()),
        compared=frozenset(case.node for case in CASES),
    )


def report(known: KnownNames) -> Iterator[str]:
    """The figures, a line each."""
    own = known.of_torch
    yield f"node names of torch {torch.__version__}: {len(own)}"
    yield f"  {len(own & known.exact)} with its own formula, {len(own & known.special)} written by hand, with a page"
    if unexplained := own - known.exact - known.special:
        yield f"  without any: {', '.join(sorted(unexplained))}"
    yield f"  {len(known.exact - own)} more for functions on lists of tensors"
    yield f"  {len(known.plain)} in plain mathematics, {len(known.plain & known.compared)} compared with autograd"


def classes_that_differ() -> list[str]:
    """Nodes that save something that their formulas do not name.

    The other way round there are some: what Python cannot hold, a scalar type for one, has no attribute.
    """
    found = []
    for name, derivative in known_formulas().by_node.items():
        compiled = getattr(torch._C._functions, name, None)
        slots = {slot.removeprefix("_saved_") for slot in dir(compiled) if slot.startswith("_saved_")}
        if unknown := slots - {each.slot for each in derivative.saved}:
            found.append(f"{name} saves {', '.join(sorted(unknown))}")
    return found
