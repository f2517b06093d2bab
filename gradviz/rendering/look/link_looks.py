"""How a link is drawn, depending on the gradient that flows back along it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gradviz.analysis.numbers.gradient_origins import BROKEN, state_of
from gradviz.rendering.look.color_by import Colouring
from gradviz.rendering.look.scales import Scale
from gradviz.rendering.words.gradient_words import LinkGradients
from gradviz.view.model import CUT_KINDS, Link, View

LinkState = Literal["", "lost", "broken", "ghost"]
"""``lost``: only zeros flow back; ``broken``: NaN or Inf flow back; ``ghost``: a gradient would flow back if it were
not cut off."""
WIDTHS = (0.8, 1.2, 1.7, 2.3, 3.0, 3.8, 4.8)
"""In pixels, for the steps of a scale."""


@dataclass(frozen=True, slots=True)
class LinkLook:
    """How one link is drawn."""

    state: LinkState = ""
    step: int | None = None
    """On the scale of gradients, if the picture shows one."""


def link_looks(view: View, gradients: LinkGradients, colouring: Colouring | None) -> list[LinkLook]:
    """The look of every link of `view`, in order. If gradients colour the picture, they also set the width."""
    scale = colouring.scale if colouring is not None and colouring.by == "gradient" else None
    return [link_look(view, gradients, link, scale) for link in view.links]


def link_look(view: View, gradients: LinkGradients, link: Link, scale: Scale | None = None) -> LinkLook:
    """How one link of `view` is drawn."""
    if view.items[link.source].kind in CUT_KINDS or view.items[link.target].kind == "cut":
        return LinkLook("ghost")
    state = state_of([branch.gradient for branch in gradients.along(link)])
    if state in BROKEN:
        return LinkLook("broken")
    if state in ("zero", "none"):
        return LinkLook("lost")
    norm = None if scale is None else largest_norm(gradients, link)
    return LinkLook(step=None if scale is None or norm is None else scale.step(norm))


def largest_norm(gradients: LinkGradients, link: Link) -> float | None:
    """The largest norm of the edges that a link represents: a thin wire would hide it."""
    along = (branch.gradient for branch in gradients.along(link))
    return max((each.norm for each in along if each is not None and each.norm), default=None)
