"""One autograd graph as data: nodes, edges, leaves, module scopes and call sites.

The terms are torch's: a *node* is an autograd node (``MulBackward0``); an *edge* leads from the node whose backward
produces a gradient to the node that receives it, as ``grad_fn.next_functions`` lists it. Drawing reverses that:
pictures follow the data, from the leaves down to the loss.

All structures are frozen. The recorder, the capture file and the JSON output share them, so that the three cannot
disagree. Nodes refer to tables (`Graph.scopes`, `Graph.call_sites`, `Graph.constants`) by index, which keeps a node of
a million-node graph small.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from gradviz.graph.bounded_types import Count, Index, LineNumber
from gradviz.graph.compilations import GraphBreak
from gradviz.graph.exchanges import Exchange
from gradviz.graph.gradients import BranchShare, LeafGradient, NodeRun, TensorFigures, at_index
from gradviz.graph.node_findings import CutEdge, NodeFinding, Verdict
from gradviz.graph.root_shares import RootShares
from gradviz.graph.saved_tensors import AllocatorReading, OlderGraph, SavedTensor, Storage
from gradviz.graph.tensor_facts import TensorFacts as TensorFacts

NodeKind = Literal["operation", "parameter", "input", "custom", "view", "inplace", "checkpoint", "compiled"]
"""What a node is: ``parameter`` and ``input`` are leaves (`AccumulateGrad`); ``custom`` is a user's
``autograd.Function``; ``view`` makes no new storage; ``inplace`` rewrote a tensor's history (`CopySlices`)."""

LEAF_KINDS: frozenset[str] = frozenset({"parameter", "input"})

REENTRANT_CHECKPOINT = "CheckpointFunctionBackward"
"""The node of a checkpoint with ``use_reentrant=True``, which stands for all that it computes again."""

Scalar = bool | int | float | str | None
Attribute = Scalar | list[Scalar]


class Edge(Struct, frozen=True, gc=False, omit_defaults=True, repr_omit_defaults=True):
    """The path of a gradient to one receiver. Its index in `Node.edges` is its index in ``next_functions``."""

    target: Index
    """Id of the node that receives the gradient."""
    input_nr: Index = 0
    """Which of the receiver's inputs (outputs of its forward) the gradient belongs to."""


class HeldTensor(Struct, frozen=True, omit_defaults=True, gc=False, repr_omit_defaults=True):
    """A tensor that Python still held when the graph was recorded, with its status as torch sees it."""

    names: tuple[str, ...] = ()
    """Dotted parameter names and Python variables that hold it; several for tied parameters."""
    is_leaf: bool = False
    requires_grad: bool = True
    retains_grad: bool = False
    has_grad: bool = False
    output_nr: Index = 0


