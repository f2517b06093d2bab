"""Causes in other shapes than the documentation shows: cases of the corpus on which rules once failed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gradviz.analysis.case import Case
from gradviz.analysis.check.checker import check_case
from gradviz.analysis.finding import Finding
from gradviz.analysis.rules import RULES
from tests.integration.recording.helpers import EVERY_CALL, recorded_script

CASES = Path(__file__).parents[2] / "corpus" / "cases"

FAULTS = (
    "h01_grad_none_detached_property_view",
    "h12_grad_wrong_unregistered_custom_blocks",
    "e04_grad_wrong_stale_optimizer_grown_layer",
    "e06_grad_wrong_stale_optimizer_meta_clone",
    "h14_grad_wrong_stale_optimizer_new_model_per_fold",
    "e07_grad_none_unused_skip_branch",
    "e09_raises_unused_autograd_grad_raises",
    "e15_grad_zero_dead_relu_after_huge_step",
    "h19_grad_zero_masked_empty_train_mask",
    "f29_grad_wrong_double_backward_maml_detached",
    "g01_grad_wrong_hook_returns_norm",
    "g14_raises_reentrant_frozen_embedding",
    "h42_grad_none_reentrant_dict_input",
    "h38_grad_wrong_broadcast_bce_labels",
    "g16_vanishing_vanishing_tanh_rnn",
    "g20_exploding_exploding_residual_gain",
    "g25_grad_wrong_tie_broken_by_new_parameter",
    "e08_grad_none_unused_overwritten_term",
    "p22_raises_vq_codebook_ema_in_forward",
    "p37_grad_zero_dueling_one_action",
    "p38_grad_zero_tanh_on_pixels",
    "p41_vanishing_survival_product",
    "p47_grad_none_variable_of_data",
    "p48_raises_style_image_clone",
    "p51_grad_none_loss_in_variable",
    "p52_raises_gradcam_under_no_grad",
    "s11_raises_adjacency_in_constructor",
    "s13_raises_gradcam_hook_frozen",
    "s31_raises_exit_stack_no_grad",
    "s37_grad_none_vector_to_parameters",
    "s38_grad_none_load_state_dict_of_results",
)
CONTROLS = (
    "m22_control_head_swapped_before_optimizer",
    "m37_control_rezero_layerscale",
    "m41_control_hinge_reaches_zero",
    "z02_control_ranknet_bias_cancels",
    "z09_control_deep_net_nearly_fitted",
)


def alarms(case: str, folder: Path) -> list[Finding]:
    source = (CASES / case / "script.py").read_text(encoding="utf-8")
    findings = check_case(Case(recorded_script(folder, source, EVERY_CALL)), RULES).findings
    return [finding for finding in findings if finding.is_alarm]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", FAULTS)
def test_the_cause_is_named_with_its_line(case: str, tmp_path: Path) -> None:
    expected = json.loads((CASES / case / "expected.json").read_text(encoding="utf-8"))
    first = alarms(case, tmp_path)[0]
    lines = expected["line"] if isinstance(expected["line"], list) else [expected["line"]]
    assert first.location is not None
    assert (first.cause, first.location.line in lines) == (expected["cause"], True), first


@pytest.mark.parametrize("case", CONTROLS)
def test_a_healthy_program_raises_no_alarm(case: str, tmp_path: Path) -> None:
    assert alarms(case, tmp_path) == []
