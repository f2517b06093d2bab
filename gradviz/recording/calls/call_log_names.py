"""Names the tensors of the call log while the program runs, and notes the state of its leaves when it ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import isfinite
from types import FrameType
from typing import Any

import torch

from gradviz.collector import collector_paused
from gradviz.graph.call_log import CallLog, LeafEnd
from gradviz.graph.number_words import counted
from gradviz.recording.backward.backward_watch import BackwardRequest
from gradviz.recording.backward.gradients.gradient_watch import measuring
from gradviz.recording.calls.call_log_builder import CallLogBuilder
from gradviz.recording.calls.call_recorder import CallRecorder
from gradviz.recording.calls.known_tensors import KnownTensor, is_leaf, requires_grad
from gradviz.recording.calls.optimizers import KnownOptimizer
from gradviz.recording.fingerprints.checksum import checksum_of
from gradviz.recording.forward.forward_log import ForwardLog
from gradviz.recording.forward.hidden_tensors import hidden_tensors
from gradviz.recording.forward.module_tree import distinct_modules
from gradviz.recording.forward.namespaces import own_namespaces, own_objects_in_libraries
from gradviz.recording.forward.tensor_names import ModuleNames, NameTable, names_on_stack
from gradviz.recording.run.line_attribution import NO_STACK, StackTable
from gradviz.recording.torch_access.distributed.sharded_parameters import own_parameter
from gradviz.recording.torch_access.modules import own_buffers, own_parameters

_INSIDE_READS = '; --inside reads them (not with backend="eager", and not under compiled autograd)'
MAX_CLASSES = 5
"""Classes of modules that are named in a disclosure about other threads."""


class CallLogNames:
    """Names the tensors of a recorder while the program runs; `build` makes the log afterwards.

    Args:
        reads_inside: whether what was compiled is run a second time, for its numbers.
    """

    def __init__(
        self, recorder: CallRecorder, log: ForwardLog, stacks: StackTable, *, reads_inside: bool = False
    ) -> None:
        self._recorder = recorder
        self._forward = log
        self._stacks = stacks
        self._reads_inside = reads_inside
        self._module_paths: dict[int, str] = {}
        """By index in `ForwardLog.modules`. A `NameTable` would keep everything that it names alive."""
        self._optimizers_made = 0
        recorder.optimizers.name_now = self._at_new_optimizer

    # -- names ---------------------------------------------------------------------------------------------------

    def _at_new_optimizer(self, frame: FrameType) -> None:
        """The program's models are complete now. Naming is slow, so only optimizers 1, 2, 4, 8 ... trigger it."""
        self._optimizers_made += 1
        if self._optimizers_made & (self._optimizers_made - 1) == 0:
            self.note_names(names_on_stack(frame))

    def before_backward(self, frame: FrameType) -> None:
        """Name local variables before they are gone: at calls 1, 2, 4, 8 ..., because names seldom change."""
        number = self._recorder.writer.backward_calls + 1
        if number & (number - 1) == 0 and not self._recorder.writer.is_elsewhere():
            self.note_names(names_on_stack(frame))
            self._recorder.living.note_living([*own_namespaces(frame), *own_objects_in_libraries(frame)])

    def run_backward(self, request: BackwardRequest, run: Callable[[], Any]) -> Any:
        """Run a call of ``backward`` or ``grad`` and give it a row; returns or raises whatever the call does."""
        return self._recorder.events.run_backward(request, run)

    def note_names(self, names: NameTable) -> None:
        """Name what modules and variables hold now. New parameters, and new leaves that require grad, are logged."""
        called = self._forward.called_modules()
        modules = ModuleNames(called, names)
        for index, (reference, _) in self._forward.modules.items():
            module = reference()
            path = None if module is None else modules.path_of(module)
            # A name from a variable, which may be gone by now, says more than the name of the class.
            if path is not None and (id(module) in modules.held or index not in self._module_paths):
                self._module_paths[index] = path
                made = self._recorder.modules.row_of(module)
                if made is not None:
                    made.name = path
        with measuring():
            for module in distinct_modules((*called, *(module for module, _ in names.modules.values()))):
                is_held = id(module) in modules.held
                self._name_all("parameter", own_parameters(module), modules.parameters, is_held=is_held)
                self._name_all("buffer", own_buffers(module), modules.buffers, is_held=is_held)
                self._note_hidden(module, modules)
                self._note_oddities(module, modules)
            for tensor, _ in names.tensors.values():
                table = self._recorder.writer.uses.tensors
                known = table.known(tensor) if requires_grad(tensor) else table.find(tensor)
                if known is not None:
                    known.names.update(dict.fromkeys(modules.names_of(tensor)))
            self._note_what_is_used_elsewhere()

    def _name_all(
        self, role: Any, tensors: Mapping[str, Any], names: Mapping[int, list[str]], *, is_held: bool
    ) -> None:
        """Name the tensors of a module, which a variable may lead to now. If none does, its name is that of a class,
        which says less than any other."""
        for tensor in tensors.values():
            if tensor is not None and not torch.nn.parameter.is_lazy(tensor):
                known = self._recorder.writer.uses.tensors.known(tensor)
                known.role = role
                own = dict.fromkeys(names.get(id(own_parameter(tensor)), ()))
                if is_held:
                    known.name_from_variable(own)
                else:
                    known.name_from_class(own)

    def _note_hidden(self, module: torch.nn.Module, modules: ModuleNames) -> None:
        path = modules.paths.get(id(module))
        tensors = self._recorder.writer.uses.tensors
        if path is None:
            return
        for name, tensor in hidden_tensors(module, path):
            if requires_grad(tensor) and not modules.is_registered(tensor, path):
                known = tensors.known(tensor)
                if known.is_leaf:
                    if id(module) in modules.held:
                        known.name_from_variable({name: None})
                    else:
                        known.names[name] = None
                    known.hidden_in = path

    def _note_oddities(self, module: torch.nn.Module, modules: ModuleNames) -> None:
        made = self._recorder.modules.row_of(module)
        path = modules.paths.get(id(module), "")
        stack = NO_STACK if made is None else made.stack
        self._recorder.oddities.note_module(module, path, stack, self._recorder.writer.uses.tensors.known)

    def note_end(self, namespaces: Sequence[Mapping[str, Any]]) -> None:
        """The program has ended: name what it holds, and note the state of its leaves."""
        self._recorder.living.note_living(namespaces)
        names = NameTable.of(namespaces)
        optimizers = self._recorder.optimizers
        for namespace in namespaces:
            for name, value in namespace.items():
                if issubclass(type(value), torch.optim.Optimizer):
                    optimizers.find(value).names[name] = None
        self.note_names(names)
        for optimizer in optimizers.all:
            if optimizer.weak() is not None:
                optimizers.note_groups(optimizer)
        self._recorder.schedules.at_end()
        tensors = [tensor for tensor, _ in names.tensors.values()]
        held = [tensor for optimizer in optimizers.all for tensor in _tensors_of(optimizer)]
        roots = (*self._forward.called_modules(), *(module for module, _ in names.modules.values()))
        owned = [
            tensor
            for module in distinct_modules(roots)
            for tensor in (*own_parameters(module).values(), *(hidden for _, hidden in hidden_tensors(module, "")))
            if tensor is not None and not torch.nn.parameter.is_lazy(tensor)
        ]
        with measuring():
            for tensor in (*owned, *held, *tensors):
                known = self._recorder.writer.uses.tensors.find(tensor)
                if known is not None and known.end is None:
                    known.end = self._end_of(tensor, known)

    def _note_what_is_used_elsewhere(self) -> None:
        on_threads = (self._forward.modules[index][0]() for index in self._modules_elsewhere())
        in_script = {id(module): module for script in self._scripts() for module in distinct_modules((script,))}
        tensors = self._recorder.writer.uses.tensors
        for module in (*filter(None, on_threads), *in_script.values()):
            for parameter in own_parameters(module).values():
                known = None if parameter is None else tensors.find(parameter)
                if known is not None:
                    known.is_used_elsewhere, known.is_in_script = True, id(module) in in_script

    def _scripts(self) -> list[torch.nn.Module]:
        """Modules of TorchScript that ran: Python sees none of their operations."""
        return [each for each in self._forward.modules_that_ran() if issubclass(type(each), torch.jit.ScriptModule)]

    def _end_of(self, tensor: torch.Tensor, known: KnownTensor) -> LeafEnd | None:
        wants_gradient = requires_grad(tensor)
        holds_gradient = is_leaf(tensor, wants_gradient)
        if not (known.role == "parameter" or (wants_gradient and holds_gradient)):
            return None
        gradient = tensor.grad if holds_gradient else None
        has_changed, name = _has_changed(tensor, known), str(tensor.dtype).removeprefix("torch.")
        dtype = None if name == known.facts.dtype else name
        if gradient is None:
            return LeafEnd(wants_gradient, has_changed=has_changed, dtype=dtype)
        facts = self._recorder.writer.uses.values.facts(gradient)
        norm = float(torch.linalg.vector_norm(gradient)) if facts is not None and facts.is_finite else None
        finite_norm = norm if norm is None or isfinite(norm) else None
        return LeafEnd(wants_gradient, True, finite_norm, facts, has_changed, dtype)

    def disclosures(self) -> list[str]:
        """What is missing in the log, in sentences."""
        sentences = self._recorder.writer.disclosures()
        sentences += self._recorder.blocks.disclosures()
        if self._recorder.loading is not None:
            sentences += self._recorder.loading.disclosures()
        elsewhere = sorted({self._forward.modules[index][1] for index in self._modules_elsewhere()})[:MAX_CLASSES]
        if elsewhere:
            sentences.append(
                f"torch calls of other threads, which ran {', '.join(elsewhere)}: what they cut off, changed or left "
                "unused is not known"
            )
        scripts = sorted({str(script.original_name) for script in self._scripts()})[:MAX_CLASSES]
        if scripts:
            sentences.append(
                f"torch calls inside of TorchScript, which ran {', '.join(scripts)}: what they cut off, changed or "
                "left unused is not known"
            )
        loaders = self._recorder.modules.loaders_with_workers
        if loaders:
            sentences.append(
                f"the worker processes of {counted(loaders, 'DataLoader')}: data that they change in place at each "
                "access (GV406) is not seen; with num_workers=0 it is"
            )
        sentences += self._of_compiled_code()
        not_compared = len(self._recorder.optimizers.not_compared)
        if not_compared:
            sentences.append(
                f"whether the steps changed {counted(not_compared, 'parameter')}: values of sharded, sparse and "
                "quantized tensors are not compared"
            )
        return sentences

    def _of_compiled_code(self) -> Iterator[str]:
        rows = [row for row in list(self._recorder.writer.rows) if row.kind == "compiled" and row.node_count]
        # Compiling makes nodes, too: what counts are those of which the program got a result.
        closed = sum(not row.has_inner_rows and bool(row.outputs) for row in rows)
        if closed:
            yield (
                f"the torch calls inside compiled code, which ran {counted(closed, 'time')}: rules about single "
                "calls (in-place changes, values, dtypes) did not look there"
            )
        broken = sum(row.has_inner_rows and not row.is_opened for row in rows)
        if broken:
            yield (
                f"the torch calls at graph breaks inside compiled code, which ran {counted(broken, 'time')}: rules "
                "about single calls looked at what is compiled before and behind them"
            )
        # Those of uncompiled code have the definition of their backward.
        functions = dict.fromkeys(
            row.function.removesuffix(".apply")
            for row in list(self._recorder.writer.rows)
            if row.kind == "custom" and row.definition is None
        )
        if functions:
            yield (
                f"whether backward fits forward in {', '.join(list(functions)[:MAX_CLASSES])}: compiled functions are "
                "not compared with finite differences (GV603); with TORCHDYNAMO_DISABLE=1 they are"
            )
        unread = sum(row.has_inner_rows and not row.has_values for row in rows)
        if unread:
            how = "" if self._reads_inside else _INSIDE_READS
            yield (
                f"the numbers inside compiled code, which ran {counted(unread, 'time')}: rules about zeros, NaN and "
                f"Inf (GV2, GV3) saw there only what went in and what came out{how}"
            )

    def _modules_elsewhere(self) -> list[int]:
        return [index for index in list(self._forward.modules_elsewhere) if index in self._forward.modules]

    # -- building ------------------------------------------------------------------------------------------------

    def build(self) -> CallLog:
        """The log of everything that was recorded and kept."""
        with collector_paused(expected=len(self._recorder.writer.rows)):
            return CallLogBuilder(self._recorder, self._forward, self._stacks, self._module_paths).build()


def _has_changed(tensor: torch.Tensor, known: KnownTensor) -> bool | None:
    """Whether its values are others than before the first step on it; None if no step was seen, or it is unreadable."""
    if known.before_steps is None:
        return None
    now = checksum_of(tensor)
    return None if now is None else int(known.before_steps) != int(now)


def _tensors_of(optimizer: KnownOptimizer) -> list[torch.Tensor]:
    groups = getattr(optimizer.weak(), "param_groups", None) or ()
    return [tensor for group in groups for tensor in group["params"] if issubclass(type(tensor), torch.Tensor)]
