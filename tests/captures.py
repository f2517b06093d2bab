"""Captures written by hand, for tests that need only a capture."""

from __future__ import annotations

from gradviz.capture.capture import Capture, Parameter, Program, ScriptError
from gradviz.graph.call_log import (
    Call,
    CallLog,
    Definition,
    LeafEnd,
    LoggedOptimizer,
    LoggedTensor,
    TensorUse,
    ValueFacts,
)
from gradviz.graph.model import (
    BackwardCall,
    CallSite,
    Constant,
    Edge,
    Graph,
    HeldTensor,
    ModuleScope,
    Node,
    Root,
    TensorFacts,
)
from gradviz.graph.saved_tensors import AllocatorReading, SavedTensor, Storage, TorchObjects

WEIGHT = TensorFacts(shape=(4, 3), dtype="float32")


def small_capture() -> Capture:
    """``loss = model(x).sum()`` with one linear layer; every kind of table and field is used at least once."""
    return Capture(
        program=Program("train.py", ("--lr", "0.1"), "3.11.7", "2.13.0", "0.1.0"),
        graphs=(small_graph(),),
        parameters=(Parameter(("model.weight",), WEIGHT), Parameter(("model.unused",), WEIGHT, requires_grad=False)),
        sources={"/project/train.py": {7: "loss = model(x).sum()", 3: "x = torch.ones(2, 3)"}},
        error=ScriptError("ValueError", "too late", "Traceback ...", ("/project/train.py", 9)),
        outcome="failed",
        backward_calls=1,
        disclosures=("Saved tensors of 1 node are packed by hooks; their size is unknown.",),
        calls=small_call_log(),
    )


def small_call_log() -> CallLog:
    """``x = torch.ones(2, 3)`` under ``no_grad``, the layer, and ``loss.item()``, as a recording would log them."""
    ones = ValueFacts(6, 1.0, 1.0)
    x = TensorUse(0, "return", 0, False, True, ones)
    return CallLog(
        calls=(
            Call("torch.ones", call_site=0, outputs=(x,), scalars={"0": 2}, grad_mode="no_grad", grad_mode_site=0),
            Call(
                "torch.nn.functional.linear",
                call_site=1,
                scope=0,
                inputs=(TensorUse(0, "0", 0, False, True), TensorUse(1, "1", 0, True, True, ValueFacts(12, nans=1))),
                outputs=(TensorUse(2, "return", 0, True, False),),
                sequence_nr=5,
                node_count=2,
            ),
            Call(
                "torch.Tensor.item", inputs=(TensorUse(2, "0", 0, True, False),), result=4.0, raised="RuntimeError: no"
            ),
            Call(
                "torch.optim.SGD.step",
                "step",
                optimizer=0,
                inside=1,
                is_autocast=True,
                name="1",
                results=(1, 2.0),
                definition=0,
            ),
        ),
        tensors=(
            LoggedTensor(TensorFacts((2, 3), "float32"), 0, 0, 0, names=("x",), from_numpy_of=1, array_of=1),
            LoggedTensor(
                WEIGHT, 1, None, 1, True, True, "parameter", ("model.weight",), end=LeafEnd(True, True, 2.0, ones)
            ),
            LoggedTensor(TensorFacts((2, 4), "float32"), 1, 1, 2, True, False, gradient_of=1),
        ),
        call_sites=(CallSite("/project/train.py", 3), CallSite("/project/train.py", 7)),
        scopes=(ModuleScope("model", "Linear", parameter_count=12),),
        optimizers=(LoggedOptimizer("SGD", ("opt",), ((1,),), (0.1,), (0.5,), (2,), True, (0.01,), 1),),
        definitions=(Definition("Swish.backward", "/project/train.py", 3, 7),),
        dropped=3,
        dropped_at=1,
    )


def small_graph() -> Graph:
    return Graph(
        nodes=(
            Node(
                id=0,
                name="torch::autograd::AccumulateGrad",
                kind="parameter",
                outputs=(WEIGHT,),
                held=(HeldTensor(("model.weight",), is_leaf=True),),
            ),
            Node(id=1, name="TBackward0", kind="view", sequence_nr=4, edges=(Edge(0),), scope=0),
            Node(
                id=2,
                name="MmBackward0",
                sequence_nr=5,
                edges=(None, Edge(1)),
                outputs=(TensorFacts((2, "j1"), "float32"),),
                forward_call="torch.nn.functional.linear",
                call_site=1,
                scope=0,
                attributes={"alpha": 1.0, "dims": [0, -1], "name": None, "keep": False},
                constants=(0,),
                saved=(
                    SavedTensor("self", TensorFacts((2, 3), "float32"), 24, 0, saved_version=1, version=2),
                    SavedTensor("mat2", WEIGHT, 48, 1, "ctx", "held", "offload", source=1, source_nr=0),
                    SavedTensor("result", state="unknown", packed_by="pack.<locals>.unpack"),
                ),
            ),
            Node(id=3, name="SumBackward0", sequence_nr=6, edges=(Edge(2),), call_site=0, hooks=("pre: <lambda>",)),
        ),
        roots=(Root(3, name="loss", tensor=TensorFacts((), "float32")),),
        scopes=(ModuleScope("model", "Linear", parameter_count=12),),
        call_sites=(
            CallSite("/project/train.py", 7),
            CallSite("/lib/linear.py", 20, "forward", caller=0, is_library=True),
        ),
        constants=(Constant(TensorFacts((2, 3), "float32"), names=("x",)),),
        backward=BackwardCall(1, call_site=0),
        storages=(
            Storage(24, kind="input", names=("x",), made_before=True),
            Storage(48, device="cuda:0", kind="parameter", names=("model.weight",)),
            Storage(4, names=("loss",)),
        ),
        knows_saved_tensors=True,
        allocators=(
            AllocatorReading(
                "cuda:0", "torch.cuda.memory_allocated", 1024, 2048, 512, 512, 3, (TorchObjects("nodes", 4, 480),)
            ),
        ),
    )
