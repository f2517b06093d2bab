"""All rules, in the order of their codes. One problem, one file."""

from __future__ import annotations

from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.cost.float64_by_accident import Float64ByAccident
from gradviz.analysis.rules.cost.idle_graph import IdleGraph
from gradviz.analysis.rules.cost.needless_retain_graph import NeedlessRetainGraph
from gradviz.analysis.rules.cost.reentrant_checkpoint import ReentrantCheckpoint
from gradviz.analysis.rules.cost.saved_memory import SavedMemory
from gradviz.analysis.rules.graph_lifetime.graph_freed import GraphFreed
from gradviz.analysis.rules.graph_lifetime.graph_retained_leak import GraphRetainedLeak
from gradviz.analysis.rules.graph_lifetime.state_not_detached import StateNotDetached
from gradviz.analysis.rules.in_place.data_written_unseen import DataWrittenUnseen
from gradviz.analysis.rules.in_place.inplace_modified_saved import InplaceModifiedSaved
from gradviz.analysis.rules.in_place.leaf_inplace import LeafInplace
from gradviz.analysis.rules.in_place.optimizer_step_before_backward import OptimizerStepBeforeBackward
from gradviz.analysis.rules.in_place.view_inplace import ViewInplace
from gradviz.analysis.rules.missing.complex_misuse import ComplexMisuse
from gradviz.analysis.rules.missing.data_access import DataAccess
from gradviz.analysis.rules.missing.detached import Detached
from gradviz.analysis.rules.missing.inference_tensor import InferenceTensor
from gradviz.analysis.rules.missing.integer_cast import IntegerCast
from gradviz.analysis.rules.missing.no_backward import NoBackward
from gradviz.analysis.rules.missing.no_grad_block import NoGradBlock
from gradviz.analysis.rules.missing.non_differentiable_op import NonDifferentiableOp
from gradviz.analysis.rules.missing.numpy_roundtrip import NumpyRoundtrip
from gradviz.analysis.rules.missing.tensor_rewrap import TensorRewrap
from gradviz.analysis.rules.nan.exploding_chain import ExplodingChain
from gradviz.analysis.rules.nan.nan_from_op import NanFromOp
from gradviz.analysis.rules.nan.nan_in_data import NanInData
from gradviz.analysis.rules.nan.nan_in_masked_branch import NanInMaskedBranch
from gradviz.analysis.rules.nan.overflow import Overflow
from gradviz.analysis.rules.parameters.broken_weight_tie import BrokenWeightTie
from gradviz.analysis.rules.parameters.non_leaf import NonLeaf
from gradviz.analysis.rules.parameters.not_registered import NotRegistered
from gradviz.analysis.rules.parameters.parameter_without_gradient import ParameterWithoutGradient
from gradviz.analysis.rules.parameters.requires_grad_false import RequiresGradFalse
from gradviz.analysis.rules.parameters.unused_parameter import UnusedParameter
from gradviz.analysis.rules.wrong.broadcast_mismatch import BroadcastMismatch
from gradviz.analysis.rules.wrong.custom_function_bad_return import CustomFunctionBadReturn
from gradviz.analysis.rules.wrong.custom_function_wrong_backward import CustomFunctionWrongBackward
from gradviz.analysis.rules.wrong.double_backward_unsupported import DoubleBackwardUnsupported
from gradviz.analysis.rules.wrong.grad_argument import GradArgument
from gradviz.analysis.rules.wrong.hook_alters_grad import HookAltersGrad
from gradviz.analysis.rules.wrong.missing_zero_grad import MissingZeroGrad
from gradviz.analysis.rules.wrong.stale_optimizer_params import StaleOptimizerParams
from gradviz.analysis.rules.zero.dead_relu import DeadRelu
from gradviz.analysis.rules.zero.masked_out import MaskedOut
from gradviz.analysis.rules.zero.saturation import Saturation
from gradviz.analysis.rules.zero.vanishing_chain import VanishingChain
from gradviz.analysis.rules.zero.zero_gradient_op import ZeroGradientOp

RULES: tuple[type[Rule], ...] = (
    Detached,
    NoGradBlock,
    InferenceTensor,
    DataAccess,
    NumpyRoundtrip,
    TensorRewrap,
    NonDifferentiableOp,
    IntegerCast,
    ComplexMisuse,
    NoBackward,
    ZeroGradientOp,
    DeadRelu,
    Saturation,
    VanishingChain,
    MaskedOut,
    NanFromOp,
    NanInMaskedBranch,
    Overflow,
    ExplodingChain,
    NanInData,
    InplaceModifiedSaved,
    OptimizerStepBeforeBackward,
    LeafInplace,
    ViewInplace,
    DataWrittenUnseen,
    GraphFreed,
    StateNotDetached,
    GraphRetainedLeak,
    MissingZeroGrad,
    StaleOptimizerParams,
    CustomFunctionWrongBackward,
    CustomFunctionBadReturn,
    DoubleBackwardUnsupported,
    HookAltersGrad,
    GradArgument,
    BroadcastMismatch,
    RequiresGradFalse,
    NonLeaf,
    NotRegistered,
    UnusedParameter,
    BrokenWeightTie,
    ReentrantCheckpoint,
    IdleGraph,
    NeedlessRetainGraph,
    Float64ByAccident,
)

ON_REQUEST: tuple[type[Rule], ...] = (ParameterWithoutGradient, SavedMemory)
"""Those that only run where an option asks for them."""
