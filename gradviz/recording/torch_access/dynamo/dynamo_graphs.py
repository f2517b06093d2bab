"""Notes the graph of torch functions that Dynamo traced, whenever it hands one to a backend.

That graph has every call as the program wrote it, with its line and its modules, whatever the backend and its caches do
with it afterwards. The backend may change it in place, so it is copied, without the program's tensors.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, wraps
from types import CodeType
from typing import Any

import torch
from torch import fx

from gradviz.graph.compilations import Compilation, GraphBreak
from gradviz.recording.run.file_kinds import is_torch_file
from gradviz.recording.torch_access.capabilities import note_failure, works
from gradviz.recording.torch_access.dynamo.output_graph_watch import OutputGraphWatch
from gradviz.recording.torch_access.name_lookup import attribute, find

Sizes = tuple[Any, ...]
"""For each input of a traced graph: sizes and strides of a tensor, a number, or None."""

_MAX_SIZES = 64
"""What a graph stands for is kept for so many different sizes."""
_KEPT_META = ("nn_module_stack", "stack_trace")


@dataclass(frozen=True)
class TensorInput:
    """A tensor that the traced code gets, or that is part of it."""

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device
    requires_grad: bool = False
    source: str = ""
    """Where Dynamo found it: ``L['x']``."""
    tensor_id: int = 0
    """``id()`` of the tensor when the code was compiled."""
    value: Any = field(default=None, compare=False, repr=False)
    """The tensor itself, if it is part of the code and the code may be run again."""


@dataclass
class TracedGraph:
    """One graph that Dynamo traced."""

    graph: fx.Graph
    """Its nodes keep only their line and their modules."""
    inputs: list[TensorInput | int | None]
    """One entry for each placeholder: a tensor, a number, or something else."""
    attributes: dict[str, TensorInput | TracedGraph]
    function: str
    """The function that was compiled, as `code_name` has it."""
    backend: str
    autocast: dict[str, torch.dtype] = field(default_factory=dict)
    """The dtype of autocast for each kind of device for which it was on."""
    module_id: int = 0
    """``id()`` of the module whose ``forward`` was compiled; 0 for a function."""
    module_variable: str = ""
    """The variable that holds it there: ``self``."""
    aot_ids: range = range(0)
    """Numbers that AOTAutograd gave to what it compiled from this graph."""
    compilation: int = -1
    """Index of its compilation among those that were noted; -1 if it was not."""
    graph_break: GraphBreak | None = None
    """Where the compiled code ends before its function does."""
    code_name: str = ""
    """The name of the code object that runs: also of a part behind a graph break."""
    code_file: str = ""
    logs_calls: bool = False
    """Whether every torch call is to be noted when it is run on fake tensors."""
    replay: Any = None
    """What running it once on fake tensors gave, or in words why it raised; it is run when it is first asked for."""
    _others: dict[Sizes, TracedGraph] = field(default_factory=dict)
    """The same graph with inputs of other sizes."""

    @property
    def sizes(self) -> Sizes:
        """The sizes of its inputs."""
        return tuple((each.sizes, each.strides) if isinstance(each, TensorInput) else each for each in self.inputs)

    def with_sizes(self, sizes: Sizes | None) -> TracedGraph:
        """The same graph with inputs of these sizes; None stands for those of the call that it was compiled for."""
        if sizes is None:
            return self
        found = self._others.pop(sizes, None)
        if found is None:
            inputs = [_resized(each, size) for each, size in zip(self.inputs, sizes, strict=True)]
            found = replace(self, inputs=inputs, replay=None, _others={})
        self._others[sizes] = found  # the newest last
        if len(self._others) > _MAX_SIZES:
            del self._others[next(iter(self._others))]
        return found


def _resized(given: TensorInput | int | None, size: Any) -> TensorInput | int | None:
    if isinstance(given, TensorInput):
        return replace(given, sizes=size[0], strides=size[1])
    return size if isinstance(given, int) else given


class DynamoGraphs(OutputGraphWatch):
    """Keeps the graphs that are traced between `start` and `stop`.

    Args:
        around: what is to be called in place of the code that was compiled from a graph, and calls it.
        compilations: what is noted of each compilation, before its graph is handed on.
        keeps_constants: keep tensors that are part of the code, so that the code can be run again.
    """

    def __init__(
        self,
        traced: list[TracedGraph],
        note_defect: Callable[[Exception], None],
        around: Callable[[TracedGraph, Callable[..., Any]], Callable[..., Any]],
        compilations: Sequence[Compilation] = (),
        *,
        keeps_constants: bool = False,
    ) -> None:
        super().__init__("call_user_compiler", note_defect)
        self._compilations = compilations
        self.traced = traced
        self._around = around
        self._keeps_constants = keeps_constants

    def _noting(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def call_user_compiler(output: Any, module: Any, *rest: Any, **options: Any) -> Any:
            traced = self._copy(output, module)
            before = _next_aot_id()
            result = original(output, module, *rest, **options)
            if traced is not None:
                traced.aot_ids = range(before, _next_aot_id())
                traced.compilation = len(self._compilations) - 1
                traced.graph_break = self._compilations[-1].broken if self._compilations else None
                self.traced.append(traced)
                # Code that Dynamo will write to a file must be as it is.
                if getattr(output, "package", None) is None:
                    return self._around(traced, result)
            return result

        return call_user_compiler

    def _copy(self, output: Any, module: Any) -> TracedGraph | None:
        try:
            return _traced_graph(output, module, keeps_constants=self._keeps_constants)
        except _NotTold:
            note_failure("graphs of compiled code")
            return None
        except Exception as defect:  # must not reach the program
            self._note_defect(defect)
            return None


def _next_aot_id() -> int:
    """The number that AOTAutograd will give next, read from the text of its counter; 0 before it is imported."""
    found = re.fullmatch(r"count\((\d+)\)", repr(find("torch._functorch.aot_autograd.AOT_COUNTER")))
    return int(found[1]) if found is not None else 0


_local_scope = attribute("OutputGraph.local_scope")
_root_translator = attribute("OutputGraph.root_tx")


class _NotTold(Exception):
    """This torch keeps elsewhere which function is traced."""


def _traced_frame(output: Any) -> tuple[CodeType, dict[str, Any]]:
    """The code that is traced, and its variables. Only here it can be tried: nothing else makes such an object."""
    try:
        return _root_translator(output).f_code, _local_scope(output)
    except AttributeError as error:
        raise _NotTold from error


def _traced_graph(output: Any, module: fx.GraphModule, *, keeps_constants: bool) -> TracedGraph:
    code, variables = _traced_frame(output)
    traced = _copied(module, keeps_constants=keeps_constants)
    if not is_torch_file(code.co_filename):  # torch's own modules are compiled in a function of Dynamo
        traced.function = function_name(code)
    traced.code_name, traced.code_file = code.co_name, code.co_filename
    traced.backend = backend_name(getattr(output, "compiler_fn", None))
    kinds = {each.device.type for each in traced.inputs if isinstance(each, TensorInput)} - {"meta"}
    traced.autocast = {kind: torch.get_autocast_dtype(kind) for kind in kinds if torch.is_autocast_enabled(kind)}
    traced.module_id, traced.module_variable = _module_of_frame(variables, code.co_filename, traced.function)
    return traced


def function_name(code: CodeType) -> str:
    """The function that the code is of: Dynamo makes code of its own for what comes behind a graph break."""
    return re.sub(r"^torch_dynamo_resume_in_(.+)_at_\d+$", r"\1", code.co_name)


def called_of_torch(output: Any) -> str | None:
    """The module or function of torch that is compiled: Dynamo traces a function of its own, which calls it."""
    try:
        code, variables = _traced_frame(output)
    except _NotTold:
        return None
    called = variables.get("fn") if code.co_filename.endswith("/torch/_dynamo/external_utils.py") else None
    owner = getattr(called, "__self__", called)
    if isinstance(owner, torch.nn.Module):
        return type(owner).__name__
    name = getattr(called, "__name__", None)
    return name if isinstance(name, str) else None


def is_made_by_dynamo(module: torch.nn.Module) -> bool:
    """Whether Dynamo made the module, of what it traced: ``backend="eager"`` calls it as it is."""
    return "compile_subgraph_reason" in vars(module)


def draws_like_uncompiled_code(backend: str) -> bool:
    """Whether a backend takes random numbers from the generator in the order in which uncompiled code does."""
    return backend != "inductor" or bool(find("torch._inductor.config.fallback_random"))


def backend_name(backend: Any) -> str:
    """What the program calls it: ``inductor``."""
    for name in ("compiler_name", "__name__"):
        found = getattr(backend, name, None)
        if isinstance(found, str):
            return found
    return type(backend).__name__


def _module_of_frame(variables: dict[str, Any], file: str, function: str) -> tuple[int, str]:
    """The module whose ``forward`` is the compiled code; its parts after a graph break have the same variables."""
    for name, value in variables.items():
        if isinstance(value, torch.nn.Module) and has_method(value, function, file):
            return id(value), name
    return 0, ""


def has_method(module: torch.nn.Module, function: str, file: str) -> bool:
    """Whether a function with this name in this file is a method of the module, or a decorator made it its forward."""
    method = getattr(type(module), function, None) or getattr(type(module), "forward", None)
    while method is not None:
        code = getattr(method, "__code__", None)
        if code is not None and (code.co_name, code.co_filename) == (function, file):
            return True
        method = getattr(method, "__wrapped__", None)
    return False


def _copied(module: fx.GraphModule, *, keeps_constants: bool) -> TracedGraph:
    graph = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    result = graph.graph_copy(module.graph, copies)
    graph.output(result)
    inputs: list[TensorInput | int | None] = []
    attributes: dict[str, TensorInput | TracedGraph] = {}
    for node, copy in copies.items():
        if node.op == "placeholder":
            inputs.append(_input_of(node))
        elif node.op == "get_attr":
            attributes[str(node.target)] = _attribute_of(module, str(node.target), keeps_constants=keeps_constants)
        copy.meta = {name: node.meta[name] for name in _KEPT_META if name in node.meta}
    return TracedGraph(graph, inputs, attributes, "", "")


def _attribute_of(module: fx.GraphModule, name: str, *, keeps_constants: bool) -> TensorInput | TracedGraph:
    value: Any = module
    for part in name.split("."):
        value = getattr(value, part)
    if isinstance(value, fx.GraphModule):
        return _copied(value, keeps_constants=keeps_constants)
    found = _tensor_input(value)
    return replace(found, value=value.detach()) if keeps_constants else found


def _input_of(node: fx.Node) -> TensorInput | int | None:
    example = node.meta.get("example_value", node.meta.get("val"))
    if isinstance(example, torch.Tensor):
        source = getattr(node.meta.get("grapharg"), "source", None)
        name = getattr(source, "name", "")
        reference = getattr(node.meta.get("grapharg"), "_example", None)
        original = reference() if callable(reference) else reference
        return _tensor_input(
            example, str(name() if callable(name) else name), id(original) if original is not None else 0
        )
    if isinstance(example, (int, torch.SymInt)):
        return _whole(example)
    return None


def _tensor_input(tensor: Any, source: str = "", tensor_id: int = 0) -> TensorInput:
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"a {type(tensor).__name__} is part of the traced code")
    return TensorInput(
        tuple(map(_whole, tensor.shape)),
        tuple(map(_whole, tensor.stride())),
        tensor.dtype,
        tensor.device,
        tensor.requires_grad,
        source,
        tensor_id,
    )


def _whole(size: Any) -> int:
    """A size as it was when the code was compiled; asking a symbol for it sets no guard."""
    if type(size) is int:
        return size
    hint = getattr(getattr(size, "node", None), "hint", None)
    if not isinstance(hint, int):
        raise TypeError(f"the size {size} is not known before the code runs")
    return hint


_aot_id = attribute("CompiledFunction._aot_id")
_metadata = attribute("CompiledFunction.metadata")


def aot_id_of(function_class: Any) -> int | None:
    """The number that AOTAutograd gave to a compiled function; None if it is another function, or unknown."""
    try:
        return int(_aot_id(function_class)) if works("graphs of compiled code") else None
    except (AttributeError, TypeError):
        return None


_schema = attribute("OpOverload._schema")


def schema_of(function: Any) -> Any:
    """The schema of an operator of torch; None for other functions."""
    try:
        return _schema(function)
    except AttributeError:
        return None


_HAS_BASE = frozenset({"alias_of_intermediate", "alias_of_intermediate_save_as_output"})


@dataclass(frozen=True)
class OutputPlan:
    """How the results of a compiled function are ordered."""

    changed_inputs: tuple[int, ...]
    """Inputs that it changes in place: their new values come first."""
    outputs: int
    """Then come the results of the traced graph."""
    is_view: tuple[bool, ...]
    """Whether a result is made outside, as a view of an input or of one of the `bases`."""
    bases: tuple[int | None, ...]
    """Then the tensors of which results are views; for each result, the index of its base, or None."""


def output_plan_of(function_class: Any) -> OutputPlan:
    """The order of the results of a compiled function. Raises `AttributeError` if this torch tells it otherwise."""
    metadata = _metadata(function_class)
    infos = metadata.output_info
    bases = tuple(info.base_idx if info.output_type.name in _HAS_BASE else None for info in infos)
    changed = tuple(getattr(metadata, "mutated_inp_runtime_indices", ()) or ())
    is_view = tuple(info.output_type.name not in ("non_alias", "unsafe_view_alias") for info in infos)
    return OutputPlan(changed, len(infos), is_view, bases)


# -- Fake tensors: they have shapes and a graph, and neither memory nor numbers ----------------------------------------


def fake_tensors(*, with_numbers: bool = False) -> Any:
    """While entered, new tensors are fake, and operations on them compute nothing.

    Args:
        with_numbers: a number can be taken out of such a tensor, and is a symbol.
    """
    return _fake_mode_class()(allow_non_fake_inputs=True, shape_env=_symbols() if with_numbers else None)


def _symbols() -> Any:
    from torch.fx.experimental.symbolic_shapes import ShapeEnv  # loads SymPy

    return ShapeEnv(allow_scalar_outputs=True)


def takes_numbers(graph: fx.Graph) -> bool:
    """Whether a number is taken out of a tensor: Dynamo hands numbers that change to compiled code as tensors."""
    return any(node.op == "call_method" and node.target in ("item", "tolist") for node in graph.nodes)


@cache
def _fake_mode_class() -> Any:
    # Where torch was built for CUDA and there is no GPU, entering torch's own replaces, for the whole process, what the
    # engine asks for the number of GPUs: backward refuses to run in forks then, and torch 2.10 crashes once the thread
    # that entered it has ended.
    torchs_own = find("torch._subclasses.fake_tensor.FakeTensorMode")
    return type(torchs_own.__name__, (torchs_own,), {"avoid_device_init": False})


def made_fake(mode: Any, given: TensorInput) -> torch.Tensor:
    """A fake tensor of the same kind."""
    with mode:
        tensor = torch.empty_strided(given.sizes, given.strides, dtype=given.dtype, device=given.device)
    return tensor.requires_grad_(given.requires_grad)
