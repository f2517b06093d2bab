"""What one autograd graph is, as data: nodes, edges, leaves, module scopes and call sites.

The words are torch's: a *node* is an autograd node (``MulBackward0``); an *edge* runs from the node whose
backward produces a gradient to the node that receives it, exactly as ``grad_fn.next_functions`` lists it.
Drawing reverses that: pictures follow the data, from the leaves down to the loss.

Every structure is frozen and is shared by the recorder, the capture file and the JSON output, so that the three
cannot disagree. Tables (`Graph.scopes`, `Graph.call_sites`, `Graph.constants`) are referred to by index, which keeps
a node of a million-node graph small.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from gradviz.errors import GradvizError
from gradviz.graph.saved_tensors import AllocatorReading, SavedTensor, Storage
from gradviz.graph.tensor_facts import TensorFacts as TensorFacts

NodeKind = Literal["operation", "parameter", "input", "custom", "view", "inplace", "checkpoint", "compiled"]
"""What a node is: ``parameter`` and ``input`` are leaves (`AccumulateGrad`); ``custom`` is a user's
``autograd.Function``; ``view`` makes no new storage; ``inplace`` rewrote a tensor's history (`CopySlices`)."""

LEAF_KINDS: frozenset[str] = frozenset({"parameter", "input"})

Scalar = bool | int | float | str | None
Attribute = Scalar | list[Scalar]


class Edge(Struct, frozen=True, gc=False, omit_defaults=True):
    """The way of a gradient to one receiver. Its place in `Node.edges` is its place in ``next_functions``."""

    target: int
    """Id of the node that receives the gradient."""
    input_nr: int = 0
    """Which of the receiver's inputs (outputs of its forward) the gradient belongs to."""


class HeldTensor(Struct, frozen=True, omit_defaults=True):
    """A tensor that Python still held when the graph was recorded, with its status as torch sees it."""

    names: tuple[str, ...] = ()
    """Dotted parameter names and Python variables that hold it; several for tied parameters."""
    is_leaf: bool = False
    requires_grad: bool = True
    retains_grad: bool = False
    has_grad: bool = False
    output_nr: int = 0


class Node(Struct, frozen=True, omit_defaults=True):
    """One autograd node.

    `id` is its place in `Graph.nodes` and counts in creation order: whatever a node takes its data from has, in
    a graph made by one thread, a smaller id.
    """

    id: int
    name: str
    """``grad_fn.name()``: ``MulBackward0``, ``torch::autograd::AccumulateGrad``."""
    kind: NodeKind = "operation"
    sequence_nr: int | None = None
    """torch's sequence number; None for leaves."""
    edges: tuple[Edge | None, ...] = ()
    """One entry for each entry of ``next_functions``; None where no gradient is wanted."""
    outputs: tuple[TensorFacts | None, ...] = ()
    """What the forward produced (for a leaf, the leaf itself); None where torch does not say."""
    forward_call: str | None = None
    """The torch function that made it: ``torch.nn.functional.linear``."""
    call_site: int | None = None
    """Index in `Graph.call_sites` of the innermost line outside torch."""
    scope: int | None = None
    """Index in `Graph.scopes` of the module call in which it was made."""
    attributes: dict[str, Attribute] = {}
    """Non-tensor arguments that the node keeps: ``dim``, ``alpha``."""
    hooks: tuple[str, ...] = ()
    held: tuple[HeldTensor, ...] = ()
    constants: tuple[int, ...] = ()
    """Indices in `Graph.constants` of inputs that need no gradient and so are not in ``next_functions``."""
    saved: tuple[SavedTensor, ...] = ()

    @property
    def is_leaf(self) -> bool:
        return self.kind in LEAF_KINDS

    @property
    def names(self) -> tuple[str, ...]:
        """Every Python name known for one of its tensors."""
        return tuple(name for tensor in self.held for name in tensor.names)


