"""The table: what gradviz takes from torch's insides, for what, how it is tried, and what is lost without it.

Most of it is tried together when a recording starts, on a thread of its own (see `probes`). What belongs to a module of
torch that the program may never load, or needs the engine, is tried when it is first asked for.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass

import torch

from gradviz.errors import MissingDependency
from gradviz.recording.torch_access import custom_functions, probes
from gradviz.recording.torch_access.own_thread import result_of_own_thread

OLDEST = (2, 6)
NEWEST = (2, 15)
"""The releases between which this was tried."""


@dataclass(frozen=True)
class Capability:
    """One thing that torch can tell or let us do."""

    name: str
    """How a rule, a capture and ``gradviz doctor`` call it."""
    used_for: str
    names: tuple[str, ...]
    """What is read or replaced of torch; see `names` for how they are written."""
    probe: Callable[[], bool]
    instead: str
    """What does the work where this fails; empty where nothing does."""
    lost: str
    """What cannot be told then, after "torch 2.6.0 does not tell ..."; empty where nothing is lost."""
    unseen: str
    """The same in a few words, for rules that cannot look: ``custom functions are not seen``."""
    seen: str
    """Since and until which release of torch it was seen to work."""
    is_essential: bool = False
    """Whether there is no recording without it."""
    waits_for: str = ""
    """The module of torch that the program must have loaded, or what must have happened, before it is tried."""


CAPABILITIES = (
    Capability(
        "sequence numbers",
        "to know which call made a node, and so its line and module",
        ("torch._C._autograd._get_sequence_nr", "Node._sequence_nr"),
        probes.sequence_numbers,
        instead="",
        lost="which call made a node",
        unseen="calls are not seen",
        seen="2.6 to 2.15",
        is_essential=True,
    ),
    Capability(
        "function modes",
        "to see torch calls, and to take the mode off in whatever order the program left its own",
        (
            "torch._C._push_on_torch_function_stack",
            "torch._C._pop_torch_function_stack",
            "torch._C._len_torch_function_stack",
        ),
        probes.function_modes,
        instead="",
        lost="which torch functions are called",
        unseen="calls are not seen",
        seen="2.6 to 2.15",
        is_essential=True,
    ),
    Capability(
        "calls of backward",
        "to notice backward() and grad()",
        ("torch.autograd._engine_run_backward", "torch.autograd.graph._engine_run_backward"),
        probes.engine_entry,
        instead="",
        lost="when backward is called",
        unseen="backward is not seen",
        seen="2.6 to 2.15",
        is_essential=True,
    ),
    Capability(
        "unseen reading",
        "to read tensors past the program's modes and subclasses",
        ("torch._C.DisableTorchFunction",),
        probes.unseen_reading,
        instead="modes are taken off and put back, which takes longer",
        lost="",
        unseen="",
        seen="2.6 to 2.15",
    ),
    Capability(
        "identity of tensors",
        "to know a tensor again without keeping it alive",
        ("Tensor._cdata", "torch._C._WeakTensorRef"),
        probes.tensor_identity,
        instead="Python's own ids and weak references",
        lost="which tensor is which once Python has given up its object: what follows from it may be missing",
        unseen="tensors may not be known again",
        seen="2.6 to 2.15",
    ),
    Capability(
        "identity of storages",
        "to count memory that tensors share once, and to know what was there before forward",
        ("Storage._cdata", "torch.multiprocessing.reductions.StorageWeakRef"),
        probes.storage_identity,
        instead="the address of the data",
        lost="which memory was given back since forward began",
        unseen="freed memory is not seen",
        seen="2.6 to 2.15",
    ),
    Capability(
        "versions of tensors",
        "to know which call changed a tensor in place",
        ("Tensor._version",),
        probes.versions,
        instead="",
        lost="which calls changed a tensor in place",
        unseen="changes in place are not seen",
        seen="2.6 to 2.15",
    ),
    Capability(
        "views",
        "to know which tensors may be asked for their node, and what a view is a view of",
        ("Tensor._is_view", "Tensor._base"),
        probes.views,
        instead="tensors that were changed in place are not asked",
        lost="which tensor a view is a part of",
        unseen="views are not seen",
        seen="2.6 to 2.15",
    ),
    Capability(
        "shapes of results",
        "to know what each operation gave",
        ("Node._input_metadata",),
        probes.input_metadata,
        instead="",
        lost="shapes of what operations give",
        unseen="shapes are not known",
        seen="2.6 to 2.15",
    ),
    Capability(
        "classes of custom functions",
        "to know whose node it is",
        ("Node._forward_cls",),
        probes.python_functions,
        instead="",
        lost="which nodes are custom functions, and which are checkpoints or compiled code",
        unseen="custom functions are not known",
        seen="2.6 to 2.15",
    ),
    Capability(
        "custom functions",
        "to notice a call of autograd.Function: its line, what it is given, the calls inside of it",
        (
            "torch.autograd.function._is_setup_context_defined",
            "torch.autograd.function.BackwardCFunction",
            "torch.autograd.function.FunctionMeta",
        ),
        lambda: custom_functions.working_way() is not None,
        instead="the second way where the first fails",
        lost="when custom functions are called: their lines, what they are given, and whether their backward is right",
        unseen="custom functions are not seen",
        seen="2.6 to 2.13 in one way, since 2.14 in the other",
    ),
    Capability(
        "custom backward",
        "to know that backward is inside a custom function, as reentrant checkpointing is",
        ("torch.autograd.function.BackwardCFunction",),
        probes.custom_backward,
        instead="",
        lost="which backward calls are made by a custom function",
        unseen="backward inside custom functions is not known",
        seen="2.6 to 2.15",
    ),
    Capability(
        "slots of nodes",
        "to tell the tensors that a node saved from its other arguments",
        ("Node._raw_saved_", "Node._saved_"),
        probes.slots_of_nodes,
        instead="",
        lost="arguments of operations",
        unseen="arguments of operations are not known",
        seen="2.6 to 2.15",
    ),
    Capability(
        "saved tensors",
        "to know what a node keeps, without unpacking it",
        ("Node._raw_saved_", "SavedTensor.data", "SavedTensor.unpack_hook"),
        probes.raw_saved_tensors,
        instead="",
        lost="what nodes saved",
        unseen="saved tensors are not seen",
        seen="2.13 to 2.15",
    ),
    Capability(
        "hooks on saved tensors",
        "to know that non-reentrant checkpointing packs what is saved now",
        ("torch._C._autograd._top_saved_tensors_default_hooks",),
        probes.saved_tensor_hooks,
        instead="",
        lost="which operations checkpointing computes again",
        unseen="checkpointing is not seen",
        seen="2.7 to 2.15",
    ),
    Capability(
        "records of checkpoints",
        "to know the inputs of a checkpoint, and the shapes of what it gave up",
        ("_CheckpointFrame.weak_holders", "_CheckpointFrame.x_metadatas", "_CheckpointFrame.saved_args"),
        probes.checkpoint_records,
        instead="",
        lost="the inputs that checkpoints keep",
        unseen="records of checkpoints are not seen",
        seen="2.13 to 2.15",
        waits_for="torch.utils.checkpoint",
    ),
    Capability(
        "failed nodes",
        "to know which node raised in backward",
        ("SavedTensor.data",),
        probes.failed_node,
        instead="a node of a Python function is in the traceback",
        lost="which node failed in backward",
        unseen="failing nodes are not known",
        seen="2.13 to 2.15",
        waits_for="a backward that raises",
    ),
    Capability(
        "switches of gradients",
        "to know the line that switched gradients off",
        ("torch._C._set_grad_enabled",),
        probes.grad_switch,
        instead="the with statements and decorators around the line",
        lost="the lines of calls that switched gradients off, where no with statement or decorator did",
        unseen="switches of gradients are not seen",
        seen="2.6 to 2.15",
    ),
    Capability(
        "tracing",
        "to keep what we do out of the graph of torch.jit.trace",
        ("torch._C._get_tracing_state", "torch._C._set_tracing_state"),
        probes.tracing,
        instead="",
        lost="whether torch.jit.trace is tracing: what is recorded then may stand in its graph",
        unseen="tracing is not seen",
        seen="2.6 to 2.15",
    ),
    Capability(
        "autocast",
        "to know that autocast is on for any device",
        ("torch._C._is_any_autocast_enabled",),
        probes.autocast,
        instead="torch.is_autocast_enabled(), which asks for CUDA",
        lost="whether autocast is on, for devices other than CUDA",
        unseen="autocast is not seen",
        seen="2.6 to 2.15",
    ),
    Capability(
        "transforms",
        "to leave tensors alone that stand for others inside torch.func",
        (
            "torch._C._functorch.peek_interpreter_stack",
            "torch._C._functorch.is_functorch_wrapped_tensor",
            "torch._C._functorch.get_unwrapped",
            "torch._C._functorch._vmap_increment_nesting",
            "torch._C._functorch._vmap_decrement_nesting",
            "torch._C._functorch._add_batch_dim",
            "torch._C._has_storage",
        ),
        probes.function_transforms,
        instead="",
        lost="whether a transform of torch.func is running: its tensors are taken for the program's own",
        unseen="transforms are not seen",
        seen="2.6 to 2.15",
    ),
    Capability(
        "forward gradients",
        "to compute beside dual numbers without their tangents",
        ("torch.autograd.forward_ad._current_level", "torch.autograd.forward_ad._set_fwd_grad_enabled"),
        probes.forward_gradients,
        instead="",
        lost="whether the program computes with dual numbers",
        unseen="dual numbers are not seen",
        seen="2.6 to 2.15",
    ),
    Capability(
        "dispatch modes",
        "to measure without the program's dispatch modes seeing it",
        ("torch._C._len_torch_dispatch_stack", "torch._C._DisableTorchDispatch"),
        probes.dispatch_modes,
        instead="",
        lost="whether a dispatch mode of the program is on: it may see what is measured",
        unseen="dispatch modes are not seen",
        seen="2.6 to 2.15",
    ),
    Capability(
        "making of modules",
        "to know which line made a module",
        ("torch._C._log_api_usage_once",),
        probes.module_made,
        instead="",
        lost="which lines make modules",
        unseen="the making of modules is not seen",
        seen="2.6 to 2.15",
    ),
    Capability(
        "contents of modules",
        "to name parameters and buffers",
        (
            "Module._parameters",
            "Module._buffers",
            "Module._modules",
            "Module._backward_hooks",
            "Module._backward_pre_hooks",
        ),
        probes.module_contents,
        instead="named_parameters() and the like, which run the program's own where it has some",
        lost="which modules have hooks for backward",
        unseen="hooks of modules are not seen",
        seen="2.6 to 2.15",
    ),
    Capability(
        "calls of modules",
        "to know in which frame torch runs a module",
        ("torch.nn.modules.module.Module._call_impl",),
        probes.module_calls,
        instead="",
        lost="where in the stack modules are called: a module that raised may count as running",
        unseen="frames of modules are not known",
        seen="2.6 to 2.15",
    ),
    Capability(
        "hooks of leaves",
        "to name the hooks of a tensor",
        ("Tensor._backward_hooks", "Tensor._post_accumulate_grad_hooks", "RemovableHandle.hooks_dict_ref"),
        probes.hooks_of_leaves,
        instead="",
        lost="which hooks tensors have",
        unseen="hooks are not seen",
        seen="2.6 to 2.15",
    ),
    Capability(
        "position of the engine",
        "to tell the program's own backward from one that a node calls",
        ("torch._C._current_graph_task_id", "torch._C._current_autograd_node"),
        probes.engine_position,
        instead="",
        lost="which backward calls are made by nodes: each counts as the program's own",
        unseen="backward inside backward is not told apart",
        seen="2.6 to 2.15",
    ),
    Capability(
        "swapped tensors",
        "to let go of tensors whose contents are about to be swapped",
        ("torch.utils.weakref",),
        probes.swapped_tensors,
        instead="",
        lost="that tensors are about to be swapped: torch may refuse it while it is recorded",
        unseen="swapping of tensors is not seen",
        seen="2.6 to 2.15",
    ),
    Capability(
        "stacks of anomaly mode",
        "to keep our frames out of the stacks that anomaly mode prints",
        (
            "torch.fx.traceback.format_stack",
            "torch.fx.traceback.has_preserved_node_meta",
        ),
        probes.anomaly_stacks,
        instead="",
        lost="how anomaly mode reads the stack: what it prints has frames of gradviz in it",
        unseen="stacks of anomaly mode are not known",
        seen="2.6 to 2.15",
    ),
    Capability(
        "compiled code",
        "to stay out of the sight of Dynamo, which would trace us",
        (
            "torch._dynamo.eval_frame._maybe_set_eval_frame",
            "torch.nn.modules.module._has_any_global_hook",
            "torch.nn.modules.module._global_forward_pre_hooks",
            "torch.nn.modules.module._global_forward_hooks",
            "torch.nn.modules.module._global_forward_hooks_always_called",
            "torch.nn.modules.module._global_forward_hooks_with_kwargs",
            "torch.nn.modules.module._global_backward_pre_hooks",
            "torch.nn.modules.module._global_backward_hooks",
            "torch._dynamo.compiled_autograd.compiled_autograd_enabled",
            "CompiledFunction._lazy_backward_info",
        ),
        probes.compiled_code,
        instead="",
        lost="when compiled code runs: torch.compile traces the recorder, and may compile more often",
        unseen="compiled code is not seen",
        seen="2.6 to 2.15",
        waits_for="torch._dynamo",
    ),
    Capability(
        "leaving a handler",
        "to take the function mode off for good from inside its own handler",
        ("torch.overrides._push_mode",),
        probes.mode_pushes,
        instead="the mode stays, passing every call through, until the program ends",
        lost="",
        unseen="",
        seen="2.6 to 2.15",
    ),
)
"""In the order in which they are tried."""

_BY_NAME = {capability.name: capability for capability in CAPABILITIES}
_tried: dict[str, bool] = {}


def works(name: str) -> bool:
    """Whether this torch has the capability of that name."""
    if name not in _tried:
        capability = _BY_NAME[name]
        tried = [capability] if capability.waits_for else [each for each in CAPABILITIES if not each.waits_for]
        _tried.update(result_of_own_thread(lambda: {each.name: _is_working(each) for each in tried}))
    return _tried[name]


def _is_working(capability: Capability) -> bool:
    try:
        return bool(capability.probe())
    except Exception:  # whatever has moved, and however it fails now
        return False


def try_all() -> dict[str, bool]:
    """Every capability, those that wait included."""
    return {capability.name: works(capability.name) for capability in CAPABILITIES}


def missing() -> dict[str, str]:
    """What this torch cannot do, of what was tried so far: names, and what cannot be told for it."""
    for capability in CAPABILITIES:
        if not capability.waits_for or capability.waits_for in sys.modules:
            works(capability.name)
    return {each.name: each.lost for each in CAPABILITIES if each.lost and not _tried.get(each.name, True)}


def unseen() -> dict[str, str]:
    """The same in a few words each, for rules that cannot look."""
    return {name: _BY_NAME[name].unseen for name in missing()}


def disclosures() -> list[str]:
    """A sentence for each capability that is missing, and for a torch that nobody has tried."""
    told = [f"torch {torch.__version__} does not tell {lost}" for lost in missing().values()]
    if is_newer_than_tried():
        told.append(
            f"what torch {torch.__version__} does in a new way: it is newer than any that gradviz was tried with "
            f"({tried_releases()}), so what is shown may be incomplete or wrong"
        )
    return told


def is_newer_than_tried() -> bool:
    """Whether this release of torch came after the last one that was tried."""
    return _release() > NEWEST


def is_older_than_tried() -> bool:
    """Whether this release of torch came before the first one that was tried."""
    return _release() < OLDEST


def check() -> None:
    """Raise `MissingDependency` where this torch lacks what no recording can do without."""
    if is_older_than_tried():
        raise MissingDependency(
            f"torch {torch.__version__} cannot be recorded: gradviz needs torch {_words(OLDEST)} or newer",
            hint=f"it was tried with {tried_releases()}",
        )
    lacking = [each for each in CAPABILITIES if each.is_essential and not works(each.name)]
    if lacking:
        raise MissingDependency(
            f"torch {torch.__version__} cannot be recorded: it does not tell {lacking[0].lost}",
            hint=f"gradviz was tried with torch {tried_releases()}",
        )


def _release() -> tuple[int, int]:
    found = re.match(r"(\d+)\.(\d+)", str(torch.__version__))
    return (int(found[1]), int(found[2])) if found else NEWEST


def _words(release: tuple[int, int]) -> str:
    return ".".join(map(str, release))


def tried_releases() -> str:
    """In words: ``2.6 to 2.15``."""
    return f"{_words(OLDEST)} to {_words(NEWEST)}"
