"""The private names of torch that gradviz uses: for what, how each is tested, and what is lost without it.

Most are tested together when a recording starts, on a separate thread (see `probes`). Names in a module of torch that
the program may never load, and names that need the engine, are tested when they are first needed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass

import torch

from gradviz.errors import MissingDependency
from gradviz.recording.torch_access import checkpointing, custom_functions, probes
from gradviz.recording.torch_access.name_lookup import is_loaded
from gradviz.recording.torch_access.own_thread import result_of_own_thread

OLDEST = (2, 6)
NEWEST = (2, 15)
"""The oldest and the newest release of torch that gradviz was tested with."""


@dataclass(frozen=True)
class Capability:
    """Something that torch can report, or lets gradviz do."""

    name: str
    """Its name in rules, captures and ``gradviz doctor``."""
    used_for: str
    names: tuple[str, ...]
    """The names of torch that are read or replaced, as `name_lookup` writes them."""
    probe: Callable[[], bool]
    instead: str
    """What gradviz uses if this fails; empty if there is no substitute."""
    lost: str
    """What is unknown if this fails, after "torch 2.6.0 does not report ..."; empty if nothing is lost."""
    unseen: str
    """The same in a few words, for rules that cannot run: ``custom functions are not seen``."""
    seen: str
    """The releases of torch in which it was seen to work."""
    is_essential: bool = False
    """Whether a recording is impossible without it."""
    waits_for: str = ""
    """The module of torch that the program must have loaded, or what must have happened, before it is tested."""


FAILED_BACKWARD = "a backward that raises"
HANG = "a job that hangs"

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
        "to see torch calls, and to remove the mode even if the program left its own on the stack",
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
        "to read tensors without calling the program's modes and subclasses",
        ("torch._C.DisableTorchFunction",),
        probes.unseen_reading,
        instead="modes are removed and put back, which takes longer",
        lost="",
        unseen="",
        seen="2.6 to 2.15",
    ),
    Capability(
        "identity of tensors",
        "to recognize a tensor without keeping it alive",
        ("Tensor._cdata", "torch._C._WeakTensorRef"),
        probes.tensor_identity,
        instead="Python's own ids and weak references",
        lost="which tensor is which after Python has freed its object: findings about it may be missing",
        unseen="tensors may not be recognized",
        seen="2.6 to 2.15",
    ),
    Capability(
        "identity of storages",
        "to count shared memory only once, and to know which memory existed before forward",
        ("Storage._cdata", "torch.multiprocessing.reductions.StorageWeakRef"),
        probes.storage_identity,
        instead="the address of the data",
        lost="which memory was freed since forward began, and of which tensor an unnamed one is a part",
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
        "to know which tensors have a node that can be read safely, and which tensor a view is part of",
        ("Tensor._is_view", "Tensor._base"),
        probes.views,
        instead="the nodes of tensors that were changed in place are not read",
        lost="which tensor a view is part of",
        unseen="views are not seen",
        seen="2.6 to 2.15",
    ),
    Capability(
        "shapes of results",
        "to know the shape, dtype and device of each result",
        ("Node._input_metadata",),
        probes.input_metadata,
        instead="",
        lost="the shapes of results",
        unseen="shapes are not known",
        seen="2.6 to 2.15",
    ),
    Capability(
        "classes of custom functions",
        "to know which custom function made a node",
        ("Node._forward_cls",),
        probes.python_functions,
        instead="",
        lost="which nodes are custom functions, and which are checkpoints or compiled code",
        unseen="custom functions are not known",
        seen="2.6 to 2.15",
    ),
    Capability(
        "custom functions",
        "to notice a call of autograd.Function: its line, its arguments, the calls inside it",
        (
            "torch.autograd.function._is_setup_context_defined",
            "torch.autograd.function.BackwardCFunction",
            "torch.autograd.function.FunctionMeta",
        ),
        lambda: custom_functions.working_way() is not None,
        instead="a second method if the first fails",
        lost="when custom functions are called: their lines and arguments are unknown, their backward is not checked",
        unseen="custom functions are not seen",
        seen="2.6 to 2.13 by the first method, since 2.14 by the second",
    ),
    Capability(
        "custom backward",
        "to know that a custom function calls backward, as reentrant checkpointing does",
        ("torch.autograd.function.BackwardCFunction",),
        probes.custom_backward,
        instead="",
        lost="which backward calls are made by a custom function",
        unseen="backward inside custom functions is not recognized",
        seen="2.6 to 2.15",
    ),
    Capability(
        "slots of nodes",
        "to distinguish the tensors that a node saved from its other arguments",
        ("Node._raw_saved_", "Node._saved_"),
        probes.slots_of_nodes,
        instead="",
        lost="the arguments of operations",
        unseen="arguments of operations are not known",
        seen="2.6 to 2.15",
    ),
    Capability(
        "slots as stored",
        "to know what a node keeps, without unpacking it",
        ("Node._raw_saved_", "SavedTensor.data", "SavedTensor.unpack_hook"),
        probes.raw_saved_tensors,
        instead="it is unpacked where that runs no hook; what was changed since, and what compiled code saved, stays "
        "unknown",
        lost="",
        unseen="",
        seen="2.10 to 2.15",
    ),
    Capability(
        "saved tensors",
        "to know what a node keeps",
        ("Node._raw_saved_", "Node._saved_"),
        probes.saved_tensors,
        instead="",
        lost="what nodes saved",
        unseen="saved tensors are not seen",
        seen="2.6 to 2.15",
    ),
    Capability(
        "checkpointing",
        "to know when non-reentrant checkpointing packs saved tensors",
        ("torch._C._autograd._top_saved_tensors_default_hooks",),
        probes.checkpoint_calls,
        instead="its frame is looked for on the stack",
        lost="which operations checkpointing recomputes",
        unseen="checkpointing is not seen",
        seen="2.7 to 2.15, 2.6 by its frame",
        waits_for=checkpointing.NEEDED_MODULE,
    ),
    Capability(
        "records of checkpoints",
        "to know the inputs of a checkpoint, and the shapes of the tensors that it dropped",
        (
            "_CheckpointFrame.weak_holders",
            "_CheckpointFrame.x_metadatas",
            "_CheckpointFrame.saved_args",
            "_CheckpointFrame.input_saver",
        ),
        probes.checkpoint_records,
        instead="",
        lost="the inputs that checkpoints keep",
        unseen="records of checkpoints are not seen",
        seen="2.6 to 2.15",
        waits_for=checkpointing.NEEDED_MODULE,
    ),
    Capability(
        "failed nodes",
        "to know which node raised in backward",
        ("SavedTensor.data",),
        probes.failed_node,
        instead="the traceback, if the node belongs to a custom function",
        lost="which node failed in backward",
        unseen="failing nodes are not known",
        seen="2.13 to 2.15",
        waits_for=FAILED_BACKWARD,
    ),
    Capability(
        "switches of gradients",
        "to know the line that switched gradients off",
        ("torch._C._set_grad_enabled",),
        probes.grad_switch,
        instead="the with statements and decorators around the line",
        lost="which lines switched gradients off without a with statement or decorator",
        unseen="switches of gradients are not seen",
        seen="2.6 to 2.15",
    ),
    Capability(
        "tracing",
        "to keep operations of gradviz out of the graph of torch.jit.trace",
        ("torch._C._get_tracing_state", "torch._C._set_tracing_state"),
        probes.tracing,
        instead="",
        lost="whether torch.jit.trace is tracing: its graph may contain operations of gradviz",
        unseen="tracing is not seen",
        seen="2.6 to 2.15",
    ),
    Capability(
        "autocast",
        "to know that autocast is on for any device",
        ("torch._C._is_any_autocast_enabled",),
        probes.autocast,
        instead="torch.is_autocast_enabled(), which reports only CUDA",
        lost="whether autocast is on for devices other than CUDA",
        unseen="autocast is not seen",
        seen="2.6 to 2.15",
    ),
    Capability(
        "transforms",
        "to recognize tensors that torch.func wraps around those of the program",
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
        lost="whether a transform of torch.func is running: its wrapped tensors are treated as the program's own",
        unseen="transforms are not seen",
        seen="2.6 to 2.15",
    ),
    Capability(
        "forward gradients",
        "to compute without tangents while the program uses dual numbers",
        ("torch.autograd.forward_ad._current_level", "torch.autograd.forward_ad._set_fwd_grad_enabled"),
        probes.forward_gradients,
        instead="",
        lost="whether the program computes with dual numbers",
        unseen="dual numbers are not seen",
        seen="2.6 to 2.15",
    ),
    Capability(
        "dispatch modes",
        "to hide measurements from the program's dispatch modes",
        ("torch._C._len_torch_dispatch_stack", "torch._C._DisableTorchDispatch"),
        probes.dispatch_modes,
        instead="",
        lost="whether the program has a dispatch mode on: it may see the measurements",
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
        "batches of loaders",
        "to log few of the batches that a loader makes",
        ("torch.utils.data.dataloader._BaseDataLoaderIter.__next__",),
        probes.batches_made,
        instead="every call is logged",
        lost="",
        unseen="",
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
        instead="named_parameters() and similar methods, which the program may override",
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
        lost="in which frame a module is called: a module that raised may be treated as still running",
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
        "to distinguish the program's own backward from one that a node calls",
        ("torch._C._current_graph_task_id", "torch._C._current_autograd_node"),
        probes.engine_position,
        instead="",
        lost="which backward calls are made by nodes: all are treated as the program's own",
        unseen="backward inside backward is not recognized",
        seen="2.6 to 2.15",
    ),
    Capability(
        "swapped tensors",
        "to drop references to tensors whose contents are about to be swapped",
        ("torch.utils.weakref",),
        probes.swapped_tensors,
        instead="",
        lost="when tensors are about to be swapped: torch may refuse to swap them during a recording",
        unseen="swapping of tensors is not seen",
        seen="2.6 to 2.15",
    ),
    Capability(
        "replaced parameters",
        "to note keys of torch.func.functional_call() that name no parameter",
        ("torch.nn.utils.stateless._functional_call",),
        probes.replaced_parameters,
        instead="",
        lost="with which keys parameters are replaced for a call",
        unseen="keys of replaced parameters are not seen",
        seen="2.6 to 2.15",
    ),
    Capability(
        "stacks of anomaly mode",
        "to keep frames of gradviz out of the stacks that anomaly mode prints",
        (
            "torch.fx.traceback.format_stack",
            "torch.fx.traceback.has_preserved_node_meta",
        ),
        probes.anomaly_stacks,
        instead="",
        lost="how anomaly mode reads the stack: the stacks that it prints contain frames of gradviz",
        unseen="stacks of anomaly mode are not known",
        seen="2.6 to 2.15",
    ),
    Capability(
        "compiled code",
        "to keep Dynamo from tracing the recorder",
        (
            "torch._dynamo.eval_frame._maybe_set_eval_frame",
            "torch._dynamo.eval_frame.skip_code",
            "torch._C._dynamo.eval_frame.set_eval_frame",
            "torch.nn.modules.module._has_any_global_hook",
            "torch.nn.modules.module._global_forward_pre_hooks",
            "torch.nn.modules.module._global_forward_hooks",
            "torch.nn.modules.module._global_forward_hooks_always_called",
            "torch.nn.modules.module._global_forward_hooks_with_kwargs",
            "torch.nn.modules.module._global_backward_pre_hooks",
            "torch.nn.modules.module._global_backward_hooks",
            "torch._dynamo.compiled_autograd.compiled_autograd_enabled",
        ),
        probes.compiled_code,
        instead="",
        lost="when compiled code runs: torch.compile traces the recorder, and may compile more often",
        unseen="compiled code is not seen",
        seen="2.6 to 2.15",
        waits_for="torch._dynamo",
    ),
    Capability(
        "strict export",
        "to keep Dynamo from tracing the recorder where torch.export traces a model strictly",
        ("torch.export._trace._strict_export",),
        probes.strict_export,
        instead="",
        lost="when torch.export traces a model strictly: it traces the recorder, too, and may fail",
        unseen="strict export is not seen",
        seen="2.6 to 2.15",
        waits_for="torch.export._trace",
    ),
    Capability(
        "backward of compiled code",
        "to know the line inside compiled code at which a gradient became NaN or Inf",
        ("CompiledFunction._lazy_backward_info",),
        probes.backward_of_compiled_code,
        instead="",
        lost="from what the backward of compiled code was compiled: at which line inside it NaN or Inf begins",
        unseen="the backward of compiled code is not seen",
        seen="2.6 to 2.15",
        waits_for="torch._functorch.aot_autograd",
    ),
    Capability(
        "graphs of compiled code",
        "to know the operations inside compiled code, with their lines and modules",
        (
            "torch._dynamo.output_graph.OutputGraph.call_user_compiler",
            "torch._functorch.aot_autograd.AOT_COUNTER",
            "torch._subclasses.fake_tensor.FakeTensorMode",
            "torch._ops.HigherOrderOperator",
            "OutputGraph.local_scope",
            "OutputGraph.root_tx",
            "CompiledFunction._aot_id",
            "torch._inductor.config.fallback_random",
            "CompiledFunction.metadata",
            "OpOverload._schema",
        ),
        probes.graphs_of_compiled_code,
        instead="",
        lost="what compiled code consists of: each compiled region is a single node",
        unseen="operations inside compiled code are not seen",
        seen="2.6 to 2.15",
        waits_for="torch._functorch.aot_autograd",  # loaded when something is compiled, not by each optimizer as Dynamo
    ),
    Capability(
        "compilations",
        "to name graph breaks, and why code was compiled again",
        (
            "torch._dynamo.output_graph.OutputGraph.compile_subgraph",
            "torch._guards.CompileContext.current_compile_id",
            "torch._dynamo.utils.get_compilation_metrics",
            "torch._dynamo.utils.counters",
            "torch._dynamo.config.assume_static_by_default",
        ),
        probes.compilations,
        instead="",
        lost="where torch.compile breaks a graph, and why it compiles again",
        unseen="graph breaks and recompilations are not seen",
        seen="2.6 to 2.15",
        waits_for="torch._dynamo.output_graph",
    ),
    Capability(
        "uncompiled code",
        "to know the lines and modules of what runs uncompiled behind graph breaks",
        ("torch._dynamo.convert_frame._compile",),
        probes.uncompiled_code,
        instead="",
        lost="lines and modules of what runs uncompiled behind graph breaks: it has the line of the compiled call",
        unseen="what runs uncompiled behind graph breaks is not seen",
        seen="2.6 to 2.15",
        waits_for="torch._dynamo.convert_frame",
    ),
    Capability(
        "nodes of views",
        "to compute gradients inside compiled code where views are changed in place",
        ("torch.autograd.grad_mode._force_original_view_tracking",),
        probes.nodes_of_views,
        instead="nothing: such a region says that its gradients were not measured",
        lost="",
        unseen="",
        seen="2.6 to 2.15",
    ),
    Capability(
        "compiled modules",
        "to name parameters of torch.compile(model) as the model does",
        ("OptimizedModule._orig_mod",),
        probes.compiled_modules,
        instead="",
        lost="which module torch.compile made another one from: it has the names and the class of the compiled one",
        unseen="compiled modules are not seen",
        seen="2.6 to 2.15",
        waits_for="torch._dynamo",
    ),
    Capability(
        "flight recorder",
        "to know which collectives each rank of a job has called",
        ("torch._C._distributed_c10d._dump_fr_trace",),
        probes.flight_recorder,
        instead="the stack of a rank that waits",
        lost="which collectives a rank has called: a hang is told from stacks alone",
        unseen="collectives are not seen",
        seen="2.10 to 2.15",
        waits_for=HANG,
    ),
    Capability(
        "leaving a handler",
        "to remove the function mode permanently from inside its own handler",
        ("torch.overrides._push_mode",),
        probes.mode_pushes,
        instead="the mode stays until the program ends, and only passes calls on",
        lost="",
        unseen="",
        seen="2.6 to 2.15",
    ),
)
"""In the order in which they are tested."""

_BY_NAME = {capability.name: capability for capability in CAPABILITIES}
_tried: dict[str, bool] = {}


def works(name: str) -> bool:
    """Whether this torch has the capability of that name; False as long as the module that it waits for is not loaded.

    To test it then would load that module, which takes seconds for `torch._dynamo`, and nothing needs it.
    """
    if name not in _tried:
        capability = _BY_NAME[name]
        if capability.waits_for.startswith("torch.") and not is_loaded(capability.waits_for):
            return False
        _try(capability)
    return _tried[name]


def _try(capability: Capability) -> None:
    tried = [capability] if capability.waits_for else [each for each in CAPABILITIES if not each.waits_for]
    _tried.update(result_of_own_thread(lambda: {each.name: _is_working(each) for each in tried}))


def note_failure(name: str) -> None:
    """A capability failed when it was used, although its test passed: from now on this torch lacks it."""
    _tried[name] = False


def _is_working(capability: Capability) -> bool:
    try:
        return bool(capability.probe())
    except Exception:  # whatever has moved, and however it fails now
        return False


def try_all() -> dict[str, bool]:
    """Test every capability, also those that wait for something; whether each works, by name."""
    for capability in CAPABILITIES:
        if capability.name not in _tried:
            _try(capability)
    return {capability.name: _tried[capability.name] for capability in CAPABILITIES}


def missing(happened: Collection[str] = ()) -> dict[str, str]:
    """What is lost, by name, for each capability that this torch lacks and that a program needs in which this happened.

    Whoever loaded a module needs what waits for it.
    """
    needed = (
        each for each in CAPABILITIES if not each.waits_for or each.waits_for in happened or is_loaded(each.waits_for)
    )
    return {each.name: each.lost for each in needed if not works(each.name) and each.lost}


def unseen(happened: Collection[str] = ()) -> dict[str, str]:
    """The same in a few words, for rules that cannot run."""
    return {name: _BY_NAME[name].unseen for name in missing(happened)}


def disclosures(happened: Collection[str] = ()) -> list[str]:
    """A sentence for each of them, and one if this release of torch was never tested."""
    told = [f"torch {torch.__version__} does not report {lost}" for lost in missing(happened).values()]
    if is_newer_than_tried():
        told.append(
            f"what torch {torch.__version__} does in a new way: it is newer than any that gradviz was tried with "
            f"({tried_releases()}), so what is shown may be incomplete or wrong"
        )
    return told


def is_newer_than_tried() -> bool:
    """Whether this release of torch is newer than the last one that was tested."""
    return _release() > NEWEST


def is_older_than_tried() -> bool:
    """Whether this release of torch came before the first one that was tried."""
    return _release() < OLDEST


def check() -> None:
    """Raise `MissingDependency` if this torch lacks something that every recording needs."""
    if is_older_than_tried():
        raise MissingDependency(
            f"torch {torch.__version__} cannot be recorded: gradviz needs torch {_words(OLDEST)} or newer",
            hint=f"it was tried with {tried_releases()}",
        )
    lacking = [each for each in CAPABILITIES if each.is_essential and not works(each.name)]
    if lacking:
        raise MissingDependency(
            f"torch {torch.__version__} cannot be recorded: it does not report {lacking[0].lost}",
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
