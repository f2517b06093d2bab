"""From the rows of a `CallRecorder` to the `CallLog` of a capture: numbers, names, lines, and how leaves ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import FrameType
from typing import Any

import torch
from msgspec.structs import replace

from gradviz.graph.call_log import Call, CallLog, Holder, LeafEnd, LoggedOptimizer, LoggedTensor, TensorUse
from gradviz.graph.model import CallSite
from gradviz.recording.backward.backward_watch import BackwardRequest
from gradviz.recording.backward.gradients.hooks import measuring
from gradviz.recording.calls.call_recorder import CallRecorder
from gradviz.recording.calls.hidden_tensors import hidden_tensors
from gradviz.recording.calls.known_tensors import KnownStorage, KnownTensor, is_leaf, requires_grad
from gradviz.recording.calls.optimizers import KnownOptimizer
from gradviz.recording.calls.rows import Row, RowUse
from gradviz.recording.calls.storing_lines import StoringLines
from gradviz.recording.forward.forward_log import ForwardLog
from gradviz.recording.forward.grad_mode_watch import Location
from gradviz.recording.forward.module_tree import distinct_modules
from gradviz.recording.forward.names import ModuleNames, NameTable, names_on_stack, own_namespaces
from gradviz.recording.forward.user_functions import Callback, definition_of
from gradviz.recording.run.file_kinds import is_library_file
from gradviz.recording.run.stacks import CallSiteTable, StackTable
from gradviz.recording.torch_access.modules import own_buffers, own_parameters
from gradviz.recording.walk.graph_tables import ScopeTable

MAX_CLASSES = 5
"""Of modules that ran on other threads: so many are named."""


class CallLogBuilder:
    """Names the tensors of a recorder while the program runs, and builds its log afterwards."""

    def __init__(self, recorder: CallRecorder, log: ForwardLog, stacks: StackTable) -> None:
        self._recorder = recorder
        self._forward = log
        self._stacks = stacks
        self._module_paths: dict[int, str] = {}
        """By place in the forward log's modules. The names themselves would keep all that they name alive."""
        self._optimizers_made = 0
        recorder.optimizers.name_now = self._at_new_optimizer

    # -- names ---------------------------------------------------------------------------------------------------

    def _at_new_optimizer(self, frame: FrameType) -> None:
        """The program's models are complete. Naming costs: of many optimizers not each one is worth it."""
        self._optimizers_made += 1
        if self._optimizers_made & (self._optimizers_made - 1) == 0:
            self.note_names(names_on_stack(frame))

    def before_backward(self, frame: FrameType) -> None:
        """Variables of functions are gone when the script ends. Naming costs, and the names seldom change."""
        number = self._recorder.events.backward_calls + 1
        if number & (number - 1) == 0 and not self._recorder.writer.is_elsewhere():
            self.note_names(names_on_stack(frame))
            self._recorder.living.look(own_namespaces(frame))

    def run_backward(self, request: BackwardRequest, run: Callable[[], Any]) -> Any:
        """Run a call of ``backward`` or ``grad`` with a row of its own: gives what it gives, raises what it raises."""
        return self._recorder.events.run_backward(request, run)

    def note_names(self, names: NameTable) -> None:
        """Name what modules and variables hold now. Parameters, and leaves that require grad, are noted if unseen."""
        called = self._forward.called_modules()
        modules = ModuleNames(called, names)
        for place, (reference, _) in self._forward.modules.items():
            module = reference()
            path = modules.paths.get(id(module))
            # A name that a variable gave, which may be gone since, says more than that of the class.
            if path is not None and (id(module) in modules.held or place not in self._module_paths):
                self._module_paths[place] = path
                made = self._recorder.modules.row_of(module)
                if made is not None:
                    made.name = path
        with measuring():
            for module in distinct_modules((*called, *(module for module, _ in names.modules.values()))):
                self._name_all("parameter", own_parameters(module), modules.parameters)
                self._name_all("buffer", own_buffers(module), modules.buffers)
                self._note_hidden(module, modules)
            for tensor, _ in names.tensors.values():
                table = self._recorder.writer.uses.tensors
                known = table.known(tensor) if requires_grad(tensor) else table.find(tensor)
                if known is not None:
                    known.names.update(dict.fromkeys(names.variables_of(tensor)))
            self._note_what_other_threads_use()

    def _name_all(self, role: Any, tensors: Mapping[str, Any], names: Mapping[int, list[str]]) -> None:
        for tensor in tensors.values():
            if tensor is not None and not torch.nn.parameter.is_lazy(tensor):
                known = self._recorder.writer.uses.tensors.known(tensor)
                known.role = role
                known.names.update(dict.fromkeys(names.get(id(tensor), ())))

    def _note_hidden(self, module: torch.nn.Module, modules: ModuleNames) -> None:
        path = modules.paths.get(id(module))
        tensors = self._recorder.writer.uses.tensors
        for name, tensor in hidden_tensors(module, path) if path is not None else ():
            if requires_grad(tensor) and id(tensor) not in modules.parameters:
                known = tensors.known(tensor)
                if known.is_leaf:
                    known.names[name] = None
                    known.hidden_in = path

    def note_end(self, namespaces: Sequence[Mapping[str, Any]]) -> None:
        """The program has ended: name what it holds, and note how its leaves stand."""
        self._recorder.living.look(namespaces)
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

    def _note_what_other_threads_use(self) -> None:
        tensors = self._recorder.writer.uses.tensors
        modules = (self._forward.modules[place][0]() for place in self._modules_elsewhere())
        for parameter in (each for module in modules if module is not None for each in own_parameters(module).values()):
            known = None if parameter is None else tensors.find(parameter)
            if known is not None:
                known.is_used_elsewhere = True

    def _end_of(self, tensor: torch.Tensor, known: KnownTensor) -> LeafEnd | None:
        wants_gradient = requires_grad(tensor)
        holds_gradient = is_leaf(tensor, wants_gradient)
        if not (known.role == "parameter" or (wants_gradient and holds_gradient)):
            return None
        gradient = tensor.grad if holds_gradient else None
        if gradient is None:
            return LeafEnd(wants_gradient)
        facts = self._recorder.writer.uses.values.facts(gradient)
        norm = float(torch.linalg.vector_norm(gradient)) if facts is not None and facts.is_finite else None
        return LeafEnd(wants_gradient, True, norm, facts)

    def disclosures(self) -> list[str]:
        """What is missing in the log, in sentences."""
        told = self._recorder.writer.disclosures()
        elsewhere = sorted({self._forward.modules[place][1] for place in self._modules_elsewhere()})[:MAX_CLASSES]
        if elsewhere:
            told.append(
                f"torch calls of other threads, which ran {', '.join(elsewhere)}: what they cut off, changed or left "
                "unused is not known"
            )
        return told

    def _modules_elsewhere(self) -> list[int]:
        return [place for place in list(self._forward.modules_elsewhere) if place in self._forward.modules]

    # -- building ------------------------------------------------------------------------------------------------

    def build(self) -> CallLog:
        """The log of everything that was recorded and kept."""
        names = ModuleNames((), NameTable())
        for place, (reference, _) in self._forward.modules.items():
            if place in self._module_paths and (module := reference()) is not None:
                names.paths[id(module)] = self._module_paths[place]
        return _OneLog(self._recorder, self._forward, self._stacks, names).build()