class Node(Struct, frozen=True, omit_defaults=True, gc=False, repr_omit_defaults=True):
    """One autograd node.

    `id` is its index in `Graph.nodes` and counts in creation order: in a graph made by one thread, the nodes from which
    a node takes its data have smaller ids.
    """

    id: Index
    name: str
    """``grad_fn.name()``: ``MulBackward0``, ``torch::autograd::AccumulateGrad``."""
    kind: NodeKind = "operation"
    sequence_nr: Count | None = None
    """torch's sequence number; None for leaves."""
    edges: tuple[Edge | None, ...] = ()
    """One entry for each entry of ``next_functions``; None where no gradient is needed."""
    outputs: tuple[TensorFacts | None, ...] = ()
    """What the forward produced (for a leaf, the leaf itself); None if torch does not say."""
    forward_call: str | None = None
    """The torch function that made it: ``torch.nn.functional.linear``."""
    call_site: Index | None = None
    """Index in `Graph.call_sites` of the innermost line outside torch."""
    scope: Index | None = None
    """Index in `Graph.scopes` of the module call in which it was made."""
    attributes: dict[str, Attribute] = {}
    """Non-tensor arguments that the node keeps: ``dim``, ``alpha``."""
    hooks: tuple[str, ...] = ()
    held: tuple[HeldTensor, ...] = ()
    constants: tuple[Index, ...] = ()
    """Indices in `Graph.constants` of inputs that need no gradient and so are not in ``next_functions``."""
    saved: tuple[SavedTensor, ...] = ()
    gradients: tuple[TensorFigures | None, ...] = ()
    """The gradient that the node sent along each of its `edges`; empty where it did not run or nothing was measured."""
    shares: tuple[BranchShare | None, ...] = ()
    """The share of each of these gradients in the sum that its receiver got; None where it was not summed with others,
    or could not be measured."""
    arrived: tuple[TensorFigures | None, ...] = ()
    """The gradient that arrived for each of its outputs: summed, and after the hooks on the tensor."""
    before_hooks: tuple[TensorFigures | None, ...] = ()
    """The same before the hooks on the tensor ran; only for nodes with `hooks`."""
    values: tuple[TensorFigures | None, ...] = ()
    """Statistics of the values of its `outputs`, if measured: for leaves the norm when backward was called; with
    ``--values``, for small outputs every number in `TensorFigures.values`."""
    run: NodeRun | None = None
    """None where the engine did not run the node, or it was not measured."""
    calls_backward: bool = False
    """True where its code called backward: what that reached is not in this graph."""
    leaf_gradient: LeafGradient | None = None
    """What happened to the ``.grad`` of a leaf."""
    number: int | float | None = None
    """The Python number that an arithmetic call took beside its tensor: 3 in ``3 * x``."""
    region: Index | None = None
    """Index in `Graph.regions` of the compiled region that it is an operation of."""
    inner_nr: Count = 0
    """For such an operation, whose `sequence_nr` is that of the whole region: its number inside, from 1 on."""

    @property
    def key(self) -> tuple[int, int] | None:
        """What distinguishes it from all nodes of the run; None for leaves."""
        return None if self.sequence_nr is None else (self.sequence_nr, self.inner_nr)

    @property
    def is_leaf(self) -> bool:
        return self.kind in LEAF_KINDS

    @property
    def is_recomputed(self) -> bool:
        """True for one of torch's operations whose saved tensors checkpointing computes again in backward."""
        return self.kind == "checkpoint" and self.name != REENTRANT_CHECKPOINT

    def output(self, number: int) -> TensorFacts | None:
        """The result of the forward with that number; None if torch does not say."""
        return at_index(self.outputs, number)

    def names_at(self, number: int) -> tuple[str, ...]:
        """Python names of the result with that number."""
        return tuple(name for tensor in self.held if tensor.output_nr == number for name in tensor.names)

    @property
    def names(self) -> tuple[str, ...]:
        """Every Python name known for one of its tensors."""
        return tuple(name for tensor in self.held for name in tensor.names)


class Constant(Struct, frozen=True, omit_defaults=True, gc=False, repr_omit_defaults=True):
    """An input of an operation that needs no gradient: data, a target, a mask, a frozen parameter."""

    tensor: TensorFacts
    kind: Literal["data", "parameter", "buffer"] = "data"
    names: tuple[str, ...] = ()
    value: TensorFigures | None = None
    """Its statistics and every number in it, with ``--values`` and if it is small."""
    detached_from: str = ""
    """The name of a tensor that requires grad and has the same memory: ``fake`` for ``fake.detach()``."""


class CallSite(Struct, frozen=True, omit_defaults=True, gc=False, repr_omit_defaults=True):
    """A line of Python that was running when nodes were made; `caller` is the call site that called it."""

    file: str
    line: LineNumber
    function: str = "<module>"
    caller: Index | None = None
    is_library: bool = False
    """True for installed packages: the user's own line is further up."""


ScopeKind = Literal["module", "function", "line"]


