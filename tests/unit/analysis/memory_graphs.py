"""Graphs with saved tensors, written by hand."""

from __future__ import annotations

from gradviz.graph.model import Graph
from gradviz.graph.saved_tensors import SavedTensor
from tests.builders import GraphBuilder, facts


def saved(slot: str, storage: int, size: int, *, source: int | None = None, dtype: str = "float32") -> SavedTensor:
    tensor = facts(size // 4) if dtype == "float32" else None
    return SavedTensor(slot, tensor, size, storage, source=source)


def relu_and_square() -> Graph:
    """``(w * x).relu()``, squared on the next line: both lines keep the result of relu, the first one counts it."""
    builder = GraphBuilder()
    x, w = builder.storage(400, "input", "x", made_before=True), builder.storage(80, "parameter", "w", made_before=True)
    result = builder.storage(400)
    scaled = builder.operation(
        "Mul", builder.leaf("w", (20,)), line=3, shape=(100,), saved=[saved("self", x, 400), saved("other", w, 80)]
    )
    relu = builder.operation("Relu", scaled, line=3, shape=(100,), saved=[saved("result", result, 400, source=2)])
    square = builder.operation("Pow", relu, line=4, shape=(100,), saved=[saved("self", result, 400, source=relu)])
    builder.root(square)
    return builder.build()


def stack_of_blocks(count: int) -> Graph:
    """Blocks that keep 1,000 bytes of their inputs, and 4,000 bytes that only they use."""
    builder = GraphBuilder()
    model = builder.scope("model", "Net")
    given = builder.operation("Mul", builder.leaf("w"), scope=model, shape=(250,))
    for index in range(count):
        block = builder.scope(f"model.h.{index}", "Block", model)
        kept, inner = builder.storage(1000), builder.storage(4000)
        wide = builder.operation(
            "Addmm", given, scope=block, shape=(1000,), saved=[saved("mat1", kept, 1000, source=given)]
        )
        given = builder.operation(
            "Addmm", wide, scope=block, shape=(250,), saved=[saved("mat1", inner, 4000, source=wide)]
        )
    builder.root(builder.operation("Sum", given, scope=model, shape=()))
    return builder.build()