def _tensors_of(optimizer: KnownOptimizer) -> list[torch.Tensor]:
    groups = getattr(optimizer.weak(), "param_groups", None) or ()
    return [tensor for group in groups for tensor in group["params"] if issubclass(type(tensor), torch.Tensor)]


class _OneLog:
    """The tables of a log while it is built. Numbers are given in order of appearance."""

    def __init__(self, recorder: CallRecorder, forward: ForwardLog, stacks: StackTable, modules: ModuleNames) -> None:
        self._recorder = recorder
        self._sites = CallSiteTable(stacks)
        self._scopes = ScopeTable(forward, modules)
        self._places: dict[Location, int] = {}
        self._definitions: dict[Callback, int] = {}
        self._numbers: dict[int, int] = {}
        self._tensors: list[KnownTensor] = []
        self._storages: dict[int, int] = {}
        self._storing = StoringLines(())
        self._optimizers = {id(optimizer): place for place, optimizer in enumerate(recorder.optimizers.all)}

    def build(self) -> CallLog:
        rows = list(self._recorder.writer.rows)
        for number, row in enumerate(rows):
            row.number = number
        self._find_all_sites(rows)
        self._storing = StoringLines(dict.fromkeys(each.file for each in self._sites.sites if not each.is_library))
        calls = tuple([self._call(row) for row in rows])
        for known in self._recorder.writer.uses.tensors.living():
            if known.role == "parameter" or known.status == (True, True):
                self._number(known)
        optimizers = tuple(self._optimizer(known, rows) for known in self._recorder.optimizers.all)
        return CallLog(
            calls=calls,
            tensors=tuple(self._logged_tensors()),
            call_sites=(*self._sites.sites, *(_site(place) for place in self._places)),
            scopes=self._scopes.scopes,
            optimizers=optimizers,
            definitions=tuple(map(definition_of, self._definitions)),
            derivatives=self._recorder.derivatives,
            dropped=self._recorder.writer.rows.dropped,
            dropped_at=self._recorder.writer.rows.dropped_at,
            moments=tuple(sorted({row.number for row in self._recorder.living.moments if row.number >= 0})),
        )

    def _find_all_sites(self, rows: list[Row]) -> None:
        """First those of stacks, because places of decorators and ``with`` lines are added behind them."""
        for row in rows:
            self._sites.site_of(row.stack)
        behind = len(self._sites.sites)
        for row in rows:
            if row.grad_mode_place is not None and row.grad_mode_place not in self._places:
                self._places[row.grad_mode_place] = behind + len(self._places)

    def _call(self, row: Row) -> Call:
        place = row.grad_mode_place
        inside = row.inside.number if row.inside is not None and row.inside.number >= 0 else None
        return Call(
            function=row.function,
            kind=row.kind,
            call_site=self._sites.site_of(row.stack),
            scope=self._scopes.place_of(row.scope),
            inputs=tuple([self._use(use) for use in row.inputs]),
            outputs=tuple([self._use(use) for use in row.outputs]),
            scalars=row.scalars,
            result=row.result,
            results=row.results,
            sequence_nr=row.sequence_nr,
            node_count=row.node_count,
            inside=inside,
            grad_mode=row.grad_mode,
            grad_mode_site=self._places[place] if place is not None else None,
            is_autocast=row.is_autocast,
            raised=row.raised,
            optimizer=self._optimizers.get(id(row.optimizer)),
            name=row.name,
            definition=self._definition_of(row),
        )

    def _definition_of(self, row: Row) -> int | None:
        callback = row.definition
        if callback is None or is_library_file(callback.code.co_filename):
            return None
        return self._definitions.setdefault(callback, len(self._definitions))

    def _use(self, use: RowUse) -> TensorUse:
        return TensorUse(self._number(use.known), use.place, use.version, use.requires_grad, use.is_leaf, use.values)

    def _number(self, known: KnownTensor) -> int:
        number = self._numbers.get(id(known))
        if number is None:
            number = self._numbers[id(known)] = len(self._tensors)
            self._tensors.append(known)
        return number

    def _optimizer(self, known: KnownOptimizer, rows: list[Row]) -> LoggedOptimizer:
        groups = known.groups or [
            [use.known for use in row.inputs]
            for row in rows
            if row.optimizer is known and row.kind == "add_param_group"
        ]
        return LoggedOptimizer(
            known.class_name,
            tuple(known.names),
            tuple(tuple(self._number(tensor) for tensor in group) for group in groups),
            tuple(known.learning_rates),
        )

    def _logged_tensors(self) -> Iterator[LoggedTensor]:
        """Grows while it is read: what a tensor refers to is a tensor of the log, too."""
        for known in self._tensors:
            yield LoggedTensor(
                facts=known.facts,
                first_seen=_place_of(known.first_row),
                producer=_place_of(known.producer),
                storage=self._storage(known.storage),
                requires_grad=known.requires_grad,
                is_leaf=known.is_leaf,
                role=known.role,
                names=tuple(known.names),
                gradient_of=self._number(known.gradient_of) if known.gradient_of is not None else None,
                from_numpy_of=self._number(known.from_numpy_of) if known.from_numpy_of is not None else None,
                hidden_in=known.hidden_in,
                is_used_elsewhere=known.is_used_elsewhere,
                end=known.end,
                alive_after=_place_of(known.alive_after),
                holder=self._holder(known.holder),
            )

    def _holder(self, holder: Holder | None) -> Holder | None:
        return None if holder is None else replace(holder, lines=self._storing.into(holder.path))

    def _storage(self, storage: KnownStorage | None) -> int | None:
        return None if storage is None else self._storages.setdefault(id(storage), len(self._storages))


def _place_of(row: Row | None) -> int | None:
    return row.number if row is not None and row.number >= 0 else None


def _site(place: Location) -> CallSite:
    return CallSite(place.file, place.line, place.function, None, is_library_file(place.file))
