"""Colour and outline of each role, for all formats, light and dark.

Roles differ in outline as well as in colour, for colour-blind users and for grey print. Fills are pale and texts dark
(the reverse in the dark theme), so that every text has a contrast of at least 4.5 to 1 on its fill; a test checks every
pair. The hues follow Okabe and Ito.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gradviz.graph.model import Graph
from gradviz.rendering.look.color_ramps import DARK_TINTS, LIGHT_TINTS, Ink, Tints
from gradviz.rendering.words.flags import FlagLevel
from gradviz.view.model import Item, View

Role = Literal[
    "operation", "view", "custom", "inplace", "checkpoint", "compiled",
    "parameter", "input", "constant", "carried", "cut", "cut_off", "root", "refused", "box",
]  # fmt: skip
Shape = Literal["rounded", "bars", "hexagon", "cut", "double", "octagon", "pill", "slanted"]
ThemeName = Literal["light", "dark"]


@dataclass(frozen=True)
class RoleStyle:
    """How a role looks, apart from its colours."""

    name: str
    """Its name in the legend."""
    shape: Shape
    dashed: bool = False
    sign: str = ""
    """A sign before the title."""


ROLE_STYLES: dict[Role, RoleStyle] = {
    "box": RoleStyle("module call or group", "rounded"),
    "operation": RoleStyle("operation", "rounded"),
    "view": RoleStyle("view, no new storage", "bars"),
    "inplace": RoleStyle("in-place", "cut"),
    "custom": RoleStyle("custom Function", "hexagon"),
    "checkpoint": RoleStyle("checkpoint", "double"),
    "compiled": RoleStyle("compiled", "octagon"),
    "parameter": RoleStyle("parameter", "pill"),
    "input": RoleStyle("input that requires grad", "slanted"),
    "constant": RoleStyle("constant, no gradient", "pill", dashed=True),
    "carried": RoleStyle("from an earlier repetition", "rounded", dashed=True, sign="↻"),
    "cut": RoleStyle("cut, no gradient goes on", "rounded", dashed=True),
    "cut_off": RoleStyle("gets no gradient", "pill", dashed=True),
    "root": RoleStyle("root of backward", "pill"),
    "refused": RoleStyle("root that requires no grad", "pill", dashed=True),
}

CUT_ROLES: tuple[Role, ...] = ("cut", "cut_off", "refused")
"""Roles where no gradient flows: only in pictures with findings, or of a backward call that was refused."""
ROOT_ROLES: frozenset[Role] = frozenset({"root", "refused"})
LEAF_ROLES: frozenset[Role] = frozenset({"parameter", "input", "constant", "carried", "cut_off"})


@dataclass(frozen=True)
class Theme:
    """All colours of one theme."""

    page: str
    text: str
    quiet_text: str
    link: str
    quiet_link: str
    roles: dict[Role, Ink]
    nested: tuple[str, ...]
    """Fills of open boxes by depth; deeper boxes repeat the last one."""
    failed: Ink
    flags: dict[FlagLevel, Ink]
    """Of the flags that say that a gradient is zero, NaN or Inf."""
    tints: Tints


LIGHT = Theme(
    page="#ffffff",
    text="#1d2433",
    quiet_text="#566075",
    link="#6b7690",
    quiet_link="#a3acbd",
    roles={
        "operation": Ink("#ffffff", "#8290a8", "#1d2433"),
        "view": Ink("#ffffff", "#8290a8", "#1d2433"),
        "custom": Ink("#f6e4f2", "#a6488f", "#571f4a"),
        "inplace": Ink("#fde5d8", "#c2571d", "#69290a"),
        "checkpoint": Ink("#ffffff", "#8290a8", "#1d2433"),
        "compiled": Ink("#e7e8fc", "#5a63cc", "#2a3080"),
        "parameter": Ink("#dcebfa", "#2a73b8", "#11395f"),
        "input": Ink("#fdf0cd", "#b98407", "#573d02"),
        "constant": Ink("#f5f6f8", "#98a2b3", "#4a5366"),
        "carried": Ink("#ffffff", "#98a2b3", "#4a5366"),
        "cut": Ink("#ffffff", "#c81e1e", "#7d1010"),
        "cut_off": Ink("#fdf3f3", "#c96a6a", "#7d1010"),
        "root": Ink("#24304d", "#24304d", "#ffffff"),
        "refused": Ink("#ffffff", "#24304d", "#24304d"),
        "box": Ink("#e9eef6", "#7f8fab", "#1d2433"),
    },
    nested=("#f6f8fc", "#edf1f8", "#e5ebf4", "#dde4f0"),
    failed=Ink("#fde3e3", "#c81e1e", "#7d1010"),
    flags={
        "alarm": Ink("#c81e1e", "#c81e1e", "#ffffff"),
        "warning": Ink("#7a4a00", "#7a4a00", "#ffffff"),
        "quiet": Ink("#ffffff", "#98a2b3", "#4a5366"),
    },
    tints=LIGHT_TINTS,
)

DARK = Theme(
    page="#141821",
    text="#e6eaf2",
    quiet_text="#9ca7bb",
    link="#8793ab",
    quiet_link="#566178",
    roles={
        "operation": Ink("#252c3a", "#6f7d97", "#e9edf5"),
        "view": Ink("#252c3a", "#6f7d97", "#e9edf5"),
        "custom": Ink("#41253c", "#cf7fbd", "#f8dff2"),
        "inplace": Ink("#48291a", "#e08a55", "#fde3d3"),
        "checkpoint": Ink("#252c3a", "#6f7d97", "#e9edf5"),
        "compiled": Ink("#2a2e5a", "#8f97ee", "#e4e6fd"),
        "parameter": Ink("#193a5a", "#5ba3e0", "#dcecfb"),
        "input": Ink("#443612", "#d9ab3c", "#fbeecb"),
        "constant": Ink("#1d222d", "#6c778c", "#b4bdcc"),
        "carried": Ink("#252c3a", "#6c778c", "#b4bdcc"),
        "cut": Ink("#252c3a", "#f26d6d", "#ffdede"),
        "cut_off": Ink("#33222a", "#c96a6a", "#ffdede"),
        "root": Ink("#e6eaf2", "#e6eaf2", "#1a2132"),
        "refused": Ink("#252c3a", "#e6eaf2", "#e6eaf2"),
        "box": Ink("#2d3648", "#7f8fab", "#e9edf5"),
    },
    nested=("#191e29", "#1e2431", "#232a39", "#283042"),
    failed=Ink("#4d1b1e", "#f26d6d", "#ffdede"),
    flags={
        "alarm": Ink("#f26d6d", "#f26d6d", "#2a0a0c"),
        "warning": Ink("#f0c05a", "#f0c05a", "#2b1f00"),
        "quiet": Ink("#1d222d", "#6c778c", "#c3cbd9"),
    },
    tints=DARK_TINTS,
)

THEMES: dict[ThemeName, Theme] = {"light": LIGHT, "dark": DARK}


def role_of(item: Item, graph: Graph) -> Role:
    """The role of `item`."""
    match item.kind:
        case "constant":
            return "constant"
        case "root":
            return "root"
        case "carried" | "cut" | "cut_off" | "refused":
            return item.kind
        case "node" if item.node is not None:
            return graph.nodes[item.node].kind
        case _:
            return "box"


def failed_item(view: View, graph: Graph) -> int | None:
    """The id of the innermost item with the node in which backward raised."""
    failed = graph.failed_node
    if failed is None:
        return None
    found = None
    for item in view.items:
        if item.node == failed or failed in item.nodes:
            found = item.id  # A box precedes its children, so the last match is the innermost.
    return found
