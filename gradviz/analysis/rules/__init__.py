"""All rules, in the order of their codes. One problem, one file."""

from __future__ import annotations

from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.batches.accumulation_divided_twice import AccumulationDividedTwice
from gradviz.analysis.rules.batches.assigned_as_a_whole import AssignedAsAWhole
from gradviz.analysis.rules.batches.augmented_apart import AugmentedApart
from gradviz.analysis.rules.batches.batch_of_equal_rows import BatchOfEqualRows
from gradviz.analysis.rules.batches.batches_of_one_class import BatchesOfOneClass
from gradviz.analysis.rules.batches.batches_of_one_sample import BatchesOfOneSample
from gradviz.analysis.rules.batches.drawn_before_offset import DrawnBeforeOffset
from gradviz.analysis.rules.batches.drawn_from_other_table import DrawnFromOtherTable
from gradviz.analysis.rules.batches.indexes_not_shifted import IndexesNotShifted
from gradviz.analysis.rules.batches.labels_mixed_otherwise import LabelsMixedOtherwise
from gradviz.analysis.rules.batches.noise_drawn_once import NoiseDrawnOnce
from gradviz.analysis.rules.batches.order_applied_twice import OrderAppliedTwice
from gradviz.analysis.rules.batches.row_never_trained import RowNeverTrained
from gradviz.analysis.rules.batches.rows_grouped_otherwise import RowsGroupedOtherwise
from gradviz.analysis.rules.batches.series_dealt_out import SeriesDealtOut
from gradviz.analysis.rules.batches.shuffled_apart import ShuffledApart
from gradviz.analysis.rules.batches.sorted_apart import SortedApart
from gradviz.analysis.rules.batches.split_twice import SplitTwice
from gradviz.analysis.rules.batches.targets_weigh_by_batch import TargetsWeighByBatch
from gradviz.analysis.rules.batches.trained_on_all import TrainedOnAll
from gradviz.analysis.rules.batches.weights_of_classes_drawn import WeightsOfClassesDrawn
from gradviz.analysis.rules.bootstraps.copy_chooses import CopyChooses
from gradviz.analysis.rules.bootstraps.ends_one_step_late import EndsOneStepLate
from gradviz.analysis.rules.cost.checkpoint_changes_state import CheckpointChangesState
from gradviz.analysis.rules.cost.float64_by_accident import Float64ByAccident
from gradviz.analysis.rules.cost.graph_break import GraphBreak
from gradviz.analysis.rules.cost.idle_graph import IdleGraph
from gradviz.analysis.rules.cost.needless_retain_graph import NeedlessRetainGraph
from gradviz.analysis.rules.cost.other_random_numbers import OtherRandomNumbers
from gradviz.analysis.rules.cost.recompiled import Recompiled
from gradviz.analysis.rules.cost.reentrant_checkpoint import ReentrantCheckpoint
from gradviz.analysis.rules.cost.saved_memory import SavedMemory
from gradviz.analysis.rules.densities.divergence_of_weights_whole import DivergenceOfWeightsWhole
from gradviz.analysis.rules.densities.levels_walked_upwards import LevelsWalkedUpwards
from gradviz.analysis.rules.densities.mean_of_log_densities import MeanOfLogDensities
from gradviz.analysis.rules.densities.mixed_for_each_output import MixedForEachOutput
from gradviz.analysis.rules.densities.same_half_kept import SameHalfKept
from gradviz.analysis.rules.densities.squash_not_counted import SquashNotCounted
from gradviz.analysis.rules.densities.unreachable_entropy import UnreachableEntropy
from gradviz.analysis.rules.detections.boxes_not_flipped import BoxesNotFlipped
from gradviz.analysis.rules.detections.corners_not_exchanged import CornersNotExchanged
from gradviz.analysis.rules.detections.focal_factor_of_one_class import FocalFactorOfOneClass
from gradviz.analysis.rules.detections.restored_in_other_order import RestoredInOtherOrder
from gradviz.analysis.rules.detections.sides_not_exchanged import SidesNotExchanged
from gradviz.analysis.rules.distributed.collective_on_some_ranks import CollectiveOnSomeRanks
from gradviz.analysis.rules.distributed.collective_order import CollectiveOrder
from gradviz.analysis.rules.distributed.collective_shapes import CollectiveShapes
from gradviz.analysis.rules.distributed.no_progress import NoProgress
from gradviz.analysis.rules.distributed.rank_failed import RankFailed
from gradviz.analysis.rules.distributed.replicas_drifted import ReplicasDrifted
from gradviz.analysis.rules.distributed.same_data_on_ranks import SameDataOnRanks
from gradviz.analysis.rules.distributed.uneven_steps import UnevenSteps
from gradviz.analysis.rules.distributed.unused_on_some_ranks import UnusedOnSomeRanks
from gradviz.analysis.rules.evaluation.best_never_updated import BestNeverUpdated
from gradviz.analysis.rules.evaluation.copy_never_updated import CopyNeverUpdated
from gradviz.analysis.rules.evaluation.failures_never_forgotten import FailuresNeverForgotten
from gradviz.analysis.rules.evaluation.first_batch_each_time import FirstBatchEachTime
from gradviz.analysis.rules.evaluation.fitted_on_each_part import FittedOnEachPart
from gradviz.analysis.rules.evaluation.folds_share_a_model import FoldsShareAModel
from gradviz.analysis.rules.evaluation.held_out_in_loss import HeldOutInLoss
from gradviz.analysis.rules.evaluation.labels_in_other_order import LabelsInOtherOrder
from gradviz.analysis.rules.evaluation.loaded_and_drawn_again import LoadedAndDrawnAgain
from gradviz.analysis.rules.evaluation.loaded_and_other_scored import LoadedAndOtherScored
from gradviz.analysis.rules.evaluation.logits_as_probabilities import LogitsAsProbabilities
from gradviz.analysis.rules.evaluation.merged_each_time import MergedEachTime
from gradviz.analysis.rules.evaluation.pixels_scaled_otherwise import PixelsScaledOtherwise
from gradviz.analysis.rules.evaluation.prepared_otherwise import PreparedOtherwise
from gradviz.analysis.rules.evaluation.ranked_by_classes import RankedByClasses
from gradviz.analysis.rules.evaluation.repeated_before_split import RepeatedBeforeSplit
from gradviz.analysis.rules.evaluation.scored_in_other_units import ScoredInOtherUnits
from gradviz.analysis.rules.evaluation.scored_on_trained_rows import ScoredOnTrainedRows
from gradviz.analysis.rules.evaluation.transform_of_both_parts import TransformOfBothParts
from gradviz.analysis.rules.evaluation.values_as_classes import ValuesAsClasses
from gradviz.analysis.rules.evaluation.worst_state_kept import WorstStateKept
from gradviz.analysis.rules.features.ids_in_two_bytes import IdsInTwoBytes
from gradviz.analysis.rules.features.lengths_in_other_units import LengthsInOtherUnits
from gradviz.analysis.rules.features.mask_token_overwritten import MaskTokenOverwritten
from gradviz.analysis.rules.features.missing_as_numbers import MissingAsNumbers
from gradviz.analysis.rules.features.padding_in_statistics import PaddingInStatistics
from gradviz.analysis.rules.features.periods_are_whole import PeriodsAreWhole
from gradviz.analysis.rules.fields.classes_interpolated import ClassesInterpolated
from gradviz.analysis.rules.fields.decoded_meets_encoded import DecodedMeetsEncoded
from gradviz.analysis.rules.fields.derivative_by_scaled_input import DerivativeByScaledInput
from gradviz.analysis.rules.fields.derivative_not_rescaled import DerivativeNotRescaled
from gradviz.analysis.rules.fields.flow_enlarged_only import FlowEnlargedOnly
from gradviz.analysis.rules.fields.grid_of_rows_first import GridOfRowsFirst
from gradviz.analysis.rules.fields.integers_wrap_around import IntegersWrapAround
from gradviz.analysis.rules.fields.products_across_images import ProductsAcrossImages
from gradviz.analysis.rules.fields.residuals_cancel import ResidualsCancel
from gradviz.analysis.rules.fields.slides_over_features import SlidesOverFeatures
from gradviz.analysis.rules.fields.survival_counts_itself import SurvivalCountsItself
from gradviz.analysis.rules.forecasts.level_not_restored import LevelNotRestored
from gradviz.analysis.rules.forecasts.positions_start_again import PositionsStartAgain
from gradviz.analysis.rules.forecasts.restored_by_other_column import RestoredByOtherColumn
from gradviz.analysis.rules.forecasts.scaled_by_target import ScaledByTarget
from gradviz.analysis.rules.forecasts.windows_split_at_random import WindowsSplitAtRandom
from gradviz.analysis.rules.graph_lifetime.backward_failed import BackwardFailed
from gradviz.analysis.rules.graph_lifetime.copied_with_graph import CopiedWithGraph
from gradviz.analysis.rules.graph_lifetime.graph_freed import GraphFreed
from gradviz.analysis.rules.graph_lifetime.graph_retained_leak import GraphRetainedLeak
from gradviz.analysis.rules.graph_lifetime.hooked_again import HookedAgain
from gradviz.analysis.rules.graph_lifetime.losses_left_behind import LossesLeftBehind
from gradviz.analysis.rules.graph_lifetime.read_before_grad import ReadBeforeGrad
from gradviz.analysis.rules.graph_lifetime.state_not_detached import StateNotDetached
from gradviz.analysis.rules.in_place.average_of_one_state import AverageOfOneState
from gradviz.analysis.rules.in_place.changed_under_two_names import ChangedUnderTwoNames
from gradviz.analysis.rules.in_place.copy_changed import CopyChanged
from gradviz.analysis.rules.in_place.data_changed_again import DataChangedAgain
from gradviz.analysis.rules.in_place.data_written_unseen import DataWrittenUnseen
from gradviz.analysis.rules.in_place.gradients_overwritten import GradientsOverwritten
from gradviz.analysis.rules.in_place.inplace_modified_saved import InplaceModifiedSaved
from gradviz.analysis.rules.in_place.leaf_inplace import LeafInplace
from gradviz.analysis.rules.in_place.optimizer_step_before_backward import OptimizerStepBeforeBackward
from gradviz.analysis.rules.in_place.shallow_copy_changed import ShallowCopyChanged
from gradviz.analysis.rules.in_place.view_inplace import ViewInplace
from gradviz.analysis.rules.initial_values.average_of_the_start import AverageOfTheStart
from gradviz.analysis.rules.initial_values.gains_start_at_zero import GainsStartAtZero
from gradviz.analysis.rules.initial_values.members_are_alike import MembersAreAlike
from gradviz.analysis.rules.initial_values.model_made_anew import ModelMadeAnew
from gradviz.analysis.rules.initial_values.new_layer_stays_random import NewLayerStaysRandom
from gradviz.analysis.rules.initial_values.new_rows_stay_random import NewRowsStayRandom
from gradviz.analysis.rules.initial_values.padding_row_drawn import PaddingRowDrawn
from gradviz.analysis.rules.likelihoods.divergence_maximized import DivergenceMaximized
from gradviz.analysis.rules.likelihoods.divergence_outweighs import DivergenceOutweighs
from gradviz.analysis.rules.likelihoods.divergence_turned_around import DivergenceTurnedAround
from gradviz.analysis.rules.likelihoods.entropy_without_log import EntropyWithoutLog
from gradviz.analysis.rules.likelihoods.fit_maximized import FitMaximized
from gradviz.analysis.rules.likelihoods.gumbel_noise import GumbelNoise
from gradviz.analysis.rules.likelihoods.log_determinant_lost import LogDeterminantLost
from gradviz.analysis.rules.likelihoods.log_determinant_of_one_position import LogDeterminantOfOnePosition
from gradviz.analysis.rules.likelihoods.mixed_without_root import MixedWithoutRoot
from gradviz.analysis.rules.likelihoods.noise_scaled_by_variance import NoiseScaledByVariance
from gradviz.analysis.rules.likelihoods.other_temperature import OtherTemperature
from gradviz.analysis.rules.likelihoods.risk_set_not_sorted import RiskSetNotSorted
from gradviz.analysis.rules.likelihoods.risk_set_reversed import RiskSetReversed
from gradviz.analysis.rules.likelihoods.scale_bounded_once import ScaleBoundedOnce
from gradviz.analysis.rules.likelihoods.scale_rewarded import ScaleRewarded
from gradviz.analysis.rules.likelihoods.scale_where_masked import ScaleWhereMasked
from gradviz.analysis.rules.likelihoods.schedule_not_accumulated import ScheduleNotAccumulated
from gradviz.analysis.rules.likelihoods.uniform_noise import UniformNoise
from gradviz.analysis.rules.likelihoods.velocity_reversed import VelocityReversed
from gradviz.analysis.rules.likelihoods.weights_not_normalized import WeightsNotNormalized
from gradviz.analysis.rules.likelihoods.weights_of_losses_fall import WeightsOfLossesFall
from gradviz.analysis.rules.loops.argument_never_read import ArgumentNeverRead
from gradviz.analysis.rules.loops.best_is_the_model import BestIsTheModel
from gradviz.analysis.rules.loops.count_over_batches import CountOverBatches
from gradviz.analysis.rules.loops.kept_of_other_batch import KeptOfOtherBatch
from gradviz.analysis.rules.loops.left_at_once import LeftAtOnce
from gradviz.analysis.rules.loops.part_never_read import PartNeverRead
from gradviz.analysis.rules.loops.rate_in_variable import RateInVariable
from gradviz.analysis.rules.loops.score_of_last_batch import ScoreOfLastBatch
from gradviz.analysis.rules.loops.value_of_the_last_turn import ValueOfTheLastTurn
from gradviz.analysis.rules.measures.blanks_removed_first import BlanksRemovedFirst
from gradviz.analysis.rules.measures.changed_at_random import ChangedAtRandom
from gradviz.analysis.rules.measures.error_moved_by_mean import ErrorMovedByMean
from gradviz.analysis.rules.measures.kept_from_before_steps import KeptFromBeforeSteps
from gradviz.analysis.rules.measures.mean_of_ratios import MeanOfRatios
from gradviz.analysis.rules.measures.padding_in_count import PaddingInCount
from gradviz.analysis.rules.measures.parts_joined_by_and import PartsJoinedByAnd
from gradviz.analysis.rules.measures.query_finds_itself import QueryFindsItself
from gradviz.analysis.rules.measures.scored_links_passed import ScoredLinksPassed
from gradviz.analysis.rules.measures.seen_items_ranked import SeenItemsRanked
from gradviz.analysis.rules.missing_gradients.adapted_and_not_used import AdaptedAndNotUsed
from gradviz.analysis.rules.missing_gradients.complex_misuse import ComplexMisuse
from gradviz.analysis.rules.missing_gradients.copy_used_instead import CopyUsedInstead
from gradviz.analysis.rules.missing_gradients.create_graph_missing import CreateGraphMissing
from gradviz.analysis.rules.missing_gradients.data_access import DataAccess
from gradviz.analysis.rules.missing_gradients.detached import Detached
from gradviz.analysis.rules.missing_gradients.function_hides_parameter import FunctionHidesParameter
from gradviz.analysis.rules.missing_gradients.inference_tensor import InferenceTensor
from gradviz.analysis.rules.missing_gradients.integer_cast import IntegerCast
from gradviz.analysis.rules.missing_gradients.no_backward import NoBackward
from gradviz.analysis.rules.missing_gradients.no_grad_block import NoGradBlock
from gradviz.analysis.rules.missing_gradients.non_differentiable_op import NonDifferentiableOp
from gradviz.analysis.rules.missing_gradients.numpy_roundtrip import NumpyRoundtrip
from gradviz.analysis.rules.missing_gradients.only_last_counts import OnlyLastCounts
from gradviz.analysis.rules.missing_gradients.prefix_matches_more import PrefixMatchesMore
from gradviz.analysis.rules.missing_gradients.routed_without_weight import RoutedWithoutWeight
from gradviz.analysis.rules.missing_gradients.sampled_without_gradient import SampledWithoutGradient
from gradviz.analysis.rules.missing_gradients.state_cut_each_step import StateCutEachStep
from gradviz.analysis.rules.missing_gradients.tensor_rewrap import TensorRewrap
from gradviz.analysis.rules.missing_gradients.term_for_nobody import TermForNobody
from gradviz.analysis.rules.missing_gradients.term_without_gradient import TermWithoutGradient
from gradviz.analysis.rules.nan_gradients.exploding_chain import ExplodingChain
from gradviz.analysis.rules.nan_gradients.nan_from_op import NanFromOp
from gradviz.analysis.rules.nan_gradients.nan_in_data import NanInData
from gradviz.analysis.rules.nan_gradients.nan_in_masked_branch import NanInMaskedBranch
from gradviz.analysis.rules.nan_gradients.overflow import Overflow
from gradviz.analysis.rules.neighbours.counted_at_other_end import CountedAtOtherEnd
from gradviz.analysis.rules.objectives.added_to_itself import AddedToItself
from gradviz.analysis.rules.objectives.arguments_swapped import ArgumentsSwapped
from gradviz.analysis.rules.objectives.divided_by_variance import DividedByVariance
from gradviz.analysis.rules.objectives.dropout_before_loss import DropoutBeforeLoss
from gradviz.analysis.rules.objectives.focal_factor_of_hits import FocalFactorOfHits
from gradviz.analysis.rules.objectives.focal_factor_of_the_mean import FocalFactorOfTheMean
from gradviz.analysis.rules.objectives.no_nonlinearity import NoNonlinearity
from gradviz.analysis.rules.objectives.one_norm_for_all_samples import OneNormForAllSamples
from gradviz.analysis.rules.objectives.order_as_rank import OrderAsRank
from gradviz.analysis.rules.objectives.other_quantile import OtherQuantile
from gradviz.analysis.rules.objectives.outputs_summed import OutputsSummed
from gradviz.analysis.rules.objectives.overlap_minimized import OverlapMinimized
from gradviz.analysis.rules.objectives.overlap_not_clamped import OverlapNotClamped
from gradviz.analysis.rules.objectives.overlap_of_logits import OverlapOfLogits
from gradviz.analysis.rules.objectives.players_agree import PlayersAgree
from gradviz.analysis.rules.objectives.rare_class_weighs_less import RareClassWeighsLess
from gradviz.analysis.rules.objectives.reversed_for_all import ReversedForAll
from gradviz.analysis.rules.objectives.reversed_twice import ReversedTwice
from gradviz.analysis.rules.objectives.same_term_twice import SameTermTwice
from gradviz.analysis.rules.objectives.straight_through_reversed import StraightThroughReversed
from gradviz.analysis.rules.objectives.weights_after_mean import WeightsAfterMean
from gradviz.analysis.rules.optimizers.average_never_read import AverageNeverRead
from gradviz.analysis.rules.optimizers.counted_by_parameter import CountedByParameter
from gradviz.analysis.rules.optimizers.counter_never_advances import CounterNeverAdvances
from gradviz.analysis.rules.optimizers.decay_of_wrong_group import DecayOfWrongGroup
from gradviz.analysis.rules.optimizers.frozen_still_moves import FrozenStillMoves
from gradviz.analysis.rules.optimizers.iterator_used_up import IteratorUsedUp
from gradviz.analysis.rules.optimizers.momentum_is_gradient import MomentumIsGradient
from gradviz.analysis.rules.optimizers.names_match_nothing import NamesMatchNothing
from gradviz.analysis.rules.optimizers.not_moved_back import NotMovedBack
from gradviz.analysis.rules.optimizers.not_stepped import NotStepped
from gradviz.analysis.rules.optimizers.one_clip_for_all_samples import OneClipForAllSamples
from gradviz.analysis.rules.optimizers.optimizer_made_anew import OptimizerMadeAnew
from gradviz.analysis.rules.optimizers.pruned_grows_back import PrunedGrowsBack
from gradviz.analysis.rules.optimizers.state_stays_zero import StateStaysZero
from gradviz.analysis.rules.optimizers.step_without_effect import StepWithoutEffect
from gradviz.analysis.rules.optimizers.steps_from_the_start import StepsFromTheStart
from gradviz.analysis.rules.optimizers.steps_too_large import StepsTooLarge
from gradviz.analysis.rules.optimizers.steps_up_gradient import StepsUpGradient
from gradviz.analysis.rules.optimizers.two_optimizers import TwoOptimizers
from gradviz.analysis.rules.optimizers.wrong_optimizer import WrongOptimizer
from gradviz.analysis.rules.optimizers.wrong_second_moment import WrongSecondMoment
from gradviz.analysis.rules.parameters.attribute_without_effect import AttributeWithoutEffect
from gradviz.analysis.rules.parameters.average_wrong_way import AverageWrongWay
from gradviz.analysis.rules.parameters.broken_weight_tie import BrokenWeightTie
from gradviz.analysis.rules.parameters.copied_onto_itself import CopiedOntoItself
from gradviz.analysis.rules.parameters.difference_with_itself import DifferenceWithItself
from gradviz.analysis.rules.parameters.evaluation_mode import EvaluationMode
from gradviz.analysis.rules.parameters.features_redrawn import FeaturesRedrawn
from gradviz.analysis.rules.parameters.frozen_at_zero import FrozenAtZero
from gradviz.analysis.rules.parameters.non_leaf import NonLeaf
from gradviz.analysis.rules.parameters.not_registered import NotRegistered
from gradviz.analysis.rules.parameters.nothing_loaded import NothingLoaded
from gradviz.analysis.rules.parameters.one_module_at_many_places import OneModuleAtManyPlaces
from gradviz.analysis.rules.parameters.padding_row_used import PaddingRowUsed
from gradviz.analysis.rules.parameters.parameter_without_gradient import ParameterWithoutGradient
from gradviz.analysis.rules.parameters.plain_tensor import PlainTensor
from gradviz.analysis.rules.parameters.requires_grad_false import RequiresGradFalse
from gradviz.analysis.rules.parameters.statistics_never_updated import StatisticsNeverUpdated
from gradviz.analysis.rules.parameters.training_mode import TrainingMode
from gradviz.analysis.rules.parameters.units_stay_alike import UnitsStayAlike
from gradviz.analysis.rules.parameters.unused_parameter import UnusedParameter
from gradviz.analysis.rules.parameters.update_discarded import UpdateDiscarded
from gradviz.analysis.rules.penalties.decay_outweighs import DecayOutweighs
from gradviz.analysis.rules.penalties.penalty_subtracted import PenaltySubtracted
from gradviz.analysis.rules.penalties.penalty_without_abs import PenaltyWithoutAbs
from gradviz.analysis.rules.players.judged_as_another import JudgedAsAnother
from gradviz.analysis.rules.reinforcement.advantage_reversed import AdvantageReversed
from gradviz.analysis.rules.reinforcement.advantages_cross_ends import AdvantagesCrossEnds
from gradviz.analysis.rules.reinforcement.best_instead_of_taken import BestInsteadOfTaken
from gradviz.analysis.rules.reinforcement.bootstraps_at_ends import BootstrapsAtEnds
from gradviz.analysis.rules.reinforcement.drawn_twice import DrawnTwice
from gradviz.analysis.rules.reinforcement.entropy_contradicts import EntropyContradicts
from gradviz.analysis.rules.reinforcement.entropy_minimized import EntropyMinimized
from gradviz.analysis.rules.reinforcement.entropy_of_scores import EntropyOfScores
from gradviz.analysis.rules.reinforcement.estimate_turned_around import EstimateTurnedAround
from gradviz.analysis.rules.reinforcement.index_as_value import IndexAsValue
from gradviz.analysis.rules.reinforcement.larger_of_two_critics import LargerOfTwoCritics
from gradviz.analysis.rules.reinforcement.levels_along_targets import LevelsAlongTargets
from gradviz.analysis.rules.reinforcement.multiplier_not_detached import MultiplierNotDetached
from gradviz.analysis.rules.reinforcement.multiplier_reversed import MultiplierReversed
from gradviz.analysis.rules.reinforcement.next_state_is_state import NextStateIsState
from gradviz.analysis.rules.reinforcement.optimistic_clip import OptimisticClip
from gradviz.analysis.rules.reinforcement.returns_from_before import ReturnsFromBefore
from gradviz.analysis.rules.reinforcement.share_lost_on_grid import ShareLostOnGrid
from gradviz.analysis.rules.reinforcement.target_never_updated import TargetNeverUpdated
from gradviz.analysis.rules.reinforcement.target_of_normalized import TargetOfNormalized
from gradviz.analysis.rules.reinforcement.worst_plans_kept import WorstPlansKept
from gradviz.analysis.rules.schedules.changed_rate_lost import ChangedRateLost
from gradviz.analysis.rules.schedules.plateau_of_wrong_side import PlateauOfWrongSide
from gradviz.analysis.rules.schedules.rate_multiplied_twice import RateMultipliedTwice
from gradviz.analysis.rules.schedules.rate_of_loaded_state import RateOfLoadedState
from gradviz.analysis.rules.schedules.rate_set_elsewhere import RateSetElsewhere
from gradviz.analysis.rules.schedules.rates_fall_with_depth import RatesFallWithDepth
from gradviz.analysis.rules.schedules.rates_made_equal import RatesMadeEqual
from gradviz.analysis.rules.schedules.schedule_counts_batches import ScheduleCountsBatches
from gradviz.analysis.rules.schedules.schedule_counts_epochs import ScheduleCountsEpochs
from gradviz.analysis.rules.schedules.schedule_made_anew import ScheduleMadeAnew
from gradviz.analysis.rules.schedules.schedule_not_resumed import ScheduleNotResumed
from gradviz.analysis.rules.schedules.schedule_repeats import ScheduleRepeats
from gradviz.analysis.rules.schedules.schedule_told_a_loss import ScheduleToldALoss
from gradviz.analysis.rules.schedules.schedule_without_effect import ScheduleWithoutEffect
from gradviz.analysis.rules.schedules.warmup_never_ends import WarmupNeverEnds
from gradviz.analysis.rules.sequences.flattened_otherwise import FlattenedOtherwise
from gradviz.analysis.rules.sequences.future_visible import FutureVisible
from gradviz.analysis.rules.sequences.inverted_mask import InvertedMask
from gradviz.analysis.rules.sequences.mask_without_effect import MaskWithoutEffect
from gradviz.analysis.rules.sequences.mean_over_hidden import MeanOverHidden
from gradviz.analysis.rules.sequences.one_direction_only import OneDirectionOnly
from gradviz.analysis.rules.sequences.padding_in_summary import PaddingInSummary
from gradviz.analysis.rules.sequences.padding_mask_unused import PaddingMaskUnused
from gradviz.analysis.rules.sequences.padding_read_later import PaddingReadLater
from gradviz.analysis.rules.sequences.path_above_sum import PathAboveSum
from gradviz.analysis.rules.sequences.positions_of_samples import PositionsOfSamples
from gradviz.analysis.rules.sequences.rotary_pairs import RotaryPairs
from gradviz.analysis.rules.sequences.samples_meet_times import SamplesMeetTimes
from gradviz.analysis.rules.sequences.scores_scaled_up import ScoresScaledUp
from gradviz.analysis.rules.sequences.sequence_over_batch import SequenceOverBatch
from gradviz.analysis.rules.sequences.softmax_over_all_groups import SoftmaxOverAllGroups
from gradviz.analysis.rules.sequences.state_of_other_samples import StateOfOtherSamples
from gradviz.analysis.rules.sequences.targets_are_inputs import TargetsAreInputs
from gradviz.analysis.rules.sequences.targets_shifted_twice import TargetsShiftedTwice
from gradviz.analysis.rules.sequences.visible_positions_asked import VisiblePositionsAsked
from gradviz.analysis.rules.sequences.weights_of_other_groups import WeightsOfOtherGroups
from gradviz.analysis.rules.settings.balanced_twice import BalancedTwice
from gradviz.analysis.rules.settings.betas_swapped import BetasSwapped
from gradviz.analysis.rules.settings.default_is_one_module import DefaultIsOneModule
from gradviz.analysis.rules.settings.key_names_nothing import KeyNamesNothing
from gradviz.analysis.rules.settings.mostly_smoothed import MostlySmoothed
from gradviz.analysis.rules.settings.share_kept_dropped import ShareKeptDropped
from gradviz.analysis.rules.settings.statistics_of_last_batch import StatisticsOfLastBatch
from gradviz.analysis.rules.settings.steps_too_small import StepsTooSmall
from gradviz.analysis.rules.similarities.alike_kept_apart import AlikeKeptApart
from gradviz.analysis.rules.similarities.anchor_among_positives import AnchorAmongPositives
from gradviz.analysis.rules.similarities.distances_as_scores import DistancesAsScores
from gradviz.analysis.rules.similarities.farthest_as_nearest import FarthestAsNearest
from gradviz.analysis.rules.similarities.frequency_added import FrequencyAdded
from gradviz.analysis.rules.similarities.labels_of_unique import LabelsOfUnique
from gradviz.analysis.rules.similarities.logarithm_as_factor import LogarithmAsFactor
from gradviz.analysis.rules.similarities.margin_in_favour import MarginInFavour
from gradviz.analysis.rules.similarities.margin_without_clamp import MarginWithoutClamp
from gradviz.analysis.rules.similarities.negative_preferred import NegativePreferred
from gradviz.analysis.rules.similarities.no_unit_vectors import NoUnitVectors
from gradviz.analysis.rules.similarities.nothing_keeps_apart import NothingKeepsApart
from gradviz.analysis.rules.similarities.positive_among_negatives import PositiveAmongNegatives
from gradviz.analysis.rules.similarities.positive_elsewhere import PositiveElsewhere
from gradviz.analysis.rules.similarities.positive_every_few import PositiveEveryFew
from gradviz.analysis.rules.similarities.scores_too_close import ScoresTooClose
from gradviz.analysis.rules.similarities.similar_to_itself import SimilarToItself
from gradviz.analysis.rules.similarities.standardized_across import StandardizedAcross
from gradviz.analysis.rules.similarities.temperature_twice import TemperatureTwice
from gradviz.analysis.rules.wrong_data.argument_out_of_range import ArgumentOutOfRange
from gradviz.analysis.rules.wrong_data.arguments_in_other_order import ArgumentsInOtherOrder
from gradviz.analysis.rules.wrong_data.axes_mixed_up import AxesMixedUp
from gradviz.analysis.rules.wrong_data.batch_meets_last_axis import BatchMeetsLastAxis
from gradviz.analysis.rules.wrong_data.batch_norm_mixes_points import BatchNormMixesPoints
from gradviz.analysis.rules.wrong_data.boxes_of_two_forms import BoxesOfTwoForms
from gradviz.analysis.rules.wrong_data.complement_of_logarithm import ComplementOfLogarithm
from gradviz.analysis.rules.wrong_data.computed_and_not_read import ComputedAndNotRead
from gradviz.analysis.rules.wrong_data.end_of_sequences_ignored import EndOfSequencesIgnored
from gradviz.analysis.rules.wrong_data.loaded_and_not_used import LoadedAndNotUsed
from gradviz.analysis.rules.wrong_data.loop_data_unread import LoopDataUnread
from gradviz.analysis.rules.wrong_data.other_noise_as_target import OtherNoiseAsTarget
from gradviz.analysis.rules.wrong_data.outer_loss_of_support import OuterLossOfSupport
from gradviz.analysis.rules.wrong_data.positions_rounded import PositionsRounded
from gradviz.analysis.rules.wrong_data.residual_of_the_input import ResidualOfTheInput
from gradviz.analysis.rules.wrong_data.result_discarded import ResultDiscarded
from gradviz.analysis.rules.wrong_data.sampling_gradients_kept import SamplingGradientsKept
from gradviz.analysis.rules.wrong_data.step_not_given import StepNotGiven
from gradviz.analysis.rules.wrong_data.summed_at_source import SummedAtSource
from gradviz.analysis.rules.wrong_data.target_never_reached import TargetNeverReached
from gradviz.analysis.rules.wrong_data.target_without_influence import TargetWithoutInfluence
from gradviz.analysis.rules.wrong_gradients.accumulation_undivided import AccumulationUndivided
from gradviz.analysis.rules.wrong_gradients.broadcast_mismatch import BroadcastMismatch
from gradviz.analysis.rules.wrong_gradients.clip_misplaced import ClipMisplaced
from gradviz.analysis.rules.wrong_gradients.custom_function_bad_return import CustomFunctionBadReturn
from gradviz.analysis.rules.wrong_gradients.custom_function_wrong_backward import CustomFunctionWrongBackward
from gradviz.analysis.rules.wrong_gradients.derivative_of_mean import DerivativeOfMean
from gradviz.analysis.rules.wrong_gradients.double_backward_unsupported import DoubleBackwardUnsupported
from gradviz.analysis.rules.wrong_gradients.duplicate_index import DuplicateIndex
from gradviz.analysis.rules.wrong_gradients.grad_argument import GradArgument
from gradviz.analysis.rules.wrong_gradients.gradient_counted_twice import GradientCountedTwice
from gradviz.analysis.rules.wrong_gradients.gradient_into_target import GradientIntoTarget
from gradviz.analysis.rules.wrong_gradients.hook_alters_grad import HookAltersGrad
from gradviz.analysis.rules.wrong_gradients.missing_zero_grad import MissingZeroGrad
from gradviz.analysis.rules.wrong_gradients.normalized_twice import NormalizedTwice
from gradviz.analysis.rules.wrong_gradients.padding_in_loss import PaddingInLoss
from gradviz.analysis.rules.wrong_gradients.same_derivative_twice import SameDerivativeTwice
from gradviz.analysis.rules.wrong_gradients.same_random_numbers import SameRandomNumbers
from gradviz.analysis.rules.wrong_gradients.stale_optimizer_params import StaleOptimizerParams
from gradviz.analysis.rules.wrong_gradients.sum_over_batch import SumOverBatch
from gradviz.analysis.rules.wrong_gradients.unscaled_loss import UnscaledLoss
from gradviz.analysis.rules.wrong_gradients.wrong_axis import WrongAxis
from gradviz.analysis.rules.zero_gradients.always_at_the_bound import AlwaysAtTheBound
from gradviz.analysis.rules.zero_gradients.cancels_to_zero import CancelsToZero
from gradviz.analysis.rules.zero_gradients.clipped_to_nothing import ClippedToNothing
from gradviz.analysis.rules.zero_gradients.compared_with_itself import ComparedWithItself
from gradviz.analysis.rules.zero_gradients.dead_relu import DeadRelu
from gradviz.analysis.rules.zero_gradients.first_step_only import FirstStepOnly
from gradviz.analysis.rules.zero_gradients.gradient_always_zero import GradientAlwaysZero
from gradviz.analysis.rules.zero_gradients.gradient_underflow import GradientUnderflow
from gradviz.analysis.rules.zero_gradients.least_of_hidden import LeastOfHidden
from gradviz.analysis.rules.zero_gradients.masked_out import MaskedOut
from gradviz.analysis.rules.zero_gradients.normalized_alone import NormalizedAlone
from gradviz.analysis.rules.zero_gradients.only_rounding import OnlyRounding
from gradviz.analysis.rules.zero_gradients.ratio_always_one import RatioAlwaysOne
from gradviz.analysis.rules.zero_gradients.saturation import Saturation
from gradviz.analysis.rules.zero_gradients.second_derivative_zero import SecondDerivativeZero
from gradviz.analysis.rules.zero_gradients.term_always_zero import TermAlwaysZero
from gradviz.analysis.rules.zero_gradients.vanishing_chain import VanishingChain
from gradviz.analysis.rules.zero_gradients.zero_gradient_op import ZeroGradientOp

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
    TermWithoutGradient,
    CreateGraphMissing,
    SampledWithoutGradient,
    RoutedWithoutWeight,
    StateCutEachStep,
    FunctionHidesParameter,
    CopyUsedInstead,
    TermForNobody,
    ZeroGradientOp,
    DeadRelu,
    Saturation,
    VanishingChain,
    MaskedOut,
    GradientAlwaysZero,
    SecondDerivativeZero,
    AlwaysAtTheBound,
    CancelsToZero,
    GradientUnderflow,
    FirstStepOnly,
    NormalizedAlone,
    LeastOfHidden,
    OnlyRounding,
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
    DataChangedAgain,
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
    GradientCountedTwice,
    ClipMisplaced,
    DuplicateIndex,
    GradientIntoTarget,
    AccumulationUndivided,
    NormalizedTwice,
    WrongAxis,
    PaddingInLoss,
    SameRandomNumbers,
    RatioAlwaysOne,
    SumOverBatch,
    ResultDiscarded,
    InvertedMask,
    SequenceOverBatch,
    ShuffledApart,
    RowsGroupedOtherwise,
    BatchMeetsLastAxis,
    TargetsAreInputs,
    PositiveAmongNegatives,
    DivergenceMaximized,
    BatchNormMixesPoints,
    AxesMixedUp,
    ScoresScaledUp,
    EntropyMinimized,
    SamplingGradientsKept,
    OtherNoiseAsTarget,
    DividedByVariance,
    SplitTwice,
    DivergenceOutweighs,
    ArgumentOutOfRange,
    TargetNeverReached,
    NoiseScaledByVariance,
    TargetWithoutInfluence,
    MaskWithoutEffect,
    FutureVisible,
    OneDirectionOnly,
    SimilarToItself,
    BatchesOfOneClass,
    PlayersAgree,
    EntropyOfScores,
    NegativePreferred,
    StraightThroughReversed,
    OverlapNotClamped,
    ScaleRewarded,
    FitMaximized,
    BatchOfEqualRows,
    NoUnitVectors,
    LoadedAndNotUsed,
    ScoresTooClose,
    OneNormForAllSamples,
    OverlapOfLogits,
    MarginWithoutClamp,
    NothingKeepsApart,
    AddedToItself,
    PositionsOfSamples,
    OtherTemperature,
    AdvantageReversed,
    MeanOverHidden,
    DropoutBeforeLoss,
    BootstrapsAtEnds,
    SquashNotCounted,
    SameTermTwice,
    PositiveElsewhere,
    NextStateIsState,
    OverlapMinimized,
    OptimisticClip,
    MixedWithoutRoot,
    RareClassWeighsLess,
    NoNonlinearity,
    DivergenceTurnedAround,
    BatchesOfOneSample,
    StepNotGiven,
    ArgumentsSwapped,
    RiskSetReversed,
    FocalFactorOfTheMean,
    ReversedTwice,
    VelocityReversed,
    WeightsOfLossesFall,
    MultiplierReversed,
    SortedApart,
    ScaleWhereMasked,
    UnscaledLoss,
    ComputedAndNotRead,
    VisiblePositionsAsked,
    FrequencyAdded,
    PaddingInSummary,
    SameDerivativeTwice,
    ReturnsFromBefore,
    OutputsSummed,
    RiskSetNotSorted,
    LabelsOfUnique,
    RequiresGradFalse,
    NonLeaf,
    NotRegistered,
    UnusedParameter,
    BrokenWeightTie,
    NotStepped,
    EvaluationMode,
    WrongOptimizer,
    TrainingMode,
    StepWithoutEffect,
    OptimizerMadeAnew,
    PlainTensor,
    CopiedOntoItself,
    StatisticsNeverUpdated,
    FrozenAtZero,
    AverageWrongWay,
    DecayOfWrongGroup,
    TwoOptimizers,
    ScheduleRepeats,
    PaddingRowUsed,
    RatesMadeEqual,
    TargetOfNormalized,
    WarmupNeverEnds,
    StepsFromTheStart,
    NothingLoaded,
    AttributeWithoutEffect,
    ScheduleWithoutEffect,
    OneModuleAtManyPlaces,
    UpdateDiscarded,
    RateMultipliedTwice,
    DifferenceWithItself,
    UnitsStayAlike,
    StepsTooLarge,
    MomentumIsGradient,
    ScheduleCountsBatches,
    PlateauOfWrongSide,
    StateStaysZero,
    PrunedGrowsBack,
    AdvantagesCrossEnds,
    NotMovedBack,
    NamesMatchNothing,
    StepsUpGradient,
    RateSetElsewhere,
    OrderAppliedTwice,
    ScaleBoundedOnce,
    TargetNeverUpdated,
    EntropyContradicts,
    MultiplierNotDetached,
    UniformNoise,
    GumbelNoise,
    OtherQuantile,
    WeightsNotNormalized,
    LabelsMixedOtherwise,
    IndexAsValue,
    EntropyWithoutLog,
    PenaltyWithoutAbs,
    FeaturesRedrawn,
    DrawnTwice,
    ScheduleNotAccumulated,
    StateOfOtherSamples,
    AccumulationDividedTwice,
    TargetsShiftedTwice,
    ChangedRateLost,
    RatesFallWithDepth,
    SamplesMeetTimes,
    DerivativeOfMean,
    LevelsAlongTargets,
    LogDeterminantOfOnePosition,
    OneClipForAllSamples,
    IteratorUsedUp,
    GradientsOverwritten,
    ShallowCopyChanged,
    WeightsAfterMean,
    OrderAsRank,
    FlattenedOtherwise,
    CountedByParameter,
    WrongSecondMoment,
    AverageNeverRead,
    RateOfLoadedState,
    LogDeterminantLost,
    ShareLostOnGrid,
    ReversedForAll,
    MarginInFavour,
    ComparedWithItself,
    TermAlwaysZero,
    ChangedUnderTwoNames,
    CounterNeverAdvances,
    FrozenStillMoves,
    OuterLossOfSupport,
    OnlyLastCounts,
    IndexesNotShifted,
    TrainedOnAll,
    BoxesOfTwoForms,
    SummedAtSource,
    SoftmaxOverAllGroups,
    ArgumentsInOtherOrder,
    NoiseDrawnOnce,
    AugmentedApart,
    ReentrantCheckpoint,
    OtherRandomNumbers,
    UnevenSteps,
    CollectiveOnSomeRanks,
    CollectiveOrder,
    CollectiveShapes,
    UnusedOnSomeRanks,
    RankFailed,
    NoProgress,
    ReplicasDrifted,
    SameDataOnRanks,
    PathAboveSum,
    ComplementOfLogarithm,
    PaddingReadLater,
    DrawnFromOtherTable,
    PositionsRounded,
    RotaryPairs,
    WeightsOfClassesDrawn,
    PaddingMaskUnused,
    EstimateTurnedAround,
    EndOfSequencesIgnored,
    GridOfRowsFirst,
    SurvivalCountsItself,
    ClassesInterpolated,
    DecodedMeetsEncoded,
    DivergenceOfWeightsWhole,
    MeanOfLogDensities,
    RowNeverTrained,
    AssignedAsAWhole,
    DerivativeNotRescaled,
    FlowEnlargedOnly,
    WeightsOfOtherGroups,
    HookedAgain,
    LogitsAsProbabilities,
    LoadedAndDrawnAgain,
    PixelsScaledOtherwise,
    BestNeverUpdated,
    TransformOfBothParts,
    FirstBatchEachTime,
    ScoredInOtherUnits,
    LoadedAndOtherScored,
    ResidualOfTheInput,
    WorstPlansKept,
    IntegersWrapAround,
    PaddingRowDrawn,
    FailuresNeverForgotten,
    SlidesOverFeatures,
    BestInsteadOfTaken,
    DistancesAsScores,
    LargerOfTwoCritics,
    FocalFactorOfHits,
    TargetsWeighByBatch,
    DrawnBeforeOffset,
    SeriesDealtOut,
    BetasSwapped,
    StatisticsOfLastBatch,
    ShareKeptDropped,
    MostlySmoothed,
    LoopDataUnread,
    ScheduleToldALoss,
    ProductsAcrossImages,
    GainsStartAtZero,
    ScheduleCountsEpochs,
    ScoreOfLastBatch,
    CopyNeverUpdated,
    LogarithmAsFactor,
    PositionsStartAgain,
    PenaltySubtracted,
    DecayOutweighs,
    ScheduleMadeAnew,
    LossesLeftBehind,
    ResidualsCancel,
    LevelNotRestored,
    PreparedOtherwise,
    AnchorAmongPositives,
    ScoredOnTrainedRows,
    ClippedToNothing,
    StepsTooSmall,
    LeftAtOnce,
    PartNeverRead,
    RateInVariable,
    IdleGraph,
    NeedlessRetainGraph,
    Float64ByAccident,
    GraphBreak,
    Recompiled,
    HeldOutInLoss,
    AlikeKeptApart,
    MergedEachTime,
    StandardizedAcross,
    UnreachableEntropy,
    FocalFactorOfOneClass,
    CornersNotExchanged,
    PositiveEveryFew,
    IdsInTwoBytes,
    PaddingInStatistics,
    PeriodsAreWhole,
    LengthsInOtherUnits,
    ScheduleNotResumed,
    MixedForEachOutput,
    LabelsInOtherOrder,
    FoldsShareAModel,
    MaskTokenOverwritten,
    NewRowsStayRandom,
    SameHalfKept,
    JudgedAsAnother,
    ModelMadeAnew,
    AverageOfOneState,
    MembersAreAlike,
    ArgumentNeverRead,
    ChangedAtRandom,
    FittedOnEachPart,
    ValuesAsClasses,
    SeenItemsRanked,
    MeanOfRatios,
    MissingAsNumbers,
    ErrorMovedByMean,
    WindowsSplitAtRandom,
    FarthestAsNearest,
    CountOverBatches,
    AdaptedAndNotUsed,
    WorstStateKept,
    TemperatureTwice,
    BestIsTheModel,
    PartsJoinedByAnd,
    ValueOfTheLastTurn,
    BackwardFailed,
    CopyChooses,
    CountedAtOtherEnd,
    EndsOneStepLate,
    LevelsWalkedUpwards,
    SidesNotExchanged,
    PrefixMatchesMore,
    CheckpointChangesState,
    CopiedWithGraph,
    DefaultIsOneModule,
    NewLayerStaysRandom,
    DerivativeByScaledInput,
    RestoredByOtherColumn,
    BalancedTwice,
    RankedByClasses,
    AverageOfTheStart,
    RepeatedBeforeSplit,
    ReadBeforeGrad,
    BoxesNotFlipped,
    KeyNamesNothing,
    CopyChanged,
    PaddingInCount,
    RestoredInOtherOrder,
    BlanksRemovedFirst,
    KeptOfOtherBatch,
    ScaledByTarget,
    KeptFromBeforeSteps,
    QueryFindsItself,
    ScoredLinksPassed,
)

ON_REQUEST: tuple[type[Rule], ...] = (ParameterWithoutGradient, SavedMemory)
"""The rules that only run if an option requests them."""
