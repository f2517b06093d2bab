"""Which modules are mutated, and which tests should notice. The only list of paths: mend it where a module moves."""

from __future__ import annotations

from typing import NamedTuple


class Watched(NamedTuple):
    """Modules, and the test files that should fail when one of them is wrong."""

    modules: tuple[str, ...]
    tests: tuple[str, ...]


WATCHED = (
    Watched(
        modules=("gradviz/graph/model.py", "gradviz/graph/traversal.py"),
        tests=("tests/unit/graph", "tests/unit/test_inspection.py", "tests/integration/recording/walk/test_walk.py"),
    ),
    Watched(
        modules=(
            "gradviz/graph/invariants.py",
            "gradviz/view/invariants.py",
        ),
        tests=("tests/unit/graph", "tests/unit/capture"),
    ),
    Watched(
        modules=(
            "gradviz/view/fold/arrangement.py",
            "gradviz/view/folding.py",
            "gradviz/view/fold/repeat_search.py",
            "gradviz/view/fold/nesting.py",
            "gradviz/view/fold/plumbing.py",
            "gradviz/view/select/grouping.py",
            "gradviz/view/fold/repeats.py",
        ),
        tests=("tests/unit/view", "tests/unit/rendering/tree"),
    ),
    Watched(
        modules=(
            "gradviz/recording/walk/graph_walker.py",
            "gradviz/recording/walk/graph_builder.py",
            "gradviz/recording/walk/leaves.py",
            "gradviz/recording/walk/graph_tables.py",
            "gradviz/recording/walk/node_outputs.py",
        ),
        tests=(
            "tests/integration/recording/walk/test_walk.py",
            "tests/integration/recording/walk/test_roots.py",
            "tests/integration/recording/walk/test_node_facts.py",
            "tests/integration/recording/forward/test_names.py",
            "tests/integration/recording/walk/test_unusual_tensors.py",
            "tests/integration/recording/harmless/test_nothing_kept_alive.py",
            "tests/integration/recording/walk/test_custom_functions.py",
        ),
    ),
    Watched(
        modules=("gradviz/recording/walk/roots.py",),
        tests=(
            "tests/integration/recording/walk/test_roots.py",
            "tests/integration/recording/backward/test_gradients.py",
        ),
    ),
    Watched(
        modules=(
            "gradviz/recording/forward/tensor_hooks.py",
            "gradviz/recording/walk/saved_tensor_reader.py",
            "gradviz/recording/walk/storage_table.py",
            "gradviz/recording/walk/tensors_beside_slots.py",
            "gradviz/recording/forward/forward_memory.py",
        ),
        tests=(
            "tests/integration/recording/walk/test_saved_tensors.py",
            "tests/integration/recording/walk/test_node_facts.py",
            "tests/integration/recording/forward/test_forward_values.py",
            "tests/integration/recording/walk/test_checkpointing.py",
            "tests/integration/recording/walk/test_unusual_tensors.py",
            "tests/integration/recording/harmless/test_nothing_kept_alive.py",
        ),
    ),
    Watched(
        modules=(
            "gradviz/recording/backward/gradients/gradient_watch.py",
            "gradviz/recording/backward/gradients/gradient_meter.py",
            "gradviz/recording/backward/gradients/gradient_recorder.py",
            "gradviz/recording/backward/gradients/histograms.py",
            "gradviz/recording/backward/gradients/statistics.py",
            "gradviz/recording/backward/gradients/gradient_sums.py",
            "gradviz/recording/backward/gradients/leaf_gradients.py",
        ),
        tests=(
            "tests/integration/recording/backward/test_gradients.py",
            "tests/integration/recording/forward/test_threads.py",
            "tests/integration/recording/backward/test_root_shares.py",
            "tests/integration/recording/walk/test_unusual_tensors.py",
        ),
    ),
    Watched(
        modules=(
            "gradviz/analysis/memory/kept_memory.py",
            "gradviz/analysis/memory/memory_cells.py",
            "gradviz/analysis/memory/memory_document.py",
            "gradviz/analysis/memory/memory_groups.py",
            "gradviz/analysis/memory/remedies.py",
        ),
        tests=(
            "tests/unit/analysis/test_memory.py",
            "tests/unit/rendering/words/test_memory_tooltips.py",
            "tests/unit/rendering/svg/test_treemap.py",
            "tests/integration/recording/walk/test_saved_tensors.py",
        ),
    ),
)


def tests_by_module() -> dict[str, tuple[str, ...]]:
    """For each module the tests that should notice when it is wrong."""
    return {module: watched.tests for watched in WATCHED for module in watched.modules}
