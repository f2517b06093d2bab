"""Small graphs written by hand, for the layers that work without torch.

::

    graph_of("w -> Mul -> Sum -> loss; x -> Mul")

It follows the direction of the data. A capitalised word is an operation (``Mul`` is ``MulBackward0``; ``Mul.a`` and
``Mul.b`` are two of them), ``model.fc/Mul`` one inside a module call; a word in braces is a constant; a word
without inputs is a leaf (an input if it starts with ``x``, otherwise a parameter); one without outputs is a root.
`GraphBuilder` does the same step by step; the functions below it make large graphs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random

from gradviz.graph.invariants import check_graph
from gradviz.graph.model import (
    BackwardCall,
    CallSite,
    Constant,
    Edge,
    Graph,
    HeldTensor,
    ModuleScope,
    Node,
    NodeKind,
    Root,
    TensorFacts,
)
from gradviz.graph.saved_tensors import SavedTensor, Storage, StorageKind

Shape = tuple[int, ...]
SMALL: Shape = (2, 3)


def facts(*shape: int) -> TensorFacts:
    return TensorFacts(shape=shape, dtype="float32")


@dataclass
class GraphBuilder:
    """Makes a graph node by node. Inputs are node ids, or ``(node id, output_nr)``."""

    nodes: list[Node] = field(default_factory=list)
    roots: list[Root] = field(default_factory=list)
    scopes: list[ModuleScope] = field(default_factory=list)
    call_sites: list[CallSite] = field(default_factory=list)
    constants: list[Constant] = field(default_factory=list)
    storages: list[Storage] = field(default_factory=list)

    def leaf(self, name: str, shape: Shape = SMALL, *, kind: NodeKind = "parameter", names: Sequence[str] = ()) -> int:
        held = HeldTensor(names=(name, *names), is_leaf=True)
        return self._add(
            Node(
                id=len(self.nodes),
                name="torch::autograd::AccumulateGrad",
                kind=kind,
                outputs=(facts(*shape),),
                held=(held,),
            )
        )

    def operation(
        self,
        name: str,
        *inputs: int | tuple[int, int] | None,
        scope: int | None = None,
        shape: Shape = SMALL,
        kind: NodeKind = "operation",
        forward_call: str | None = None,
        line: int | None = None,
        call_site: int | None = None,
        constants: Sequence[int] = (),
        saved: Sequence[SavedTensor] = (),
    ) -> int:
        if line is not None:
            call_site = self.line(line)
        return self._add(
            Node(
                id=len(self.nodes),
                name=name if name.endswith(("Backward", "Backward0", "Backward1")) else f"{name}Backward0",
                kind=kind,
                sequence_nr=len(self.nodes),
                edges=tuple(_edge(source) for source in inputs),
                outputs=(facts(*shape),),
                forward_call=forward_call,
                scope=scope,
                call_site=call_site,
                constants=tuple(constants),
                saved=tuple(saved),
            )
        )

    def storage(self, size: int, kind: StorageKind = "intermediate", *names: str, made_before: bool = False) -> int:
        self.storages.append(Storage(size, kind=kind, names=names, made_before=made_before))
        return len(self.storages) - 1

    def constant(self, name: str, shape: Shape = SMALL, *, kind: str = "data") -> int:
        self.constants.append(Constant(tensor=facts(*shape), kind=kind, names=(name,)))  # type: ignore[arg-type]
        return len(self.constants) - 1

    def scope(
        self, path: str, class_name: str, parent: int | None = None, *, parameter_count: int = 0, earlier_calls: int = 0
    ) -> int:
        call = earlier_calls + sum(known.path == path for known in self.scopes[-50:])
        self.scopes.append(ModuleScope(path, class_name, parent, call, parameter_count))
        return len(self.scopes) - 1

    def line(self, number: int, *, file: str = "train.py", function: str = "<module>") -> int:
        site = CallSite(file, number, function)
        if site not in self.call_sites:
            self.call_sites.append(site)
        return self.call_sites.index(site)

    def root(self, node: int, name: str | None = "loss") -> None:
        self.roots.append(Root(node=node, name=name, tensor=self.nodes[node].outputs[0]))

    def build(self, *, failed_node: int | None = None) -> Graph:
        graph = Graph(
            nodes=tuple(self.nodes),
            roots=tuple(self.roots),
            scopes=tuple(self.scopes),
            call_sites=tuple(self.call_sites),
            constants=tuple(self.constants),
            storages=tuple(self.storages),
            knows_saved_tensors=True,
            backward=BackwardCall(number=1, failed_node=failed_node),
        )
        check_graph(graph)
        return graph

    def _add(self, node: Node) -> int:
        self.nodes.append(node)
        return node.id


def _edge(source: int | tuple[int, int] | None) -> Edge | None:
    if source is None:
        return None
    return Edge(source) if isinstance(source, int) else Edge(*source)


def graph_of(text: str, *, classes: dict[str, str] | None = None, failed: str | None = None) -> Graph:
    """The graph of `text`; `classes` names module classes by path, `failed` the word that raised."""
    chains = [[word.strip() for word in chain.split("->")] for chain in text.split(";") if chain.strip()]
    sources: dict[str, list[str]] = {}
    for chain in chains:
        for word in chain:
            sources.setdefault(word, [])
        for source, target in pairwise(chain):
            sources[target].append(source)
    return _Reading(sources, classes or {}).graph(failed)


class _Reading:
    def __init__(self, sources: dict[str, list[str]], classes: dict[str, str]) -> None:
        self.sources, self.classes = sources, classes
        self.builder = GraphBuilder()
        self.ids: dict[str, int] = {}
        self.constants: dict[str, int] = {}
        self.scopes: dict[str, int] = {}

    def graph(self, failed: str | None) -> Graph:
        waiting = list(self.sources)
        while waiting:
            ready = next(word for word in waiting if not any(giver in waiting for giver in self.sources[word]))
            waiting.remove(ready)
            self._add(ready)
        return self.builder.build(failed_node=self.ids[failed] if failed else None)

    def _add(self, word: str) -> None:
        givers = self.sources[word]
        if word.startswith("{"):
            self.constants[word] = self.builder.constant(word.strip("{}"))
        elif word.rpartition("/")[2][0].isupper():
            self._add_operation(word, givers)
        elif givers:
            self.builder.root(self.ids[givers[0]], word)
        else:
            self.ids[word] = self.builder.leaf(word, kind="input" if word.startswith("x") else "parameter")

    def _add_operation(self, word: str, givers: list[str]) -> None:
        path, _, label = word.rpartition("/")
        self.ids[word] = self.builder.operation(
            label.partition(".")[0],
            *(self.ids[giver] for giver in givers if giver in self.ids),
            scope=self._scope(path),
            constants=[self.constants[giver] for giver in givers if giver in self.constants],
        )

    def _scope(self, path: str) -> int | None:
        if path and path not in self.scopes:
            parent = self._scope(path.rpartition(".")[0])
            last = path.rpartition(".")[2]
            default = "Block" if last.isdigit() else last.capitalize()
            self.scopes[path] = self.builder.scope(path, self.classes.get(path, default), parent)
        return self.scopes.get(path)


def chain_graph(length: int, name: str = "Add") -> Graph:
    """``w -> Mul -> Add -> Add ... -> Sum -> loss``."""
    builder = GraphBuilder()
    last = builder.operation("Mul", builder.leaf("w"), line=1)
    for _ in range(length):
        last = builder.operation(name, last, call_site=0)
    builder.root(builder.operation("Sum", last, shape=()))
    return builder.build()


_OPERATIONS = ("Mul", "Add", "Tanh", "Relu", "Exp", "Sin", "Cos", "Sigmoid", "Div", "Sub")


def irregular_graph(nodes: int, columns: int = 1) -> Graph:
    """A graph without repetition: columns of operations that feed each other, and leaves between them."""
    chance = Random(0)
    builder = GraphBuilder()
    row = [builder.leaf(f"w{column}") for column in range(columns)]
    while len(builder.nodes) < nodes:
        leaf = builder.leaf(f"p{len(builder.nodes)}", (chance.randrange(1, 99), 3))
        others = [chance.choice([leaf, *row]) if chance.random() < 0.4 else None for _ in row]
        row = [
            builder.operation(
                chance.choice(_OPERATIONS),
                own,
                *([] if other is None else [other]),
                shape=(chance.randrange(1, 99), chance.randrange(1, 9)),
            )
            for own, other in zip(row, others, strict=True)
        ]
    builder.root(builder.operation("Stack", *row, shape=()))
    return builder.build()


def unrolled_rnn(steps: int, *, data: bool = True) -> Graph:
    """``h = tanh(x[t] @ w + h @ u)`` in a loop; both weights feed every step."""
    builder = GraphBuilder()
    w, u = builder.leaf("w", (3, 3)), builder.leaf("u", (3, 3))
    state: int | None = None
    for step in range(steps):
        x = [builder.constant(f"x[{step}]")] if data else []
        from_input = builder.operation("Mm", None, w, constants=x)
        from_state = builder.operation("Mm", state, u)
        state = builder.operation("Tanh", builder.operation("Add", from_input, from_state))
    assert state is not None
    builder.root(builder.operation("Sum", state, shape=()))
    return builder.build()


def transformer(blocks: int, *, width: int = 4) -> Graph:
    """A GPT: embedding, `blocks` of nested modules with residual edges, a head and a loss."""
    builder = GraphBuilder()
    model = builder.scope("model", "GPT", parameter_count=1000 * blocks)
    x = _linear(builder, "model.embed", model, None, "Embedding", width)
    for index in range(blocks):
        x = _block(builder, f"model.h.{index}", model, x, width)
    logits = _linear(builder, "model.head", model, x, "Linear", width)
    target = builder.constant("target")
    losses = builder.operation("LogSoftmax", logits, forward_call="torch.nn.functional.cross_entropy")
    builder.root(
        builder.operation(
            "NllLoss", losses, shape=(), constants=[target], forward_call="torch.nn.functional.cross_entropy"
        )
    )
    return builder.build()


def _block(builder: GraphBuilder, path: str, parent: int, x: int, width: int) -> int:
    block = builder.scope(path, "Block", parent)
    normal = _linear(builder, f"{path}.ln_1", block, x, "LayerNorm", width)
    attention = builder.scope(f"{path}.attn", "Attention", block)
    qkv = [_linear(builder, f"{path}.attn.{name}", attention, normal, "Linear", width) for name in ("q", "k", "v")]
    keys = builder.operation("Transpose", qkv[1], scope=attention, kind="view")
    scores = builder.operation("Softmax", builder.operation("Bmm", qkv[0], keys, scope=attention), scope=attention)
    mixed = builder.operation("Bmm", scores, qkv[2], scope=attention)
    out = _linear(builder, f"{path}.attn.out", attention, mixed, "Linear", width)
    x = builder.operation("Add", x, out, scope=block)
    mlp = builder.scope(f"{path}.mlp", "MLP", block)
    hidden = _linear(builder, f"{path}.mlp.fc", mlp, x, "Linear", width)
    hidden = builder.operation("Gelu", hidden, scope=mlp)
    out = _linear(builder, f"{path}.mlp.proj", mlp, hidden, "Linear", width)
    return builder.operation("Add", x, out, scope=block)


def _linear(builder: GraphBuilder, path: str, parent: int | None, x: int | None, class_name: str, width: int) -> int:
    scope = builder.scope(path, class_name, parent, parameter_count=width * width + width)
    if class_name == "Embedding":
        tokens = builder.constant("tokens")
        weight = builder.leaf(f"{path}.weight", (width, width))
        return builder.operation("Embedding", weight, scope=scope, constants=[tokens])
    weight, bias = builder.leaf(f"{path}.weight", (width, width)), builder.leaf(f"{path}.bias", (width,))
    if class_name == "LayerNorm":
        return builder.operation("NativeLayerNorm", x, weight, bias, scope=scope)
    turned = builder.operation("T", weight, scope=scope, kind="view")
    return builder.operation(
        "Addmm", bias, x, turned, scope=scope, forward_call="torch.nn.functional.linear", shape=(2, width)
    )
