"""A capture of two linear layers in which every field of the schema has a value, written by hand."""

from __future__ import annotations

from msgspec.structs import replace

from gradviz.capture.capture import Capture, Rank, Settings
from gradviz.capture.optimizer_state import OptimizerState
from gradviz.capture.peer_traffic import PeerTraffic
from gradviz.capture.replica_log import ReplicaLog, ReplicaMoment, packed
from gradviz.capture.sharding import Sharding
from gradviz.graph.call_log import (
    Call,
    CallLog,
    DerivativeCheck,
    Holder,
    LoggedTensor,
    Padding,
    RandomDraw,
    RateTurn,
    SharedSteps,
    TensorUse,
    ValueFacts,
)
from gradviz.graph.compilations import Compilation, GradientCut, GraphBreak
from gradviz.graph.exchanges import Exchange
from gradviz.graph.fingerprints import Fingerprint, packed_projections
from gradviz.graph.gradients import BranchShare, LeafGradient, NodeRun, TensorFigures
from gradviz.graph.model import (
    BackwardCall,
    BackwardPart,
    CustomFunction,
    Edge,
    Graph,
    HeldTensor,
    ModuleScope,
    Node,
    Recomputed,
    RefusedRoot,
    Region,
    TensorFacts,
)
from gradviz.graph.modules_and_schedules import (
    IdleAttribute,
    MadeLoader,
    RepeatedModule,
    Schedule,
    StateLoad,
    UnknownKeys,
)
from gradviz.graph.node_findings import CutEdge, NodeFinding, Verdict
from gradviz.graph.root_shares import LeafProducts, LossTerm, RootShares
from gradviz.graph.saved_tensors import OlderGraph, SavedTensor
from tests.captures import small_capture, small_graph

SHARDING = Sharding("fully_shard", (2, 3), 24, (4, 3), 48, ("Shard(0)",), (2,), ("dp",))
FINGERPRINT = Fingerprint(7, 2.5, 2.0, 1, packed_projections([0.5, -0.5] * 4))


def figures(*values: float, shape: tuple[int, ...] = ()) -> TensorFigures:
    """Statistics of a few numbers, each of which is kept."""
    return TensorFigures(
        shape or (len(values),), "float32", norm=sum(value * value for value in values) ** 0.5,
        mean=sum(values) / len(values), minimum=min(values), maximum=max(values), count=len(values),
        zeros=values.count(0.0), histogram=(1, len(values)), histogram_from=-3, values=values, fingerprint=FINGERPRINT,
    )  # fmt: skip


def broken_figures() -> TensorFigures:
    """Statistics of a gradient on another device that holds NaN and Inf."""
    return TensorFigures(
        (4,), "bfloat16", "cuda:0", "sparse_coo", norm=2.0, mean=2.0, minimum=2.0, maximum=2.0, count=4, nans=2, infs=1
    )


def unknown_figures() -> TensorFigures:
    """A gradient that was not sent, and could not have been measured."""
    return TensorFigures((4,), is_undefined=True, unmeasured="sparse", placements=("Shard(0)",))


def whole_capture() -> Capture:
    """Two backward calls, one of them refused, and a call log."""
    capture = small_capture()
    assert capture.calls is not None and capture.error is not None
    graph = whole_graph()
    verdict = Verdict("GV101", "detached", "warning", "cut off", "because", "do not")
    refused = replace(
        graph,
        roots=(),
        backward=BackwardCall(2, "grad", call_site=0, create_graph=True),
        refused=(RefusedRoot("aside", graph.roots[0].tensor),),
        cut_edges=(CutEdge(verdict, "item", refused=0, sources=(2,), path=("a.sum()", "b * a")),),
        root_shares=None,
    )
    return replace(
        capture,
        graphs=(graph, refused),
        error=replace(capture.error, in_backward=True),
        calls=whole_call_log(capture.calls),
        settings=Settings(4, True, True, False, True, "AVX2"),
        parameters=tuple(
            replace(each, gets_reduced_gradient=True, sharding=SHARDING, part_of="net.flat")
            for each in capture.parameters
        ),
        traffic=(PeerTraffic("sent", 1, 2, 32, (4,), "float32", 2, "/project/train.py", 7),),
        optimizers=(OptimizerState("Adam", 8, 16),),
        may_make_fewer_calls=True,
        imported=("/project/settings.py",),
        imported_left_out=2,
        missing={"hooks": "hooks of tensors are not seen"},
        replicas=ReplicaLog(
            ("net.weight",), (ReplicaMoment("step", 1, packed([(7, 2.5)]), "/project/train.py", 7),), ("net.weight",)
        ),
        rank=Rank(1, 2, "a1b2", "host", "gloo", is_in_order=True),
        compilations=(
            Compilation(
                1,
                2,
                "forward",
                "/project/train.py",
                7,
                True,
                3,
                "inductor",
                None,
                (GradientCut("torch.Tensor.detach", ("net.weight",), "/project/train.py", 8, True),),
                "L['k'] == 2",
                is_dynamic=True,
            ),
            Compilation(
                0,
                0,
                "f",
                "/project/train.py",
                5,
                broken=GraphBreak("item()", "/project/train.py", 6, True, True),
                is_refused=True,
            ),
        ),
        uncompiled_cuts=(GradientCut("torch.Tensor.item", ("net.weight",), "/project/train.py", 9),),
    )


