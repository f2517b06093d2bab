"""Builds the `CallLog` of a capture from the rows of a `CallRecorder`, with call sites, scopes and indices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from gradviz.graph.call_log import Call, CallLog, Holder, LoggedOptimizer, LoggedTensor, SharedSteps, TensorUse
from gradviz.graph.model import CallSite
from gradviz.graph.modules_and_schedules import (
    IdleAttribute,
    MadeLoader,
    RepeatedModule,
    Schedule,
    StateLoad,
    UnknownKeys,
)
from gradviz.recording.backward.gradients.gradient_watch import measuring
from gradviz.recording.calls.call_recorder import CallRecorder
from gradviz.recording.calls.kept_alive import StoringLines
from gradviz.recording.calls.known_tensors import KnownStorage, KnownTensor
from gradviz.recording.calls.module_oddities import OF_OTHER_LIBRARIES, AttributeLines
from gradviz.recording.calls.optimizers import KnownOptimizer
from gradviz.recording.calls.rows import Row, RowUse
from gradviz.recording.calls.schedules import is_stepped_in_source
from gradviz.recording.forward.forward_log import ForwardLog
from gradviz.recording.forward.grad_mode_watch import Location
from gradviz.recording.forward.tensor_names import ModuleNames, NameTable
from gradviz.recording.forward.user_functions import Callback, definition_of
from gradviz.recording.run.file_kinds import is_library_file
from gradviz.recording.run.line_attribution import CallSiteTable, StackTable
from gradviz.recording.torch_access.transfers import in_memory
from gradviz.recording.walk.graph_tables import ScopeTable

_POSITIVE = 2**63 - 1


class CallLogBuilder:
    """The tables of one log. Entries get their indices in the order of first use."""

    def __init__(
        self, recorder: CallRecorder, forward: ForwardLog, stacks: StackTable, module_paths: Mapping[int, str]
    ) -> None:
        self._recorder = recorder
        self._sites = CallSiteTable(stacks)
        self._scopes = ScopeTable(forward, ModuleNames((), NameTable()), module_paths)
        self._locations: dict[Location, int] = {}
        self._definitions: dict[Callback, int] = {}
        self._numbers: dict[int, int] = {}
        self._tensors: list[KnownTensor] = []
        self._storages: dict[int, int] = {}
        self._storing = StoringLines(())
        self._setting = AttributeLines(())
        self._own_files: tuple[str, ...] = ()
        self._checksums: dict[int, dict[str, int]] = {}
        meter = recorder.writer.uses.fingerprints
        with measuring():
            self._fingerprints = meter.results() if meter is not None else {}
        self._optimizers = {id(optimizer): index for index, optimizer in enumerate(recorder.optimizers.all)}

    def build(self) -> CallLog:
        rows = list(self._recorder.writer.rows)
        for number, row in enumerate(rows):
            row.number = number
        self._note_checksums(rows)
        self._find_all_sites(rows)
        self._own_files = tuple(dict.fromkeys(each.file for each in self._sites.sites if not each.is_library))
        self._storing, self._setting = StoringLines(self._own_files), AttributeLines(self._own_files)
        calls = tuple([self._call(row) for row in rows])
        for known in self._recorder.writer.uses.tensors.living():
            if known.role == "parameter" or known.status == (True, True):
                self._number(known)
        optimizers = tuple(self._optimizer(known, rows) for known in self._recorder.optimizers.all)
        shared = tuple(self._shared_steps())
        attributes, repeated = tuple(self._idle_attributes()), tuple(self._repeated_modules())
        return CallLog(
            calls=calls,
            tensors=tuple(self._logged_tensors()),
            call_sites=(*self._sites.sites, *(_site(location) for location in self._locations)),
            scopes=self._scopes.scopes,
            optimizers=optimizers,
            definitions=tuple(map(definition_of, self._definitions)),
            derivatives=self._recorder.derivatives,
            dropped=self._recorder.writer.rows.dropped,
            dropped_at=self._recorder.writer.rows.dropped_at,
            moments=tuple(sorted({row.number for row in self._recorder.living.moments if row.number >= 0})),
            shared_steps=shared,
            loads=tuple(self._loads()),
            unknown_keys=tuple(self._unknown_keys()),
            idle_attributes=attributes,
            repeated_modules=repeated,
            schedules=tuple(self._schedules()),
            loaders=tuple(self._loaders()),
        )

    def _loads(self) -> Iterator[StateLoad]:
        for load, stack in self._recorder.loads.all:
            yield replace(load, call_site=self._sites.site_of(stack))

    def _unknown_keys(self) -> Iterator[UnknownKeys]:
        for unknown, stack in self._recorder.replaced.unknown.values():
            yield replace(unknown, call_site=self._sites.site_of(stack))

    def _loaders(self) -> Iterator[MadeLoader]:
        for loader, stack in self._recorder.modules.loaders:
            yield replace(loader, call_site=self._sites.site_of(stack))

    def _schedules(self) -> Iterator[Schedule]:
        for known in self._recorder.schedules.all:
            site, optimizer = self._sites.site_of(known.stack), self._optimizers[id(known.optimizer)]
            made = None if site is None else self._sites.sites[site]
            is_stepped = made is None or is_stepped_in_source(made.file, made.line, self._own_files)
            yield Schedule(
                known.class_name,
                optimizer,
                site,
                known.looks,
                known.has_moved,
                known.idle_moves,
                known.is_alive,
                is_stepped,
                *known.rates,
                peak_rate=known.peak_rate,
                first_factor=known.factors[0],
                last_factor=known.factors[1],
                milestones=known.milestones,
                gamma=known.gamma,
                replaced=known.replaced,
                replaced_after=known.replaced_after,
                length=known.length,
                held_counts=known.held_counts,
                first_count=known.begins_at,
                fractions=tuple(known.fractions),
                moves=known.moves,
                optimizer_steps=max(0, known.optimizer_steps),
                mode=known.mode,
                readings=tuple((self._sites.site_of(stack), number) for stack, number in known.readings),
            )

    def _idle_attributes(self) -> Iterator[IdleAttribute]:
        for each in self._recorder.oddities.attributes.values():
            if each.name in OF_OTHER_LIBRARIES and self._setting.may_be_read(each.name):
                continue
            tensors = tuple(map(self._number, each.parameters))
            lines = self._setting.that_set(each.name)
            yield IdleAttribute(each.name, each.value, each.owner, each.is_of_module, tensors, lines)

    def _repeated_modules(self) -> Iterator[RepeatedModule]:
        for each in self._recorder.oddities.repeated.values():
            tensors, site = tuple(map(self._number, each.parameters)), self._sites.site_of(each.stack)
            yield RepeatedModule(
                each.path, each.class_name, each.repeated, each.count, each.size, site, tensors, each.is_of_names
            )

    def _shared_steps(self) -> Iterator[SharedSteps]:
        with measuring():
            found = list(self._recorder.optimizers.shared.results())
        for one, other, tensors, cosines in found:
            pair = self._optimizers[id(one)], self._optimizers[id(other)]
            yield SharedSteps(pair, tuple(self._number(known) for known in tensors), cosines)

    def _note_checksums(self, rows: list[Row]) -> None:
        """Bring the checksums of all rows to memory, with one copy for each device."""
        taken = [(row.number, place, each) for row in rows for place, each in row.checksums.items()]
        with measuring():
            read = in_memory([each for _, _, each in taken])
            for (number, place, _), each in zip(taken, read, strict=True):
                self._checksums.setdefault(number, {})[place] = int(each) & _POSITIVE

    def _find_all_sites(self, rows: list[Row]) -> None:
        """Add the call sites of all stacks first: those of other lines come after them."""
        for row in rows:
            self._sites.site_of(row.stack)
        for stack in self._recorder.other_stacks():
            self._sites.site_of(stack)
        behind = len(self._sites.sites)
        for row in rows:
            for location in (row.grad_mode_location, row.checkpoint_location, row.redrawn_location):
                if location is not None and location not in self._locations:
                    self._locations[location] = behind + len(self._locations)

    def _call(self, row: Row) -> Call:
        location = row.grad_mode_location
        inside = row.inside.number if row.inside is not None and row.inside.number >= 0 else None
        if row.kind == "backward":
            _note_first_use(row)
        return Call(
            function=row.function,
            kind=row.kind,
            call_site=self._sites.site_of(row.stack),
            scope=self._scopes.index_of(row.scope),
            inputs=tuple([self._use(use) for use in row.inputs]),
            outputs=tuple([self._use(use) for use in row.outputs]),
            scalars=row.scalars,
            result=row.result,
            results=row.results,
            sequence_nr=row.sequence_nr,
            node_count=row.node_count,
            inner_nr=row.inner_nr,
            is_opened=row.is_opened,
            inside=inside,
            grad_mode=row.grad_mode,
            grad_mode_site=self._locations[location] if location is not None else None,
            checkpoint_site=None if row.checkpoint_location is None else self._locations[row.checkpoint_location],
            redrawn_site=None if row.redrawn_location is None else self._locations[row.redrawn_location],
            is_autocast=row.is_autocast,
            misses_calls=row.misses_calls,
            raised=row.raised,
            optimizer=self._optimizers.get(id(row.optimizer)),
            name=row.name,
            definition=self._definition_of(row),
            draw=row.draw,
            checksums=self._checksums.get(row.number, {}),
            padding=row.padding,
        )

    def _definition_of(self, row: Row) -> int | None:
        callback = row.definition
        if callback is None or is_library_file(callback.code.co_filename):
            return None
        return self._definitions.setdefault(callback, len(self._definitions))

    def _use(self, use: RowUse) -> TensorUse:
        return TensorUse(
            self._number(use.known),
            use.position,
            use.version,
            use.requires_grad,
            use.is_leaf,
            use.values,
            None if use.fingerprint is None else self._fingerprints.get(use.fingerprint),
        )

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
        own_state = self._recorder.loads.own_states.get(id(known))
        return LoggedOptimizer(
            known.class_name,
            tuple(known.names),
            tuple(tuple(self._number(tensor) for tensor in group) for group in groups),
            tuple(known.learning_rates),
            tuple(known.highest_rates),
            tuple(known.idle_steps),
            known.keeps_state,
            tuple(known.weight_decays),
            known.steps_from_zero,
            known.turns.steps,
            known.turns.changes,
            tuple(known.turns.turns),
            known.turns.first,
            known.maximizes,
            tuple(known.epsilons),
            tuple(known.betas),
            tuple(known.made_rates.values()),
            known.levelled_steps,
            None if own_state is None else self._sites.site_of(own_state),
            known.keeps_squares,
            known.decays_apart,
        )

    def _logged_tensors(self) -> Iterator[LoggedTensor]:
        """Every tensor of the log. The list grows while it is read, because a tensor may refer to further ones."""
        for known in self._tensors:
            yield LoggedTensor(
                facts=known.facts,
                first_seen=_row_number(known.first_row),
                producer=_row_number(known.producer),
                storage=self._storage(known.storage),
                requires_grad=known.requires_grad,
                is_leaf=known.is_leaf,
                role=known.role,
                names=tuple(known.names),
                gradient_of=self._number(known.gradient_of) if known.gradient_of is not None else None,
                from_numpy_of=self._number(known.from_numpy_of) if known.from_numpy_of is not None else None,
                array_of=self._number(known.array_of) if known.array_of is not None else None,
                hidden_in=known.hidden_in,
                is_used_elsewhere=known.is_used_elsewhere,
                is_in_script=known.is_in_script,
                is_moved=known.is_moved,
                has_equal_units=known.has_equal_units,
                end=known.end,
                alive_after=_row_number(known.alive_after),
                holder=self._holder(known.holder),
            )

    def _holder(self, holder: Holder | None) -> Holder | None:
        return None if holder is None else replace(holder, lines=self._storing.into(holder.path))

    def _storage(self, storage: KnownStorage | None) -> int | None:
        return None if storage is None else self._storages.setdefault(id(storage), len(self._storages))


def _note_first_use(row: Row) -> None:
    """The method ``backward`` saw its tensor first, but the log has the function that it called."""
    for use in row.inputs:
        if use.known.first_row is None or use.known.first_row.number < 0:
            use.known.first_row = row


def _row_number(row: Row | None) -> int | None:
    return row.number if row is not None and row.number >= 0 else None


def _site(location: Location) -> CallSite:
    return CallSite(location.file, location.line, location.function, None, is_library_file(location.file))
