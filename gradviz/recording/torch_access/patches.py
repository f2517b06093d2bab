"""The names of torch and Python that are replaced while a recording runs, and how they are restored.

Nothing else may be replaced: a check after every test examines each of these.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gradviz.recording.torch_access.name_lookup import owner_of


@dataclass(frozen=True)
class Patch:
    """A name that is replaced, and why."""

    path: str
    why: str


PATCHES = (
    Patch("torch.autograd._engine_run_backward", "to notice backward() and grad()"),
    Patch("torch.autograd.graph._engine_run_backward", "to notice Tensor.backward() and others"),
    Patch("torch.autograd.function._is_setup_context_defined", "to notice custom functions until torch 2.13"),
    Patch("torch.autograd.function.BackwardCFunction.__init__", "to notice custom functions since torch 2.14"),
    Patch("torch.autograd.function.FunctionMeta.forward", "to see the arguments of custom functions"),
    Patch("torch.fx.traceback.format_stack", "to keep frames of gradviz out of anomaly mode's stacks"),
    Patch("torch._C._log_api_usage_once", "to notice that a module is made"),
    Patch("torch.utils.data.dataloader._BaseDataLoaderIter.__next__", "to log few of the batches that a loader makes"),
    Patch("torch.utils.weakref", "to drop references to tensors that are about to be swapped"),
    Patch("torch.autograd.variable.VariableMeta.__call__", "to notice torch.autograd.Variable(...)"),
    Patch("torch.nn.Module.load_state_dict", "to note which keys found no parameter"),
    Patch("torch.nn.utils.stateless._functional_call", "to note keys that name no parameter"),
    Patch("torch.optim.Optimizer.load_state_dict", "to note states that hold the optimizer's own tensors"),
    Patch("torch.optim.lr_scheduler.LRScheduler.__init__", "to notice schedules of learning rates"),
    Patch("torch.optim.lr_scheduler.ReduceLROnPlateau.__init__", "to notice schedules that wait for a plateau"),
    Patch("torch.optim.lr_scheduler.ReduceLROnPlateau.step", "to note the numbers that such a schedule is told"),
    Patch("torch._dynamo.eval_frame._maybe_set_eval_frame", "to notice compiled code"),
    Patch("torch.export._trace._strict_export", "to notice that Dynamo traces a model for torch.export"),
    Patch("torch._dynamo.output_graph.OutputGraph.call_user_compiler", "to note what Dynamo traced"),
    Patch("torch._dynamo.output_graph.OutputGraph.compile_subgraph", "to note graph breaks"),
    Patch(
        "torch._dynamo.convert_frame._compile", "to look at no line while Dynamo compiles, and to note what it gives up"
    ),
    Patch("torch.nn.modules.module._has_any_global_hook", "to hide hooks of gradviz from Dynamo"),
    Patch(
        "torch.distributed.fsdp._fully_shard._fsdp_param.FSDPParam.init_unsharded_param",
        "to know which sharded parameter a gathered one stands for",
    ),
    Patch(
        "torch.distributed.fsdp._fully_shard._fsdp_param_group.foreach_all_gather",
        "to note which sharded parameters are gathered when",
    ),
    Patch(
        "torch.distributed.fsdp._fully_shard._fsdp_param_group.foreach_reduce",
        "to note whose gradients are reduced when",
    ),
    Patch(
        "torch.distributed.fsdp._flat_param.FlatParamHandle._all_gather_flat_param",
        "to note which flat parameters are gathered when",
    ),
    Patch("torch.distributed.fsdp._runtime_utils._reduce_grad", "to note whose gradients are reduced when"),
    Patch("torch.distributed.autograd.backward", "to notice distributed autograd, which is not recorded"),
    Patch("torch.distributed.ProcessGroup.send", "to label what a stage of a pipeline sends"),
    Patch("torch.distributed.ProcessGroup.recv", "to label what a stage of a pipeline receives"),
    Patch("os._exit", "to keep what was recorded before the process ends without cleaning up"),
    Patch("os.execv", "to keep what was recorded before another program takes the process"),
    Patch("os.execve", "to keep what was recorded before another program takes the process"),
    Patch("subprocess.Popen.__init__", "to let processes that the program starts be recorded"),
    Patch("multiprocessing.process.BaseProcess.run", "to record processes that the program starts"),
    Patch("torch.overrides._push_mode", "to leave the handler of a function mode that is removed permanently"),
)
"""In the order in which a recording may use them."""

_PATHS = frozenset(patch.path for patch in PATCHES)
_ABSENT = object()
"""The original of a name that its owner did not define itself."""


class Replacement:
    """One name of the table, replaced between `put` and `take_back`."""

    def __init__(self, path: str) -> None:
        if path not in _PATHS:
            raise LookupError(f"{path} is not in the table of patches")
        self.path = path
        self._owner: Any = None
        self._original: Any = _ABSENT

    @property
    def is_in_force(self) -> bool:
        """True between `put` and `take_back`."""
        return self._owner is not None

    def put(self, make: Callable[[Any], Any]) -> bool:
        """Replace the original with what `make` returns for it; False if torch has no such owner, or it is in force.

        `make` gets None if the owner does not define the name: some replacements override an inherited one.
        """
        if self.is_in_force:  # before the owner is looked for: some are put again at every call of a module
            return False
        owner, name = owner_of(self.path)
        if owner is None:
            return False
        original = vars(owner).get(name, _ABSENT)
        setattr(owner, name, make(None if original is _ABSENT else original))
        self._owner, self._original = owner, original
        return True

    def take_back(self) -> None:
        """Put the original back; safe to call twice."""
        owner, original = self._owner, self._original
        if owner is None:
            return
        self._owner, self._original = None, _ABSENT
        name = self.path.rpartition(".")[2]
        if original is _ABSENT:
            delattr(owner, name)
        else:
            setattr(owner, name, original)