def whole_call_log(calls: CallLog) -> CallLog:
    """The call log of `small_capture` with everything that its calls, tensors and definitions may have."""
    held = replace(calls.tensors[2], alive_after=2, holder=Holder("history[0]", True, (("/project/train.py", 7),)))
    hidden = replace(calls.tensors[0], hidden_in="model.kept", is_used_elsewhere=True, is_in_script=True)
    assert hidden.end is None and calls.tensors[1].end is not None
    ended = replace(
        calls.tensors[1],
        end=replace(calls.tensors[1].end, requires_grad=False, has_changed=True, dtype="float16"),
        is_moved=True,
        has_equal_units=True,
    )
    definition = replace(
        calls.definitions[0], returns=(5,), in_place=(4,), once_differentiable_line=3, attributes=(("x", 4),)
    )
    derivative = DerivativeCheck(
        "Swish", 0, (1.0, 2.0), (1.0, 2.5), 1, line=("/project/train.py", 5), cut_line=("a.py", 6)
    )
    unused = DerivativeCheck("Clamp", 1, is_identity=True, ignores_incoming=True, dtype="float32", may_approximate=True)
    return replace(
        calls,
        calls=(_with_draw(calls.calls[0]), *calls.calls[1:], _write_through_an_index()),
        tensors=(hidden, ended, held, LoggedTensor(TensorFacts((5,), "int64"), 0)),
        definitions=(definition,),
        derivatives=(derivative, unused),
        moments=(2, 3),
        optimizers=tuple(
            replace(
                each,
                steps=4,
                rate_changes=3,
                rate_turns=(RateTurn(1, 0.1, 0.2),),
                first_rate=0.1,
                maximizes=True,
                epsilons=(1e-8,),
                betas=((0.9, 0.999),),
                made_rates=(0.1,),
                levelled_steps=2,
                own_state_at=0,
                keeps_squares=True,
                decays_apart=True,
            )
            for each in calls.optimizers
        ),
        shared_steps=(SharedSteps((0, 0), (1,), (-0.5,)),),
        loads=(StateLoad(1, "Net", 0, 4, 3, 2, ("a.w",), ("module.a.w",), ("net",)),),
        unknown_keys=(UnknownKeys("Net", ("a.scale",), ("Layer",), 0, ("a.gain",)),),
        idle_attributes=(IdleAttribute("require_grad", True, "net", True, (1,), (("/project/train.py", 7),)),),
        repeated_modules=(RepeatedModule("net", "Sequential", "Linear", 3, 4, 0, (1,), is_of_names=True),),
        schedules=(
            Schedule(
                "StepLR",
                0,
                0,
                4,
                True,
                2,
                True,
                True,
                0.1,
                0.01,
                0.05,
                30,
                4,
                12,
                "min",
                ((0, 0.5),),
                0.1,
                1.0,
                (5, 8),
                0.3,
                (0.05, 0.1),
                4,
                (3, 40),
                (0.5, 0.25),
                2,
            ),
        ),
        loaders=(MadeLoader(0, True, 3, 40),),
    )


def _write_through_an_index() -> Call:
    """``w.index_copy(0, index, z)`` with two positions for five rows."""
    index = TensorUse(3, "2", 0, False, True, ValueFacts(5, 0.0, 1.0, zeros=3, equal_rows=True))
    source = TensorUse(2, "3", 0, True, False)
    return Call(
        "torch.Tensor.index_copy", call_site=1, inputs=(TensorUse(1, "0", 0, True, True), index, source),
        outputs=(TensorUse(2, "return", 1, True, False),), scalars={"1": 0}, sequence_nr=8, node_count=1,
        inner_nr=1, is_opened=True, misses_calls=True,
        checkpoint_site=0, redrawn_site=0, checksums={"2": 12}, padding={"2": Padding(-1, 2, 6, 0, False, 1)},
    )  # fmt: skip


def _with_draw(call: Call) -> Call:
    (drawn,) = call.outputs
    assert drawn.values is not None
    values = replace(drawn.values, zeros=2, infs=1)
    outputs = (TensorUse(drawn.tensor, drawn.place, 0, False, True, values, FINGERPRINT),)
    return replace(call, outputs=outputs, draw=RandomDraw("cpu", 11, 12))


