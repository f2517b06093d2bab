"""Every family of the zoo."""

from __future__ import annotations

from importlib.util import find_spec

from tests.zoo import diffusion_models, language_families, mixed_families, vision_families
from tests.zoo.family import Family


def families() -> tuple[Family, ...]:
    """All of them; those of `torch_geometric` only where it is installed."""
    found = (
        *language_families.FAMILIES,
        *vision_families.FAMILIES,
        *mixed_families.FAMILIES,
        *diffusion_models.FAMILIES,
    )
    if why_some_are_missing():
        return found
    from tests.zoo import graph_networks

    return (*found, *graph_networks.FAMILIES)


def why_some_are_missing() -> str:
    """Why networks on graphs are not examined; nothing where they are."""
    if find_spec("torch_geometric") is None:
        return "networks on graphs: torch_geometric is not installed, 'make conformance' installs it"
    return ""
