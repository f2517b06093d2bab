"""Sketches of random wiring: operations with leaves beside them, in and out of boxes."""

from __future__ import annotations

import random

from tests.unit.rendering.views import Sketch


def random_sketch(seed: int) -> Sketch:
    """The same sketch for the same seed."""
    return _Drawing(seed).sketch


class _Drawing:
    def __init__(self, seed: int) -> None:
        self.choices = random.Random(seed)
        self.sketch = Sketch()
        self.operations: list[int] = []
        for _ in range(self.choices.randint(3, 14)):
            if self.choices.random() < 0.3:
                self._box()
            else:
                self._operation()
        used = {link.source for link in self.sketch.links}
        for last in [operation for operation in self.operations if operation not in used][:4]:
            self.sketch.root("loss", last)

    def _box(self) -> None:
        with self.sketch.box("net.block", subtitle="Block", badge="1k params"):
            for _ in range(self.choices.randint(1, 4)):
                self._operation()

    def _operation(self) -> None:
        leaves = [
            self.sketch.parameter(self.choices.choice(["w", "a_longer_weight_name"]))
            for _ in range(self.choices.choice([0, 0, 1, 2, 3]))
        ]
        if self.choices.random() < 0.25:
            leaves.append(self.sketch.constant("data"))
        title = self.choices.choice(["mul", "layer_norm", "scaled_dot_product"])
        self.operations.append(self.sketch.op(title, *self._sources(), *leaves, shape="[8, 64]"))

    def _sources(self) -> list[int]:
        """One or two operations, recent ones more often than old ones."""
        if not self.operations:
            return []
        count = self.choices.choice([1, 1, 1, 2])
        steps = (min(int(self.choices.expovariate(0.6)), len(self.operations) - 1) for _ in range(count))
        return list(dict.fromkeys(self.operations[-1 - step] for step in steps))