class ModuleScope(Struct, frozen=True, omit_defaults=True, gc=False, repr_omit_defaults=True):
    """One *call* of a module. A module that is called twice has two scopes, so scopes nest and have no cycles.

    The recorder makes them; `gradviz.view.select.grouping` replaces them by functions or source lines.
    """

    path: str
    """Dotted path from the variable that holds the outermost module: ``model.transformer.h.0``."""
    class_name: str
    """For a function ``step()``, for a source line ``line``."""
    parent: Index | None = None
    call: Count = 0
    """Which call of this module it is within the recording, counted from 0."""
    parameter_count: Count = 0
    """Elements in all parameters of the module and its children, tied parameters counted once."""
    kind: ScopeKind = "module"
    call_site: Index | None = None
    """The line itself, or the line that called the function."""


class Root(Struct, frozen=True, omit_defaults=True, gc=False, repr_omit_defaults=True):
    """A tensor from which the walk started."""

    node: Index
    output_nr: Index = 0
    name: str | None = None
    tensor: TensorFacts | None = None
    gradient: TensorFigures | None = None
    """The gradient with which the call started: ``gradient=``, ``grad_tensors=``, or ones."""


class RefusedRoot(Struct, frozen=True, omit_defaults=True, gc=False, repr_omit_defaults=True):
    """A tensor on which backward was called though it has no ``grad_fn``: torch refused the call."""

    name: str | None = None
    tensor: TensorFacts | None = None


class BackwardCall(Struct, frozen=True, omit_defaults=True, gc=False, repr_omit_defaults=True):
    """The call that asked for the gradients."""

    number: Count
    """Counted from 1 within the run."""
    function: Literal["backward", "grad"] = "backward"
    call_site: Index | None = None
    retain_graph: bool = False
    create_graph: bool = False
    failed_node: Index | None = None
    """The node in which backward raised, if torch says which."""


class CustomFunction(Struct, frozen=True, omit_defaults=True, gc=False, repr_omit_defaults=True):
    """Where an ``autograd.Function`` is defined; `Capture.sources` has its lines."""

    node_name: str
    """``grad_fn.name()`` of its nodes: ``ClampBackward``."""
    class_name: str
    file: str
    first_line: LineNumber
    last_line: LineNumber


class Recomputed(Struct, frozen=True, omit_defaults=True, gc=False, repr_omit_defaults=True):
    """An operation that compiled code computes again in backward, because it did not keep the result."""

    operation: str
    """``erf``: the compiler divides functions into smaller ones."""
    call_site: Index | None = None
    count: Count = 1
    """How often it is computed again at that line."""
    inner_nr: Count = 0
    """`Node.inner_nr` of the operation of the program that it is part of; 0 if that is not known."""


class BackwardPart(Struct, frozen=True, gc=False):
    """What the backward of one operation of a compiled region was compiled into."""

    inner_nr: Count
    """`Node.inner_nr` of that operation."""
    operators: dict[str, Count]
    """How often each operator of torch, as ``mul``, is there, before a compiler fuses them."""


class Region(Struct, frozen=True, omit_defaults=True, gc=False, repr_omit_defaults=True):
    """A compiled function that ran in this graph. The nodes of a region that is open are the operations that were
    compiled; a closed one is a single node of the kind ``compiled``."""

    node_name: str
    """``grad_fn.name()`` of the compiled function; empty for a backend that leaves autograd's own nodes."""
    function: str = ""
    """The Python function that was compiled."""
    backend: str = ""
    call_site: Index | None = None
    """Index in `Graph.call_sites` of the line that called it."""
    run: NodeRun | None = None
    """When the engine ran all of it."""
    is_measured: bool = False
    """Whether the gradients between its operations were measured, in a second run."""
    closed: str = ""
    """Why it could not be opened; empty if it is open."""
    uncompiled_bytes: Count | None = None
    """What autograd would keep of its results without compilation; None if that is not known."""
    recomputed: tuple[Recomputed, ...] | None = None
    """None if torch does not tell it, as for code from its cache."""
    backward_parts: tuple[BackwardPart, ...] = ()
    """Empty if torch does not tell them."""
    is_saved_guessed: bool = False
    """Whether only their sizes say which operations keep what it saved."""
    graph_break: GraphBreak | None = None
    """Where it ends before the function does."""


