"""Hand-made subjects for the tests of the picture: a graph, its view and its words, without folding and labels."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from gradviz.capture.capture import Capture, Program
from gradviz.graph.model import BackwardCall, Constant, Graph, Node, NodeKind, Root, TensorFacts
from gradviz.rendering.formats import Subject
from gradviz.rendering.words.item_words import ItemText
from gradviz.view.model import Item, Link, View


class Sketch:
    """Collects items and links; every method that adds an item returns its id."""

    def __init__(self) -> None:
        self.items: list[Item] = []
        self.links: list[Link] = []
        self.texts: list[ItemText] = []
        self._nodes: list[Node] = []
        self._constants: list[Constant] = []
        self._open: list[int] = []

    def _add(self, title: str, words: dict[str, object], **fields: object) -> int:
        number = len(self.items)
        parent = self._open[-1] if self._open else None
        self.items.append(Item(id=number, parent=parent, **fields))  # type: ignore[arg-type]
        self.texts.append(ItemText(title, **words))  # type: ignore[arg-type]
        return number

    def _from(self, item: int, sources: tuple[int, ...]) -> int:
        self.links += [Link(source, item) for source in sources]
        return item

    def op(self, title: str, *sources: int, kind: NodeKind = "operation", **words: object) -> int:
        """An operation (or another `kind`) on `sources`."""
        node = len(self._nodes)
        self._nodes.append(Node(node, title, kind=kind))
        return self._from(self._add(title, words, kind="node", node=node, nodes=(node,)), sources)

    def parameter(self, title: str, shape: str = "[64, 64]") -> int:
        return self.op(title, kind="parameter", shape=shape)

    def input(self, title: str, shape: str = "[8, 64]") -> int:
        return self.op(title, kind="input", shape=shape)

    def constant(self, title: str, shape: str = "[8]") -> int:
        self._constants.append(Constant(TensorFacts((8,), "float32")))
        return self._add(title, {"shape": shape}, kind="constant", constant=len(self._constants) - 1)

    def carried(self, title: str) -> int:
        """A result of an earlier repetition; it represents an operation that is added later."""
        return self._add(title, {"shape": "[8, 64]"}, kind="carried", source=0)

    def root(self, title: str, source: int) -> int:
        return self._from(self._add(title, {}, kind="root", root=0), (source,))

    def folded(self, title: str, *sources: int, repeat: int = 1, **words: object) -> int:
        """A closed box."""
        node = len(self._nodes)
        self._nodes.append(Node(node, title))
        return self._from(self._add(title, words, kind="box", nodes=(node,), repeat=repeat), sources)

    @contextmanager
    def box(self, title: str, *, repeat: int = 1, **words: object) -> Iterator[int]:
        """An open box: items that are added inside the ``with`` are in it."""
        number = self._add(title, words, kind="box", is_open=True, repeat=repeat)
        self._open.append(number)
        yield number
        self._open.pop()

    def linear(self, source: int, name: str = "", *, bias: bool = True) -> int:
        leaves = [self.parameter(f"{name}weight")] + ([self.parameter(f"{name}bias", "[64]")] if bias else [])
        return self.op(
            "linear", source, *leaves, subtitle="AddmmBackward0", shape="[8, 64]", line="train.py:41",
        )  # fmt: skip

    def view(self, *notes: str) -> View:
        return View(tuple(self.items), tuple(self.links), notes)

    def graph(self, failed_node: int | None = None) -> Graph:
        return Graph(
            nodes=tuple(self._nodes),
            roots=(Root(0),) if self._nodes else (),
            constants=tuple(self._constants),
            backward=BackwardCall(1, failed_node=failed_node),
        )

    def subject(self, *notes: str, failed_node: int | None = None, capture: Capture | None = None) -> Subject:
        graph = self.graph(failed_node)
        default = Capture(Program("train.py", torch_version="2.13.0", gradviz_version="0.1"), (graph,))
        return Subject(capture or default, graph, self.view(*notes))


def tiny() -> Sketch:
    """log(x * y)."""
    sketch = Sketch()
    product = sketch.op("mul", sketch.input("x", "[1]"), sketch.input("y", "[1]"), subtitle="MulBackward0")
    sketch.root("z", sketch.op("log", product, subtitle="LogBackward0", shape="[1]", line="demo.py:5"))
    return sketch


def perceptron() -> Sketch:
    """Three layers, every module open."""
    sketch = Sketch()
    data = sketch.constant("x", "[8, 64]")
    for layer in range(3):
        with sketch.box(f"{2 * layer}", subtitle="Linear", badge="4.2k params"):
            data = sketch.linear(data)
        if layer < 2:
            data = sketch.op("relu", data, subtitle="ReluBackward0", shape="[8, 64]", line="mlp.py:12")
    loss = sketch.op(
        "cross_entropy", data, sketch.constant("target", "[8] int64"), subtitle="NllLossBackward0", line="mlp.py:20"
    )
    sketch.root("loss", loss)
    return sketch


def attention(sketch: Sketch, data: int) -> int:
    with sketch.box("attn", subtitle="CausalSelfAttention"):
        heads = []
        for name in "qkv":
            with sketch.box(name, subtitle="Linear"):
                heads.append(sketch.linear(data))
        mixed = sketch.op("sdpa", *heads, subtitle="ScaledDotProductBackward0", shape="[8, 4, 16, 16]")
        flat = sketch.op("transpose", mixed, kind="view", subtitle="TransposeBackward0")
        with sketch.box("proj", subtitle="Linear"):
            return sketch.linear(flat)


def transformer_block() -> Sketch:
    """One GPT block, everything open: nesting and residual edges."""
    sketch = Sketch()
    data = sketch.op("embedding", sketch.constant("idx"), sketch.parameter("wte.weight", "[50257, 64]"))
    with sketch.box("h.0", subtitle="Block", badge="49.9k params"):
        data = _block(sketch, data)
    sketch.root("loss", sketch.op("sum", data, subtitle="SumBackward0"))
    return sketch


def _block(sketch: Sketch, data: int) -> int:
    norm = sketch.op("layer_norm", data, sketch.parameter("ln_1.weight", "[64]"), sketch.parameter("ln_1.bias", "[64]"))
    data = sketch.op("add", data, attention(sketch, norm), subtitle="AddBackward0", shape="[8, 64]", line="gpt.py:50")
    norm = sketch.op("layer_norm", data, sketch.parameter("ln_2.weight", "[64]"), sketch.parameter("ln_2.bias", "[64]"))
    with sketch.box("mlp", subtitle="MLP"):
        inner = sketch.linear(norm, "fc.")
        inner = sketch.op("gelu", inner, subtitle="GeluBackward0", shape="[8, 256]")
        inner = sketch.linear(inner, "proj.")
    return sketch.op("add", data, inner, subtitle="AddBackward0", shape="[8, 64]", line="gpt.py:51")


def recurrent() -> Sketch:
    """An unrolled RNN, folded to its repeated step."""
    sketch = Sketch()
    start = sketch.constant("h0")
    with sketch.box("step", repeat=10_000, badge="×10,000"):
        product = sketch.op(
            "mm", start, sketch.parameter("w_hh"), sketch.carried("previous tanh"), subtitle="MmBackward0"
        )
        fed = sketch.op("mm", sketch.constant("x[t]"), sketch.parameter("w_xh"), subtitle="MmBackward0")
        total = sketch.op("add", product, fed, subtitle="AddBackward0")
        state = sketch.op("tanh", total, subtitle="TanhBackward0", shape="[8, 64]")
    sketch.root("loss", sketch.op("sum", state, subtitle="SumBackward0"))
    return sketch


def gpt2_folded() -> Sketch:
    sketch = Sketch()
    tokens = sketch.op("embedding", sketch.constant("input_ids"), sketch.parameter("wte.weight", "[50257, 768]"))
    places = sketch.op("embedding", sketch.constant("position_ids"), sketch.parameter("wpe.weight", "[1024, 768]"))
    data = sketch.op("add", tokens, places, subtitle="AddBackward0", shape="[2, 16, 768]", line="modeling_gpt2.py:812")
    data = sketch.op("dropout", data, subtitle="MulBackward0")
    data = sketch.folded("h.0 … h.11", data, repeat=12, subtitle="GPT2Block", badge="×12 · 85.1M params")
    data = sketch.folded("ln_f", data, subtitle="LayerNorm", badge="1,536 params")
    data = sketch.folded("lm_head", data, subtitle="Linear", badge="38.6M params", shape="[2, 16, 50257]")
    loss = sketch.op("cross_entropy", data, sketch.constant("labels"), subtitle="NllLossBackward0", line="train.py:31")
    sketch.root("loss", loss)
    return sketch


def resnet(blocks: int = 16) -> Sketch:
    sketch = Sketch()
    data = sketch.op("conv2d", sketch.constant("image", "[8, 3, 224, 224]"), sketch.parameter("conv1.weight"))
    for number in range(blocks):
        with sketch.box(f"layer{number // 4 + 1}.{number % 4}", subtitle="Bottleneck"):
            inner = data
            for part in ("1", "2", "3"):
                inner = sketch.folded(f"conv{part}", inner, subtitle="Conv2d")
                inner = sketch.folded(f"bn{part}", inner, subtitle="BatchNorm2d")
                if part != "3":
                    inner = sketch.op("relu_", inner, kind="inplace", subtitle="ReluBackward0")
            short = sketch.folded("downsample", data, subtitle="Sequential") if number % 4 == 0 else data
            data = sketch.op("relu_", sketch.op("add_", inner, short, kind="inplace"), kind="inplace")
    sketch.root("loss", sketch.folded("fc", data, subtitle="Linear"))
    return sketch


def many_boxes(count: int = 60) -> Sketch:
    """A branching view of `count` folded boxes."""
    sketch = Sketch()
    made = [sketch.folded("stem", sketch.input("x"), subtitle="Conv2d")]
    for number in range(1, count):
        sources = {made[-1]} if number % 3 else {made[-1], made[max(0, number - 5)]}
        if number % 7 == 0:
            sources = {made[max(0, number - 4)]}
        made.append(sketch.folded(f"block{number}", *sorted(sources), subtitle="InvertedResidual", badge="12.1k"))
    used = {link.source for link in sketch.links}
    sketch.root("loss", sketch.op("sum", *[item for item in made if item not in used]))
    return sketch


def every_role() -> Sketch:
    """One of each, in a chain."""
    sketch = Sketch()
    data = sketch.input("x")
    for kind in ("operation", "view", "custom", "inplace", "checkpoint", "compiled"):
        data = sketch.op(kind, data, kind=kind, subtitle=f"{kind.title()}Backward0", shape="[8, 64]", line="a.py:1")
    data = sketch.op("mul", data, sketch.parameter("weight"), sketch.constant("mask"))
    data = sketch.folded("fc", data, subtitle="Linear", badge="4.2k params")
    data = sketch.folded("layers", data, subtitle="Block", repeat=12, badge="×12")
    with sketch.box("open", subtitle="Sequential"), sketch.box("inner", subtitle="Block", repeat=3, badge="×3"):
        data = sketch.op("relu", data, sketch.carried("previous relu"))
    sketch.root("loss", data)
    return sketch
