"""Tiny programs that test the private names of torch that gradviz uses: each returns True if they work.

They run on a separate thread, which has its own modes and numbers its own nodes. They draw no random numbers, and start
no engine: when it first runs, the engine asks every device for its number, and from then on forking is restricted. A
probe that raises has failed; see `capabilities`.
"""

from __future__ import annotations

import inspect
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from types import CodeType, FunctionType
from typing import Any

import torch

from gradviz.recording.torch_access import checkpointing
from gradviz.recording.torch_access.checkpointing import inputs_of_checkpoint
from gradviz.recording.torch_access.guarded_unpacking import read_slot, with_guard
from gradviz.recording.torch_access.name_lookup import (
    attribute,
    attributes_like,
    find,
    method,
    owner_of,
    tensor_attribute,
)
from gradviz.recording.torch_access.unwatched_backward import unwatched

HOOK_TABLES = (
    "_global_forward_pre_hooks",
    "_global_forward_hooks",
    "_global_forward_hooks_always_called",
    "_global_forward_hooks_with_kwargs",
    "_global_backward_pre_hooks",
    "_global_backward_hooks",
)
"""torch's tables of hooks on all modules, in ``torch.nn.modules.module``."""


def _leaf() -> torch.Tensor:
    return torch.ones(2, dtype=torch.float32, device="cpu", requires_grad=True)


def _node() -> Any:
    """A node that saved both of its inputs."""
    return (_leaf() * _leaf()).grad_fn


def sequence_numbers() -> bool:
    """The counter is the number of the next node, and nodes report their own; leaves have the highest."""
    peek, number_of = find("torch._C._autograd._get_sequence_nr"), method("Node._sequence_nr")
    first = peek()
    node = _node()
    leaf = node.next_functions[0][0]
    return bool(first == number_of(node) == peek() - 1 and number_of(leaf) == 2**64 - 1)