class Constant(Struct, frozen=True, omit_defaults=True):
    """An input of an operation that needs no gradient: data, a target, a mask, a frozen parameter."""

    tensor: TensorFacts
    kind: Literal["data", "parameter", "buffer"] = "data"
    names: tuple[str, ...] = ()


class CallSite(Struct, frozen=True, omit_defaults=True):
    """A line of Python that was running when nodes were made; `caller` is the one above it."""

    file: str
    line: int
    function: str = "<module>"
    caller: int | None = None
    is_library: bool = False
    """True for installed packages: the reader's own line is further up."""


class ModuleScope(Struct, frozen=True, omit_defaults=True):
    """One *call* of a module. A module that is called twice has two scopes, so scopes nest and never cycle."""

    path: str
    """Dotted path from the variable that holds the outermost module: ``model.transformer.h.0``."""
    class_name: str
    parent: int | None = None
    call: int = 0
    """Which call of this module it is within the recording, counted from 0."""
    parameter_count: int = 0
    """Elements in all parameters of the module and its children, ties counted once."""


class Root(Struct, frozen=True, omit_defaults=True):
    """A tensor that the walk started from."""

    node: int
    output_nr: int = 0
    name: str | None = None
    tensor: TensorFacts | None = None


class BackwardCall(Struct, frozen=True, omit_defaults=True):
    """The call that asked for the gradients."""

    number: int
    """Counted from 1 within the run."""
    function: Literal["backward", "grad"] = "backward"
    call_site: int | None = None
    retain_graph: bool = False
    create_graph: bool = False
    failed_node: int | None = None
    """The node in which backward raised, where torch tells."""


class Graph(Struct, frozen=True, omit_defaults=True):
    """Everything that one or several roots reach through ``next_functions``."""

    nodes: tuple[Node, ...] = ()
    roots: tuple[Root, ...] = ()
    scopes: tuple[ModuleScope, ...] = ()
    call_sites: tuple[CallSite, ...] = ()
    constants: tuple[Constant, ...] = ()
    backward: BackwardCall | None = None
    storages: tuple[Storage, ...] = ()
    """Memory that nodes keep by their saved tensors, and, without a node, what the forward left in variables."""
    knows_saved_tensors: bool = False
    """False for what was recorded before saved tensors were."""
    allocators: tuple[AllocatorReading, ...] = ()

    def check_invariants(self) -> None:
        """Raise `InvalidGraph` at the first reference that points nowhere."""
        _check_references(self)


class InvalidGraph(GradvizError):
    """A graph refers to something that it does not hold."""


def _check_references(graph: Graph) -> None:
    def check(where: str, index: int | None, count: int, what: str) -> None:
        if index is not None and not 0 <= index < count:
            raise InvalidGraph(f"{where} refers to {what} {index}, but there are {count}")

    for position, node in enumerate(graph.nodes):
        where = f"node {node.id}"
        if node.id != position:
            raise InvalidGraph(f"{where} stands at place {position}")
        for edge in node.edges:
            if edge is not None:
                check(where, edge.target, len(graph.nodes), "node")
        check(where, node.call_site, len(graph.call_sites), "call site")
        check(where, node.scope, len(graph.scopes), "module scope")
        for constant in node.constants:
            check(where, constant, len(graph.constants), "constant")
        for saved in node.saved:
            check(where, saved.storage, len(graph.storages), "storage")
            check(where, saved.source, len(graph.nodes), "node")
    for index, scope in enumerate(graph.scopes):
        check(f"module scope {index}", scope.parent, index, "an earlier module scope")
    for index, site in enumerate(graph.call_sites):
        check(f"call site {index}", site.caller, index, "an earlier call site")
    for root in graph.roots:
        check(f"root {root.name}", root.node, len(graph.nodes), "node")
    if graph.backward is not None:
        check("backward", graph.backward.call_site, len(graph.call_sites), "call site")
        check("backward", graph.backward.failed_node, len(graph.nodes), "node")
