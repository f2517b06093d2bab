"""GV204."""

from __future__ import annotations

from gradviz.analysis.numbers.growth import Descent, Growth
from gradviz.analysis.rules.bases.steep_chain import SteepChain


class VanishingChain(SteepChain):
    """The gradient shrinks at every layer on its path from the loss, until the first layers get almost nothing.

    What it finds
    -------------
    A model in which the gradients between the layers near the input are at least a thousand times smaller than near the
    loss, because many operations in a row each pass on only a part. Also a product of so many small factors that almost
    nothing of the loss's gradient reaches any of them.

    Why it matters
    --------------
    By the chain rule the gradient at a layer is a product with one factor for every layer above it. Factors below one
    (a sigmoid's slope is at most a quarter) make a product that is practically zero: these layers keep their random
    weights.

    Example
    -------
    layers = [torch.nn.Linear(32, 32) for _ in range(20)]
    h = torch.randn(8, 32)
    for layer in layers:
        h = torch.sigmoid(layer(h))
    h.sum().backward()

    Instead
    -------
    layers = [torch.nn.Linear(32, 32) for _ in range(20)]
    h = torch.randn(8, 32)
    for layer in layers:
        h = h + torch.relu(layer(h))
    h.sum().backward()
    """

    code = "GV204"
    name = "vanishing_chain"
    symptom = "vanishing"
    yields_to = ("batch_norm_mixes_points", "cancels_to_zero", "softmax_over_all_groups")
    why = "the gradient of a layer is a product over all layers above it; factors below one make it vanish"
    fix = (
        "use residual connections or normalisation; or an activation whose slope is near one (relu), with weights "
        "that are drawn for it (torch.nn.init.kaiming_normal_)"
    )

    def verdict(self, culprit: Growth, whole: Descent) -> str:
        return (
            f"the gradient vanishes: {len(culprit.nodes)} x {culprit.operation} pass on {culprit.factor:.2g} of it "
            f"each, and {whole.in_words(f'{whole.factor:.1g} of what')}"
        )