class Graph(Struct, frozen=True, omit_defaults=True, repr_omit_defaults=True, rename={"cut_edges": "ghost_edges"}):
    """Everything that one or several roots reach through ``next_functions``.

    ``loss = (w * w).sum()`` as data, with each `Edge` leading as in ``next_functions``:

    >>> weight = Node(0, "torch::autograd::AccumulateGrad", "parameter", held=(HeldTensor(("w",), is_leaf=True),))
    >>> square = Node(1, "MulBackward0", edges=(Edge(0), Edge(0)))
    >>> total = Node(2, "SumBackward0", edges=(Edge(1),))
    >>> graph = Graph((weight, square, total), roots=(Root(2, name="loss"),))
    >>> [leaf.names for leaf in graph.leaves]
    [('w',)]
    """

    nodes: tuple[Node, ...] = ()
    roots: tuple[Root, ...] = ()
    scopes: tuple[ModuleScope, ...] = ()
    call_sites: tuple[CallSite, ...] = ()
    constants: tuple[Constant, ...] = ()
    backward: BackwardCall | None = None
    refused: tuple[RefusedRoot, ...] = ()
    """The tensors on which `backward` was refused; there are no `roots` then. The nodes are those that could still be
    found: a gradient could have reached them, had the path from here not been cut."""
    storages: tuple[Storage, ...] = ()
    """Memory that nodes keep through their saved tensors, and, without a node, what the forward left in variables.

    In a part of a graph also what the rest of it keeps.
    """
    knows_saved_tensors: bool = False
    """False for recordings from before gradviz recorded saved tensors."""
    allocators: tuple[AllocatorReading, ...] = ()
    older_graphs: tuple[OlderGraph, ...] = ()
    """Graphs computed before this one that variables still held when backward was called."""
    root_shares: RootShares | None = None
    """What each of several losses contributes to the gradient of every leaf; only if it was asked for, not in parts."""
    custom_functions: tuple[CustomFunction, ...] = ()
    """For the nodes that are ``custom``, each function once; without those whose source was not found."""
    exchanges: tuple[Exchange, ...] = ()
    """What ranks exchanged for its parameters."""
    regions: tuple[Region, ...] = ()
    """Compiled code that the graph passes through."""
    findings: tuple[NodeFinding, ...] = ()
    """Findings of a check, for pictures."""
    cut_edges: tuple[CutEdge, ...] = ()
    """The same: edges along which a gradient would have gone on, had it not been cut off."""
    unplaced_findings: tuple[Verdict, ...] = ()
    """The same: findings that belong to no recorded node, such as a parameter without gradient."""

    def __repr__(self) -> str:
        # Printing every node at a prompt helps nobody.
        return f"<gradviz.Graph of {len(self.nodes):,} autograd nodes, {len(self.leaves):,} of them leaves>"

    @property
    def leaves(self) -> tuple[Node, ...]:
        """Parameters and inputs that receive gradients, in creation order."""
        return tuple(node for node in self.nodes if node.is_leaf)

    @property
    def parameters(self) -> tuple[Node, ...]:
        """Leaves that are parameters of a module, or at least `torch.nn.Parameter`."""
        return tuple(node for node in self.nodes if node.kind == "parameter")

    @property
    def failed_node(self) -> int | None:
        """The node in which backward raised; None if it did not, or if torch does not say."""
        return None if self.backward is None else self.backward.failed_node

    @property
    def all_findings(self) -> tuple[Verdict, ...]:
        """`findings`, and those that are drawn as `cut_edges`."""
        return (*self.findings, *(edge.finding for edge in self.cut_edges))
