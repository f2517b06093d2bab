"""All rules, in the order of their codes. One problem, one file."""

from __future__ import annotations

from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.broadcast_mismatch import BroadcastMismatch
from gradviz.analysis.rules.broken_weight_tie import BrokenWeightTie
from gradviz.analysis.rules.complex_misuse import ComplexMisuse
from gradviz.analysis.rules.custom_function_bad_return import CustomFunctionBadReturn
from gradviz.analysis.rules.custom_function_wrong_backward import CustomFunctionWrongBackward
from gradviz.analysis.rules.data_access import DataAccess
from gradviz.analysis.rules.data_written_unseen import DataWrittenUnseen
from gradviz.analysis.rules.dead_relu import DeadRelu
from gradviz.analysis.rules.detached import Detached
from gradviz.analysis.rules.double_backward_unsupported import DoubleBackwardUnsupported
from gradviz.analysis.rules.exploding_chain import ExplodingChain
from gradviz.analysis.rules.float64_by_accident import Float64ByAccident
from gradviz.analysis.rules.grad_argument import GradArgument
from gradviz.analysis.rules.graph_freed import GraphFreed
from gradviz.analysis.rules.graph_retained_leak import GraphRetainedLeak
from gradviz.analysis.rules.hook_alters_grad import HookAltersGrad
from gradviz.analysis.rules.idle_graph import IdleGraph
from gradviz.analysis.rules.inference_tensor import InferenceTensor
from gradviz.analysis.rules.inplace_modified_saved import InplaceModifiedSaved
from gradviz.analysis.rules.integer_cast import IntegerCast
from gradviz.analysis.rules.leaf_inplace import LeafInplace
from gradviz.analysis.rules.masked_out import MaskedOut
from gradviz.analysis.rules.missing_zero_grad import MissingZeroGrad
from gradviz.analysis.rules.nan_from_op import NanFromOp
from gradviz.analysis.rules.nan_in_data import NanInData
from gradviz.analysis.rules.nan_in_masked_branch import NanInMaskedBranch
from gradviz.analysis.rules.needless_retain_graph import NeedlessRetainGraph
from gradviz.analysis.rules.no_backward import NoBackward
from gradviz.analysis.rules.no_grad_block import NoGradBlock
from gradviz.analysis.rules.non_differentiable_op import NonDifferentiableOp
from gradviz.analysis.rules.non_leaf import NonLeaf
from gradviz.analysis.rules.not_registered import NotRegistered
from gradviz.analysis.rules.numpy_roundtrip import NumpyRoundtrip
from gradviz.analysis.rules.optimizer_step_before_backward import OptimizerStepBeforeBackward
from gradviz.analysis.rules.overflow import Overflow
from gradviz.analysis.rules.parameter_without_gradient import ParameterWithoutGradient
from gradviz.analysis.rules.reentrant_checkpoint import ReentrantCheckpoint
from gradviz.analysis.rules.requires_grad_false import RequiresGradFalse
from gradviz.analysis.rules.saturation import Saturation
from gradviz.analysis.rules.saved_memory import SavedMemory
from gradviz.analysis.rules.stale_optimizer_params import StaleOptimizerParams
from gradviz.analysis.rules.state_not_detached import StateNotDetached
from gradviz.analysis.rules.tensor_rewrap import TensorRewrap
from gradviz.analysis.rules.unused_parameter import UnusedParameter
from gradviz.analysis.rules.vanishing_chain import VanishingChain
from gradviz.analysis.rules.view_inplace import ViewInplace
from gradviz.analysis.rules.zero_gradient_op import ZeroGradientOp

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
