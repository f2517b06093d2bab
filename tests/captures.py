"""Captures written by hand, for tests of what works from a capture alone."""

from __future__ import annotations

from gradviz.capture.capture import Capture, Parameter, Program, ScriptError
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
from gradviz.graph.saved_tensors import AllocatorReading, SavedTensor, Storage

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
        allocators=(AllocatorReading("cuda:0", "torch.cuda.memory_allocated", 1024, 2048, 512, 512, 3),),
    )
