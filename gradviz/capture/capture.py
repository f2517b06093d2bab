"""One recorded run: its graphs, its parameters, its source lines, and its error, if any."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from gradviz.capture.optimizer_state import OptimizerState
from gradviz.capture.peer_traffic import PeerTraffic
from gradviz.capture.replica_log import ReplicaLog
from gradviz.capture.sharding import Sharding
from gradviz.graph.bounded_types import Count, LineNumber, Names
from gradviz.graph.call_log import CallLog
from gradviz.graph.compilations import Compilation, GradientCut
from gradviz.graph.model import Graph, TensorFacts


class Program(Struct, frozen=True, omit_defaults=True):
    """The program that was run, and the versions used."""

    name: str
    """The script or module as the user named it; ``<python>`` for inline use."""
    arguments: tuple[str, ...] = ()
    python_version: str = ""
    torch_version: str = ""
    gradviz_version: str = ""


class Settings(Struct, frozen=True, omit_defaults=True):
    """Settings of torch that decide which kernel computes a result, as they were when the recording ended."""

    threads: Count = 0
    """Threads that one operation may use; 0 if unknown."""
    is_deterministic: bool | None = None
    """Whether only deterministic algorithms are allowed."""
    matmul_tf32: bool | None = None
    """Whether CUDA may compute float32 matrix products in TF32."""
    convolution_tf32: bool | None = None
    cudnn_benchmark: bool | None = None
    """Whether cuDNN tries several algorithms, and takes the fastest."""
    processor: str = ""
    """The instructions that the processor's kernels use: ``AVX512``."""


class Parameter(Struct, frozen=True, omit_defaults=True):
    """A parameter of a module that ran, whether or not the loss depends on it."""

    names: Names
    tensor: TensorFacts
    requires_grad: bool = True
    gets_reduced_gradient: bool = False
    """Whether a wrapper made its ``.grad`` out of the gradients of all ranks, in a recorded backward: other ranks may
    have sent something where this one did not use it."""
    sharding: Sharding | None = None
    """How it is shared out over ranks; None if this process has all of it."""
    part_of: str = ""
    """The name of the flat parameter that `FullyShardedDataParallel` made of it and others: the graph has that one."""

    @property
    def is_trained_elsewhere(self) -> bool:
        """Whether its gradient may come from other ranks: a wrapper adds theirs, or this process has nothing of it."""
        return self.gets_reduced_gradient or (self.sharding is not None and 0 in self.sharding.shape)


class ScriptError(Struct, frozen=True, omit_defaults=True):
    """How the user's program failed."""

    type_name: str
    message: str
    traceback: str
    """As Python would have printed it, without gradviz's frames."""
    call_site: tuple[str, LineNumber] | None = None
    """File and line of the innermost frame of the user's code."""
    in_backward: bool = False


class Rank(Struct, frozen=True, omit_defaults=True):
    """Which process of a job of several was recorded."""

    number: Count
    """Its rank; for processes that train without a process group, their number in the order in which they began."""
    world_size: Count
    """The number of ranks, or of processes that trained."""
    job: str
    """The same for all processes of one run, and for no other run."""
    host: str = ""
    backend: str = ""
    """Of the process group, such as ``gloo``; empty if there was none."""
    is_in_order: bool = False
    """Whether `number` only says in which order the processes began."""

    @property
    def words(self) -> str:
        """``rank 1 of 4``."""
        return f"{self.kind} {self.number} of {self.world_size}"

    @property
    def kind(self) -> str:
        """What such a process is called: ``rank``, or ``process`` where it has none."""
        return "process" if self.is_in_order else "rank"


class Capture(Struct, frozen=True, omit_defaults=True):
    """One recorded run. Rendering and analysis need nothing else."""

    program: Program
    graphs: tuple[Graph, ...] = ()
    parameters: tuple[Parameter, ...] = ()
    sources: dict[str, dict[LineNumber, str]] = {}
    """Text of every source line that a call site refers to, by file and line."""
    imported: tuple[str, ...] = ()
    """Files of the program in which nothing was recorded; `sources` has them whole, as others use what they define.
    Only a recording with a log of calls has them."""
    imported_left_out: Count = 0
    """How many more such files there were: they are too many, or too long."""
    error: ScriptError | None = None
    outcome: Literal["stopped", "finished", "failed", "interrupted"] = "finished"
    """``stopped``: ended by gradviz after the last requested backward."""
    backward_calls: Count = 0
    """How many backward calls the script made while it was recorded."""
    disclosures: tuple[str, ...] = ()
    """What could not be recorded, one sentence each. Every renderer shows them."""
    calls: CallLog | None = None
    """Every torch call, if that was asked for. Diagnoses are made from them."""
    settings: Settings | None = None
    """Recordings made before this field existed say nothing here."""
    missing: dict[str, str] = {}
    """What the torch of the recording cannot do, by name, and what is not seen because of it: rules that need it cannot
    look. Recordings made before this field existed say nothing here."""
    compilations: tuple[Compilation, ...] = ()
    """What ``torch.compile`` compiled, in order."""
    uncompiled_cuts: tuple[GradientCut, ...] = ()
    """Where gradients are cut off in code that ``torch.compile`` left uncompiled, as behind some graph breaks."""
    rank: Rank | None = None
    """Which process of a job this was; None for a program of one process."""
    replicas: ReplicaLog | None = None
    """The parameters that other ranks should have alike, over the steps; None if nothing keeps them so."""
    traffic: tuple[PeerTraffic, ...] = ()
    """What it sent to single other ranks, and received from them."""
    optimizers: tuple[OptimizerState, ...] = ()
    """What optimizers keep that stepped; looked at only in jobs of several processes."""
    may_make_fewer_calls: bool = False
    """Whether torch's ``Join`` lets ranks whose data is shorter make fewer backward calls."""

    @property
    def title(self) -> str:
        """The name of the program, with the rank if it was one of several processes."""
        return self.titled(self.program.name)

    def titled(self, name: str) -> str:
        """The same with another name for the program."""
        return f"{name}, {self.rank.words}" if self.rank is not None and self.rank.world_size > 1 else name
