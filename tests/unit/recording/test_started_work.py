"""Where only the start of a node's work was timed, the capture says on which device."""

from __future__ import annotations

from msgspec.structs import replace

from gradviz.graph.gradients import NodeRun, TensorFigures
from gradviz.recording.backward.gradients.gradient_recorder import devices_of_started_work
from tests.captures import small_capture


def test_nodes_of_accelerators_without_their_own_time_are_told_by_device() -> None:
    graph = small_capture().graphs[0]

    def on(device: str, *, is_gpu_time: bool) -> list[str]:
        run, figures = NodeRun(0, 1.0, is_gpu_time=is_gpu_time), TensorFigures((1,), "float32", device)
        return devices_of_started_work(replace(graph, nodes=(replace(graph.nodes[0], run=run, arrived=(figures,)),)))

    assert on("mps:0", is_gpu_time=False) == ["mps:0"]
    assert on("cuda:1", is_gpu_time=False) == ["cuda:1"]
    assert on("cuda:1", is_gpu_time=True) == []
    assert on("cpu", is_gpu_time=False) == []