def function_modes() -> bool:
    """A function mode that is pushed sees a call, and can be removed."""
    seen = []

    class Mode(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(func)
            return func(*args, **(kwargs or {}))

    push, pop = find("torch._C._push_on_torch_function_stack"), find("torch._C._pop_torch_function_stack")
    depth, mode = find("torch._C._len_torch_function_stack"), Mode()
    before = depth()
    push(mode)
    try:
        torch.neg(torch.ones((), device="cpu"))
    finally:
        taken = pop()
    return taken is mode and len(seen) > 0 and depth() == before


def engine_entry() -> bool:
    """Both entries to the engine are globals of their modules."""
    return all(
        callable(find(f"{module}._engine_run_backward")) for module in ("torch.autograd", "torch.autograd.graph")
    )


def unseen_reading() -> bool:
    """Inside `DisableTorchFunction` a mode sees nothing."""
    seen = []

    class Mode(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(func)
            return func(*args, **(kwargs or {}))

    tensor, disable = _leaf(), find("torch._C.DisableTorchFunction")
    with Mode(), disable():
        _ = tensor.requires_grad, tensor + tensor
    return not seen


def tensor_identity() -> bool:
    """A tensor's address is constant and its own, and a weak reference reports when the tensor is gone."""
    address, weak = tensor_attribute("_cdata"), find("torch._C._WeakTensorRef")
    one, other = _leaf(), _leaf()
    before, reference = address(one), weak(one)
    is_told = address(one) == before != address(other) and not reference.expired()
    del one
    return is_told and bool(reference.expired())


def storage_identity() -> bool:
    """Views share the address of their storage, and a weak reference reports when it is gone."""
    weak, address = find("torch.multiprocessing.reductions.StorageWeakRef"), attribute("Storage._cdata")
    one = torch.ones(2, device="cpu")
    reference = weak(one.untyped_storage())
    is_shared = address(one[:1].untyped_storage()) == address(one.untyped_storage())
    is_told = not reference.expired()
    del one
    return is_shared and is_told and bool(reference.expired())


def versions() -> bool:
    """Writing in place increments the version."""
    version = tensor_attribute("_version")
    tensor = torch.ones(2, device="cpu")
    before = version(tensor)
    tensor.add_(1)
    return bool(version(tensor) == before + 1)


def views() -> bool:
    """A view is distinguished from other tensors, and knows its base."""
    is_view, base = method("Tensor._is_view"), attribute("Tensor._base")
    whole = torch.ones(2, device="cpu")
    part = whole[:1]
    return bool(is_view(part)) and not is_view(whole) and base(part) is whole and base(whole) is None


def input_metadata() -> bool:
    """A node reports the shape, dtype and device of its result."""
    (told,) = attribute("Node._input_metadata")(_node())
    return tuple(told.shape) == (2,) and told.dtype is torch.float32 and told.device.type == "cpu"


def python_functions() -> bool:
    """The node of a custom function reports its class, and other nodes have none."""
    class_of, function = attribute("Node._forward_cls"), tiny_function()
    return class_of(function.apply(_leaf()).grad_fn) is function and not hasattr(_node(), "_forward_cls")


def tiny_function() -> Any:
    """A custom function that returns its input unchanged."""

    class Tiny(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, value: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(value)
            return value.view_as(value)

        @staticmethod
        def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
            return gradient

    return Tiny


def custom_backward() -> bool:
    """A custom backward is called from the method ``apply`` of its node."""
    from gradviz.recording.torch_access.frames import custom_backward_code

    code = custom_backward_code()
    codes: list[CodeType] = []

    class Tiny(tiny_function()):  # type: ignore[misc]
        @staticmethod
        def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
            frame = sys._getframe(1)
            while frame.f_back is not None:
                codes.append(frame.f_code)
                frame = frame.f_back
            return gradient

    Tiny.apply(_leaf()).grad_fn.apply(torch.ones(2, device="cpu"))
    return code in codes


def slots_of_nodes() -> bool:
    """A node has two slots for each tensor that it saved: a raw one, and one that unpacks."""
    left = _leaf()
    result = left * left
    raw, plain = (attributes_like(f"Node.{beginning}", result.grad_fn) for beginning in ("_raw_saved_", "_saved_"))
    return raw == ["_raw_saved_other", "_raw_saved_self"] and plain == ["_saved_other", "_saved_self"]


def raw_saved_tensors() -> bool:
    """The saved tensors of a node can be read without unpacking, with hooks and without."""
    left, right = _leaf(), _leaf()
    # Both results are kept: what a raw slot hands out is part of its node, and reading it when that is gone crashes.
    plain = left * right
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: "packed", lambda packed: left):
        packed = left * right
    raw, hooked = (attribute("Node._raw_saved_self")(result.grad_fn) for result in (plain, packed))
    data, hook = attribute("SavedTensor.data"), attribute("SavedTensor.unpack_hook")
    return data(raw) is left and hook(raw) is None and data(hooked) == "packed" and hook(hooked) is not None


def saved_tensors() -> bool:
    """What a node saved is told in one of the two ways."""
    with suppress(AttributeError):
        if raw_saved_tensors():
            return True
    return guarded_unpacking()


def guarded_unpacking() -> bool:
    """What a node saved is told by unpacking it, and a hook is refused before it runs."""
    left, right = _leaf(), _leaf()
    ran = []

    def unpack(packed: Any) -> torch.Tensor:
        ran.append(packed)
        return left

    plain = left * right
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: "packed", unpack):
        packed = left * right
    stored, hooked = with_guard(lambda: [read_slot(each.grad_fn, "_saved_self") for each in (plain, packed)])
    # Which hook it was is not asked here: finding its name may take long.
    return stored.data is left and stored.unpack_hook is None and hooked.data == "packed" and not ran


def checkpoint_calls() -> bool:
    """A call of a non-reentrant checkpoint is seen while it runs."""
    return checkpointing.working_way() is not None


def checkpoint_records() -> bool:
    """A non-reentrant checkpoint keeps its record where the unpack hook can reach it, with its inputs and holders."""
    import torch.utils.checkpoint

    value = _leaf()
    given = checkpointing.call_checkpoint(torch.sin, value)
    if hasattr(attribute("Node._raw_saved_self")(given.grad_fn), "data"):
        return _tells_checkpoint(attribute("Node._raw_saved_self")(given.grad_fn), value)
    return with_guard(lambda: _tells_checkpoint(read_slot(given.grad_fn, "_saved_self"), value))


def _tells_checkpoint(raw: Any, value: torch.Tensor) -> bool:
    holder = attribute("SavedTensor.data")(raw)
    cells = attribute("SavedTensor.unpack_hook")(raw).__closure__ or ()
    (record,) = (cell.cell_contents for cell in cells if type(cell.cell_contents).__name__ == "_CheckpointFrame")
    (reference,) = attribute("_CheckpointFrame.weak_holders")(record)
    (noted,) = attribute("_CheckpointFrame.x_metadatas")(record)
    kept = list(inputs_of_checkpoint(record))
    return reference() is holder and tuple(noted["shape"]) == (2,) and any(each is value for each in kept)


def grad_switch() -> bool:
    """A function mode sees a switch of gradients as a call of the expected function."""
    seen = []

    class Mode(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(func)
            return func(*args, **(kwargs or {}))

    with Mode(), torch.no_grad():
        pass
    return find("torch._C._set_grad_enabled") in seen


def tracing() -> bool:
    """Nothing is being traced here, and setting that state again changes nothing."""
    state, set_state = find("torch._C._get_tracing_state"), find("torch._C._set_tracing_state")
    set_state(state())
    return state() is None


def autocast() -> bool:
    """Autocast on a device other than CUDA is reported."""
    is_on = find("torch._C._is_any_autocast_enabled")
    with torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False):
        inside = is_on()
    return bool(inside) and not is_on()


def function_transforms() -> bool:
    """A transform is reported while it runs, and tensors that it wraps can be unwrapped."""
    peek = find("torch._C._functorch.peek_interpreter_stack")
    is_wrapped = find("torch._C._functorch.is_functorch_wrapped_tensor")
    unwrap, has_storage = find("torch._C._functorch.get_unwrapped"), find("torch._C._has_storage")
    enter, leave, wrap = (
        find(f"torch._C._functorch.{name}")
        for name in ("_vmap_increment_nesting", "_vmap_decrement_nesting", "_add_batch_dim")
    )
    tensor = torch.ones(2, device="cpu")
    if peek() is not None or is_wrapped(tensor) or not has_storage(tensor):
        return False
    level = enter(2, "error")  # what torch.vmap does; calling that loads a thousand modules in some releases
    try:
        wrapped = wrap(tensor, 0, level)
        return peek() is not None and is_wrapped(wrapped) and unwrap(wrapped) is tensor and not has_storage(wrapped)
    finally:
        leave()


def forward_gradients() -> bool:
    """Nothing computes with dual numbers here, and they can be switched off."""
    with find("torch.autograd.forward_ad._set_fwd_grad_enabled")(False):
        return bool(find("torch.autograd.forward_ad._current_level") < 0)


def dispatch_modes() -> bool:
    """A dispatch mode is counted, and sees nothing while it is disabled."""
    from torch.utils._python_dispatch import TorchDispatchMode

    seen = []

    class Mode(TorchDispatchMode):  # type: ignore[no-untyped-call]
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(func)
            return func(*args, **(kwargs or {}))

    count, disable = find("torch._C._len_torch_dispatch_stack"), find("torch._C._DisableTorchDispatch")
    before = count()
    with Mode():  # type: ignore[no-untyped-call]
        inside = count()
        with disable():
            torch.ones(2, device="cpu").neg()
    return inside == before + 1 == count() + 1 and not seen


def module_made() -> bool:
    """Making a module calls this function, which can be replaced."""
    owner, name = owner_of("torch._C._log_api_usage_once")
    original, told = getattr(owner, name), []

    def note(event: str) -> Any:
        told.append(event)
        return original(event)

    setattr(owner, name, note)
    try:
        torch.nn.Module()
    finally:
        setattr(owner, name, original)
    return "python.nn_module" in told


def batches_made() -> bool:
    """A loader makes its batches with the method that can be replaced."""
    owner, name = owner_of("torch.utils.data.dataloader._BaseDataLoaderIter.__next__")
    original, made = getattr(owner, name), []

    def note(iterator: Any) -> Any:
        made.append(iterator)
        return original(iterator)

    setattr(owner, name, note)
    try:
        # With a generator of its own, as it draws a seed.
        batches = list(torch.utils.data.DataLoader([0, 1], generator=torch.Generator()))  # type: ignore[arg-type]
    finally:
        setattr(owner, name, original)
    return len(batches) == 2 and len(made) == 3


def swapped_tensors() -> bool:
    """`swap_tensors` first asks this global for weak references."""
    owner, name = owner_of("torch.utils.weakref")
    original, asked = getattr(owner, name), []

    class Questions:
        def __getattr__(self, which: str) -> Any:
            asked.append(which)
            return getattr(original, which)

    setattr(owner, name, Questions())
    try:
        torch.utils.swap_tensors(torch.ones(1, device="cpu"), torch.zeros(1, device="cpu"))  # type: ignore[no-untyped-call]
    finally:
        setattr(owner, name, original)
    return "getweakrefs" in asked


def replaced_parameters() -> bool:
    """`functional_call` hands its arguments to the function that can be replaced."""
    owner, name = owner_of("torch.nn.utils.stateless._functional_call")
    original, told = getattr(owner, name), []

    def note(module: Any, tensors: Any, *args: Any, **kwargs: Any) -> Any:
        told.append((module, tensors))
        return original(module, tensors, *args, **kwargs)

    module = torch.nn.Module()
    module.forward = lambda: None
    setattr(owner, name, note)
    try:
        torch.func.functional_call(module, {}, ())
    finally:
        setattr(owner, name, original)
    return told == [(module, {})]


def anomaly_stacks() -> bool:
    """Anomaly mode asks this global for the stack of every node."""
    owner, name = owner_of("torch.fx.traceback.format_stack")
    if find("torch.fx.traceback.has_preserved_node_meta")() or threading.active_count() > 1:
        return callable(getattr(owner, name))  # no stack is asked for now, or threads of the program would see the mode
    original, asked = getattr(owner, name), []

    def format_stack() -> Any:
        asked.append(name)
        return []

    was_on, checks_nan = torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()
    setattr(owner, name, format_stack)
    try:
        torch.set_anomaly_enabled(True, False)  # detect_anomaly would print a warning
        _node()
    finally:
        torch.set_anomaly_enabled(was_on, checks_nan)
        setattr(owner, name, original)
    return bool(asked)


def module_contents() -> bool:
    """A module's tables contain its parameters, buffers, submodules and hooks."""
    parameters, buffers, modules = (attribute(f"Module.{name}") for name in ("_parameters", "_buffers", "_modules"))
    before, after = attribute("Module._backward_hooks"), attribute("Module._backward_pre_hooks")
    module, inner, tensor = torch.nn.Module(), torch.nn.Module(), torch.ones(1, device="cpu")
    weight = torch.nn.Parameter(tensor)
    # Not with torch's own functions: the program may have put hooks on registrations.
    modules(module)["part"], buffers(module)["held"], parameters(module)["weight"] = inner, tensor, weight
    is_told = module.part is inner and module.held is tensor and module.weight is weight
    return is_told and not before(module) and not after(module)


def module_calls() -> bool:
    """A module that has a hook is called from the expected frame."""
    from gradviz.recording.torch_access.frames import module_call_code

    codes: list[CodeType] = []

    class Probe(torch.nn.Module):
        def forward(self, value: torch.Tensor) -> torch.Tensor:
            frame = sys._getframe(1)
            while frame.f_back is not None:
                codes.append(frame.f_code)
                frame = frame.f_back
            return value

    probe = Probe()
    probe.register_forward_pre_hook(lambda *_: None)
    has_any = find("torch.nn.modules.module._has_any_global_hook")
    if has_any is not None and has_any():
        return True  # the program's own hooks must not see this call, and they are there by the same tables
    probe(torch.ones(1, device="cpu"))
    return module_call_code() in codes


def hooks_of_leaves() -> bool:
    """A leaf reports its hooks, and a handle the table that contains its hook."""
    leaf = _leaf()
    handle = leaf.register_hook(lambda gradient: None)  # type: ignore[no-untyped-call]
    after = leaf.register_post_accumulate_grad_hook(lambda _: None)  # type: ignore[no-untyped-call]
    tables = attribute("Tensor._backward_hooks")(leaf), attribute("Tensor._post_accumulate_grad_hooks")(leaf)
    is_told = handle.id in tables[0] and after.id in tables[1]
    return is_told and handle.id in attribute("RemovableHandle.hooks_dict_ref")(handle)()


def engine_position() -> bool:
    """Outside the engine there is no task and no node. What is reported inside it is not tested."""
    return find("torch._C._current_graph_task_id")() == -1 and find("torch._C._current_autograd_node")() is None


def mode_pushes() -> bool:
    """When a handler returns, torch puts its mode back with a global of ``torch.overrides``."""
    owner, name = owner_of("torch.overrides._push_mode")
    original, pushed = getattr(owner, name), []

    def push(mode: Any) -> None:
        pushed.append(mode)
        original(mode)

    class Mode(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return func(*args, **(kwargs or {}))

    tensor = torch.ones((), device="cpu")
    with Mode() as mode:
        setattr(owner, name, push)
        try:
            torch.functional.norm(tensor)  # written in Python: only such functions come by there
        finally:
            setattr(owner, name, original)
    return mode in pushed


def failed_node() -> bool:
    """A node that ran freed its saved tensors, the one that failed did not. Starts the engine, as the program has."""
    one, two = _leaf(), _leaf()

    class Failing(tiny_function()):  # type: ignore[misc]
        @staticmethod
        def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
            raise ArithmeticError

    not_run = one * two
    ran = Failing.apply(not_run) * two
    saved = [attribute("Node._raw_saved_other")(result.grad_fn) for result in (ran, not_run)]
    with unwatched(), suppress(ArithmeticError):
        torch.autograd.grad(ran.sum(), [one])
    data = attribute("SavedTensor.data")
    return data(saved[0]) is None and data(saved[1]) is not None


def compiled_code() -> bool:
    """A global of Dynamo is called when compiled code starts and ends, and Dynamo is off inside what replaces it."""
    import torch._dynamo

    from gradviz.recording.torch_access.dynamo.untraced import off_switch, untraced

    owner, name = owner_of("torch._dynamo.eval_frame._maybe_set_eval_frame")
    original, switched, switch_off = getattr(owner, name), [], off_switch()

    @untraced
    def switch(callback: Any) -> Any:
        before = switch_off(None)
        switched.append(find("torch._C._dynamo.eval_frame.set_eval_frame")(None))
        result = original(callback)
        return result if before is None else before

    setattr(owner, name, switch)
    try:
        torch._dynamo.run(lambda: None)()  # by the way of compiled code, and compiles nothing
    finally:
        setattr(owner, name, original)
    is_skipped = callable(find("torch._dynamo.eval_frame.skip_code"))
    tells_itself = isinstance(find("torch._dynamo.compiled_autograd.compiled_autograd_enabled"), bool)
    tables = all(isinstance(find(f"torch.nn.modules.module.{name}"), dict) for name in HOOK_TABLES)
    return switched == [None, None] and is_skipped and tells_itself and tables


def graphs_of_compiled_code() -> bool:
    """Dynamo passes what it traced through one method, and AOTAutograd counts what it compiles.

    Nothing is compiled for this: it would count as one of the program's compilations.
    """
    import torch._dynamo.output_graph
    import torch._functorch.aot_autograd

    from gradviz.recording.torch_access.dynamo.dynamo_graphs import fake_tensors

    method = find("torch._dynamo.output_graph.OutputGraph.call_user_compiler")
    takes = list(inspect.signature(method).parameters)
    counter = repr(find("torch._functorch.aot_autograd.AOT_COUNTER"))
    with fake_tensors():
        result = torch.ones(2, requires_grad=True) * 2
    schemas = [
        attribute("OpOverload._schema")(each) for each in (torch.ops.aten.add_.Tensor, torch.ops.aten.add.Tensor)
    ]
    tells_changes = [each.is_mutable for each in schemas] == [True, False]
    is_counted = takes[:2] == ["self", "gm"] and counter.startswith("count(")
    is_counted = is_counted and isinstance(find("torch._ops.HigherOrderOperator"), type)
    return is_counted and tells_changes and result.grad_fn is not None


def strict_export() -> bool:
    """The function in which Dynamo traces a model for torch.export is a global of the module that calls it."""
    from torch.export import _trace

    owner, name = owner_of("torch.export._trace._strict_export")
    return owner is _trace and callable(getattr(owner, name))


def backward_of_compiled_code() -> bool:
    """A compiled function keeps what its backward was compiled from: the code that makes such a class sets it.

    Nothing is compiled for this: it would count as one of the program's compilations.
    """
    import torch._functorch._aot_autograd.runtime_wrappers as wrappers

    functions = (each for each in vars(wrappers).values() if isinstance(each, (type, FunctionType)))
    codes = (code for each in functions for code in _codes_of(each))
    return any("_lazy_backward_info" in code.co_names for code in codes)


def _codes_of(owner: Any) -> Iterator[CodeType]:
    """The code of a function or of the methods of a class, and all code inside it."""
    members = vars(owner).values() if isinstance(owner, type) else [owner]
    waiting = [getattr(getattr(each, "__func__", each), "__code__", None) for each in members]
    while waiting:
        code = waiting.pop()
        if code is not None:
            yield code
            waiting += [each for each in code.co_consts if isinstance(each, CodeType)]


def compilations() -> bool:
    """Dynamo passes the reason for which a region ends to one method, and numbers what it compiles.

    Nothing is compiled for this: it would count as one of the program's compilations.
    """
    import torch._dynamo.output_graph

    method = find("torch._dynamo.output_graph.OutputGraph.compile_subgraph")
    takes = list(inspect.signature(method).parameters)
    why = torch._dynamo.output_graph.GraphCompileReason("probe", [], graph_break=False)
    is_told = takes[:2] == ["self", "tx"] and "reason" in takes and why.user_stack == [] and not why.graph_break
    is_numbered = find("torch._guards.CompileContext.current_compile_id")() is None
    is_counted = isinstance(find("torch._dynamo.utils.counters"), dict)
    is_listed = isinstance(list(find("torch._dynamo.utils.get_compilation_metrics")()), list)
    is_size_setting = isinstance(find("torch._dynamo.config.assume_static_by_default"), bool)
    return is_told and is_numbered and is_counted and is_listed and is_size_setting


def uncompiled_code() -> bool:
    """Dynamo compiles a frame in one function."""

    function = find("torch._dynamo.convert_frame._compile")
    takes = ["code", "globals", "locals", "builtins", "closure", "compiler_fn"]
    return list(inspect.signature(function).parameters)[:6] == takes


def nodes_of_views() -> bool:
    """A view that is changed in place keeps the nodes of the views that it was made by."""
    with find("torch.autograd.grad_mode._force_original_view_tracking")(True), torch.enable_grad():
        base = torch.zeros(2, requires_grad=True).clone()
        view = base.view(2)
        base.mul_(2)
    return type(view.grad_fn).__name__ == "ViewBackward0"


def compiled_modules() -> bool:
    """A compiled module contains the one that it was made from. Nothing is compiled, and no backend is loaded."""
    import torch._dynamo

    from gradviz.recording.torch_access.modules import WRAPPED, is_compiled_wrapper

    module = torch.nn.Module()
    compiled: Any = torch._dynamo.run(module)
    is_inside = attribute("OptimizedModule._orig_mod")(compiled) is module
    return is_inside and is_compiled_wrapper(compiled) and dict(compiled.named_children()) == {WRAPPED: module}


def flight_recorder() -> bool:
    """What torch recorded of collectives can be read, here of none."""
    dump = find("torch._C._distributed_c10d._dump_fr_trace")
    return isinstance(dump(False, False, False), bytes)
