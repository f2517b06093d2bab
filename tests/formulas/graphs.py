"""The nodes of real graphs, counted by name: those of the samples, and those of ten transformers."""

from __future__ import annotations

import contextlib
import io
from collections import Counter

from gradviz.graph.model import Graph
from gradviz.graph.query.operation_names import autograd_name
from gradviz.recording.run.program import find_script
from gradviz.recording.run.recording_plan import RecordingPlan
from gradviz.recording.script_runner import run
from tests.end_to_end.command import SAMPLES
from tests.zoo.families import families
from tests.zoo.training_step import recorded_step

TRANSFORMERS = ("bert", "roberta", "deberta-v2", "gpt2", "llama", "mixtral", "t5", "vit", "swin", "whisper")


def of_samples() -> Counter[str]:
    """Of every backward call of every sample."""
    names: Counter[str] = Counter()
    plan = RecordingPlan(backward=None, keep_going=True, gradients=False)
    for script in sorted(SAMPLES.glob("*.py")):
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            capture = run(find_script(str(script)), (), plan).capture
        for graph in capture.graphs:
            names += _names(graph)
    return names


def of_transformers() -> Counter[str]:
    """Of one training step of each family."""
    names: Counter[str] = Counter()
    by_name = {family.name: family for family in families()}
    for name in TRANSFORMERS:
        recording = recorded_step(by_name[name]).recording
        assert recording is not None
        names += _names(recording.graph)
    return names


def _names(graph: Graph) -> Counter[str]:
    """Without functions of the program, whose formula is their own source."""
    return Counter(autograd_name(node) for node in graph.nodes if node.kind != "custom")
