"""GV304."""

from __future__ import annotations

from gradviz.analysis.numbers.growth import Descent, Growth
from gradviz.analysis.rules.bases.steep_chain import SteepChain


class ExplodingChain(SteepChain):
    """The gradient grows at every layer on its path from the loss, until it is huge at the first layers.

    What it finds
    -------------
    A model in which the gradients between the layers near the input are at least a thousand times larger than near the
    loss, because many operations in a row each make them larger. It is a note where they are clipped before the step.

    Why it matters
    --------------
    By the chain rule the gradient at a layer is a product with one factor for every layer above it. Factors above one
    (weights drawn with standard deviation 1 multiply it by about the square root of their number of outputs) make a
    product that fits no learning rate, and that overflows in the end.

    Example
    -------
    layers = [torch.nn.Linear(64, 64) for _ in range(12)]
    for layer in layers:
        torch.nn.init.normal_(layer.weight)
    h = torch.randn(8, 64)
    for layer in layers:
        h = torch.relu(layer(h))
    h.sum().backward()

    Instead
    -------
    layers = [torch.nn.Linear(64, 64) for _ in range(12)]
    for layer in layers:
        torch.nn.init.kaiming_normal_(layer.weight)
    h = torch.randn(8, 64)
    for layer in layers:
        h = torch.relu(layer(h))
    h.sum().backward()
    """

    code = "GV304"
    name = "exploding_chain"
    symptom = "exploding"
    yields_to = ("clip_misplaced",)  # what was meant to bound it does nothing
    why = "the gradient of a layer is a product over all layers above it; factors above one make it explode"
    fix = (
        "initialise weights for their width (torch.nn.init.kaiming_normal_), or normalise activations; in a loop, take "
        "smaller steps or fewer rounds"
    )

    def verdict(self, culprit: Growth, whole: Descent) -> str:
        return (
            f"the gradient explodes: {len(culprit.nodes)} x {culprit.operation} make it {culprit.factor:.2g} times as "
            f"large each, and {whole.in_words(f'{whole.factor:.1g} times what')}"
        )