def whole_graph() -> Graph:
    """The graph of `small_capture` with gradients, values, findings and shares of losses."""
    graph = small_graph()
    scopes = (
        *graph.scopes,
        ModuleScope("model.inner", "Linear", parent=0, call_site=0),
        ModuleScope("step", "step()", call=1, kind="function"),
    )
    verdict = Verdict("GV101", "detached", "warning", "cut off", "because", "do not")
    leaves = tuple(node.id for node in graph.nodes if node.is_leaf)
    return replace(
        graph,
        nodes=(*map(_with_gradients, graph.nodes), *more_nodes()),
        roots=(replace(graph.roots[0], gradient=figures(1.0)), replace(graph.roots[0], output_nr=1, name="other")),
        scopes=scopes,
        constants=(
            replace(
                graph.constants[0],
                kind="buffer",
                value=figures(1.0, 2.0, 0.0, 4.0, 5.0, 6.0, shape=(2, 3)),
                detached_from="model.weight",
            ),
        ),
        backward=BackwardCall(1, call_site=0, failed_node=2, retain_graph=True),
        older_graphs=(OlderGraph("losses", 3),),
        root_shares=RootShares(
            (LossTerm("one", (3,), 0), LossTerm("other", (2,), 1)), (LeafProducts(0, (1.0, 0.5, 0.5, 2.0)),)
        ),
        custom_functions=(CustomFunction("MmBackward0", "Mm", "/project/train.py", 3, 7),),
        regions=(
            Region(
                "CompiledFunctionBackward",
                "forward",
                "inductor",
                1,
                NodeRun(4, 0.5),
                is_measured=True,
                uncompiled_bytes=4096,
                recomputed=(Recomputed("tanh", 1, 3, 1),),
                backward_parts=(BackwardPart(1, {"mul": 2, "sub": 1}),),
                is_saved_guessed=True,
                graph_break=GraphBreak("Tensor.item()", "/project/train.py", 7),
            ),
            Region("", closed="its code could not be run again"),
        ),
        findings=(NodeFinding("GV102", "detached", "warning", "cut off", "because", "do not", node=2),),
        cut_edges=(
            CutEdge(verdict, "detach", ("x",), "/project/train.py", 7, node=2, sources=(1,), constant=0, scope=1),
        ),
        unplaced_findings=(verdict,),
        exchanges=(
            Exchange("all_reduce", "DDP", leaves, len(leaves), 48, 1, "fp16", False, 1, 0.5, 24, 0.25, 0.125),
            Exchange("all_gather", "fully_shard", leaves, len(leaves), 48, is_in_forward=True),
        ),
    )


def more_nodes() -> tuple[Node, ...]:
    """Operations of compiled code, a reentrant checkpoint, and what is named with its dimensions."""
    facts = TensorFacts((4,), "bfloat16", "cuda:0", "sparse_coo", "Masked", ("Replicate()",))
    held = HeldTensor(("y",), requires_grad=False, retains_grad=True, has_grad=True, output_nr=1)
    product = Node(
        4, "MulBackward0", sequence_nr=7, edges=(Edge(2), None), outputs=(facts,), held=(held,),
        forward_call="torch.mul",
        gradients=(broken_figures(), None), values=(broken_figures(),), number=3.0, region=0, inner_nr=2,
        saved=(SavedTensor("other", facts, 8, 2, source=2, source_nr=1),),
    )  # fmt: skip
    checkpoint = Node(
        5, "CheckpointFunctionBackward", "checkpoint", 8, edges=(Edge(4, 1),), arrived=(unknown_figures(),),
        run=NodeRun(4, 0.5, thread=1, times=2, is_gpu_time=True), calls_backward=True, region=1, number=2,
    )  # fmt: skip
    row = Node(6, "SelectBackward0", "view", 9, edges=(Edge(4),), attributes={"dim": 0, "index": 1}, call_site=1)
    part = Node(7, "SliceBackward0", "view", 10, (Edge(6),), attributes={"dim": 1, "start": 1, "end": 5, "step": 2})
    shares = Node(8, "SoftmaxBackward0", "operation", 11, (Edge(7),), (facts,), attributes={"dim": 0})
    return product, checkpoint, row, part, shares


def _with_gradients(node: Node) -> Node:
    figure = figures(0.5, -2.0, 0.0)
    return replace(
        node,
        gradients=tuple(figure for _ in node.edges),
        shares=tuple(BranchShare(0.5, -1.0) for _ in node.edges),
        arrived=(figure,) * max(len(node.outputs), 1),
        before_hooks=(figure,) if node.hooks else (),
        values=(figures(1.0, 2.0),) * len(node.outputs),
        run=NodeRun(3 - node.id, 0.25),
        leaf_gradient=LeafGradient("accumulated", figure, figure, "DistributedDataParallel") if node.is_leaf else None,
        saved=tuple(replace(saved, value=figures(3.0, 4.0)) if saved.tensor else saved for saved in node.saved),
    )
