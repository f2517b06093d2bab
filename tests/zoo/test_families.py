"""A few families of each sort: what was recorded of a training step is true, and the step is what it is without us.

``make conformance`` examines all of them.
"""

from __future__ import annotations

import pytest

from tests.zoo.examination import result_of
from tests.zoo.families import families

FAST_ONES = (
    *("distilbert", "reformer", "llama", "olmoe", "mamba2", "bart"),
    *("swin", "wav2vec2", "clip", "time_series_transformer", "diffusion transformer"),
)


@pytest.mark.parametrize("name", FAST_ONES)
# transformers warns of what it replaces and of what will change in torch.
@pytest.mark.filterwarnings("ignore")
def test_a_recorded_training_step_is_the_plain_one_and_its_graph_is_that_of_a_naive_walk(name: str) -> None:
    (family,) = (family for family in families() if family.name == name)
    result = result_of(family)
    assert result.problems == ()
    assert bool(result.told) == family.hides_layers


def test_families_have_names_of_their_own() -> None:
    names = [family.name for family in families()]
    assert len(names) == len(set(names)) >= 100
