"""Collects the graphs of one recording with their parameters, source lines and disclosures, and makes the capture."""

from __future__ import annotations

import itertools
import linecache
import platform
import threading
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from msgspec.structs import replace

from gradviz._version import __version__
from gradviz.capture.capture import Capture, Parameter, Program, ScriptError
from gradviz.graph.call_log import CallLog
from gradviz.graph.compilations import Compilation, GradientCut
from gradviz.graph.inner_backward import callers_of_backward, words_for_callers
from gradviz.graph.model import Graph, RefusedRoot
from gradviz.graph.number_words import counted
from gradviz.recording.backward.gradients.gradient_watch import RunTimes
from gradviz.recording.compiled.region_finder import RegionFinder
from gradviz.recording.compiled.region_opening import (
    FoundRegion,
    FoundRegions,
    closed_regions,
    not_measured_again,
    opened,
    unmeasured_between,
    without_broken,
)
from gradviz.recording.forward.forward_log import KEPT_CALLS, ThreadLog
from gradviz.recording.forward.module_tree import outermost, parameters_inside
from gradviz.recording.forward.tensor_names import ModuleNames, NameTable
from gradviz.recording.forward_watch import ForwardWatch
from gradviz.recording.run.file_kinds import imported_beside
from gradviz.recording.torch_access import capabilities
from gradviz.recording.torch_access.distributed.parameter_shards import flat_shards, sharding_of
from gradviz.recording.torch_access.distributed.sharded_parameters import (
    own_parameter,
    parameters_with_reduced_gradient,
    reducers_of,
)
from gradviz.recording.torch_access.dynamo.compilations import with_guards
from gradviz.recording.torch_access.tensor_facts import FactsTable
from gradviz.recording.walk.graph_builder import CallAt, GraphBuilder
from gradviz.recording.walk.graph_tables import ConstantTable
from gradviz.recording.walk.graph_walker import Walk, walk
from gradviz.recording.walk.leaves import leaf_variables
from gradviz.recording.walk.object_memory import with_sizes
from gradviz.recording.walk.roots import RootTensor, RootWithoutGradFn
from gradviz.recording.walk.torch_settings import settings_now


class Recorded(NamedTuple):
    """A graph of the recording, and the walk that it was built from."""

    walk: Walk
    graph_index: int
    """In `CaptureBuilder.graphs`, to which other threads add theirs."""


class CaptureBuilder:
    """Builds graphs with what `forward` has seen, which may be nothing."""

    def __init__(self, facts: FactsTable, forward: ForwardWatch) -> None:
        self.graphs: dict[int, Graph] = {}
        """By index, in the order in which they were added."""
        self.node_count = 0
        """The number of nodes of all kept graphs."""
        self._next_index = itertools.count()
        self.unmeasured: Counter[str] = Counter()
        """How many gradients could not be measured, by reason."""
        self._adding = threading.Lock()
        self._facts = facts
        self._forward = forward
        self._regions: dict[int, FoundRegions] = {}
        """Of each graph, by its index."""
        self._opened_of: dict[int, tuple[Graph, FoundRegions | None, Graph]] = {}
        """By index, a graph, its regions, and the graph with them open."""
        self._region_finder = RegionFinder(forward.traced_graphs, forward.noted_cuts, facts, forward.log.module_of)
        self._builder = GraphBuilder(facts, forward.log, forward.stacks, memory=forward.memory, values=forward.values)
        self._parameters: dict[int, Parameter] = {}
        self._reduced: set[int] = set()
        """The ``id()`` of each parameter whose ``.grad`` was made out of the gradients of several ranks."""
        self._disclosures: dict[str, None] = {}
        self.happened: set[str] = set()
        """What the program did that some capabilities of torch are needed for, in their words."""
        self._of_calls: dict[tuple[str, str], tuple[str, int]] = {}
        """The first call that a sentence is about, and the number of calls it is about."""

    def add_graph(
        self,
        roots: Sequence[RootTensor],
        names: NameTable,
        *,
        models: Iterable[torch.nn.Module] = (),
        call: CallAt | None = None,
        refused: Sequence[RootWithoutGradFn] = (),
    ) -> Recorded:
        """Walk and build the graph of `roots`.

        Args:
            models: modules that it belongs to, besides those that were seen running.
            call: the backward call that the graph is recorded for.
            refused: the roots that backward was called on, if torch refuses the call; `roots` are then the other
                results that were found.
        """
        walked = walk(root.grad_fn for root in roots)
        models = [*self._forward.log.called_modules(), *models] or _held_models_behind(walked, names)
        module_names = ModuleNames(models, names)
        log, constants = self._log_of_graph(), ConstantTable(self._forward.log, module_names)
        graph = self._builder.build(walked, () if refused else roots, module_names, log, constants, call)
        if refused:
            facts = self._facts.of_tensor
            graph = replace(graph, refused=tuple(RefusedRoot(name, facts(tensor)) for name, tensor in refused))
        with self._adding:
            recorded = Recorded(walked, next(self._next_index))
            self.graphs[recorded.graph_index] = graph
            self.node_count += len(walked.wrappers)
        self._regions[recorded.graph_index] = self._region_finder.regions_of(
            graph, walked, module_names, models, log, constants
        )
        self._note_parameters(models, module_names)
        return recorded

    def forget_graphs(self) -> None:
        """Forget the graphs of earlier calls, and what was disclosed about them."""
        self.graphs.clear()
        self._regions.clear()
        self._opened_of.clear()
        self.node_count = 0
        self.unmeasured.clear()
        self._disclosures.clear()
        self.happened.clear()
        self._of_calls.clear()
        self._builder.forget_unknowns()

    def forget_graph(self, index: int) -> None:
        """Forget one of them."""
        with self._adding:
            self.node_count -= len(self.graphs.pop(index).nodes)
            self._regions.pop(index, None)
            self._opened_of.pop(index, None)

    def reducers(self) -> dict[int, str]:
        """Which parameters get their ``.grad`` from several ranks in the next backward call: see `reducers_of`."""
        return reducers_of(self._forward.log.modules_that_ran())

    def with_exchanges(self, graph: Graph, walked: Walk, times: RunTimes) -> Graph:
        """The graph of a backward call that has just ended, with what ranks exchanged for its parameters."""
        exchanges = self._forward.exchanges.of_backward(walked, times)
        for size in self._forward.exchanges.too_large:
            self.disclose(f"the buckets of DistributedDataParallel: it exchanges {size}")
        return replace(graph, exchanges=exchanges) if exchanges else graph

    def note_reduced_gradients(self) -> None:
        """A backward call has ended: note which parameters got their ``.grad`` from several ranks."""
        self._reduced |= parameters_with_reduced_gradient(self._forward.log.modules_that_ran())

    def parameter_names(self) -> dict[int, tuple[str, ...]]:
        """Names of the parameters of modules that ran, by ``id()``."""
        return {key: parameter.names for key, parameter in self._parameters.items()}

    @property
    def saw_no_forward(self) -> bool:
        """True if no lines and module calls are known."""
        return self._forward.log.is_empty

    def disclose(self, sentence: str) -> None:
        """Say once what could not be recorded."""
        self._disclosures[sentence] = None

    def disclose_of_call(self, before: str, call: str, after: str) -> None:
        """The same for a backward call, named between two parts of the sentence; later calls are only counted."""
        first, count = self._of_calls.get((before, after), (call, 0))
        self._of_calls[before, after] = first, count + 1

    def disclose_defect(self, what: str, defect: Exception) -> None:
        """Say that `what` happened because of a defect of gradviz."""
        self.disclose(f"{what}, which is a defect of gradviz: {type(defect).__name__}: {defect}")

    def disclosures(self) -> tuple[str, ...]:
        """What could not be recorded, each in a sentence."""
        return tuple(dict.fromkeys([*capabilities.disclosures(self.happened), *self._disclosures, *self._unknowns()]))

    def capture(
        self,
        program: str,
        arguments: tuple[str, ...],
        outcome: Any,
        error: ScriptError | None,
        backward_calls: int = 0,
        calls: CallLog | None = None,
    ) -> Capture:
        """Everything that was recorded; `calls` is the log of every torch call, if there is one."""
        made = self._capture(program, arguments, tuple(map(with_sizes, self._opened_graphs())), calls, error)
        return replace(made, error=error, outcome=outcome, backward_calls=backward_calls)

    def unfinished_capture(
        self,
        program: str,
        arguments: tuple[str, ...],
        backward_calls: int,
        calls: CallLog | None,
        more_disclosures: Iterable[str],
    ) -> Capture:
        """What was recorded until now; the recording goes on and is not changed."""
        made = self._capture(program, arguments, tuple(self._opened_graphs()), calls, None)
        disclosures = dict.fromkeys((*made.disclosures, *more_disclosures))
        return replace(made, outcome="interrupted", backward_calls=backward_calls, disclosures=tuple(disclosures))

    def _capture(
        self,
        program: str,
        arguments: tuple[str, ...],
        graphs: tuple[Graph, ...],
        calls: CallLog | None,
        error: ScriptError | None,
    ) -> Capture:
        compilations = tuple(with_guards(self._region_finder.with_cuts(self._forward.compilations)))
        cuts = tuple(self._forward.noted_cuts.cuts())
        sources = kept_lines(graphs, calls, error, compilations, cuts)
        imported, left_out = ({}, 0) if calls is None else _imported(calls, sources)
        return Capture(
            program=program_of(program, arguments),
            graphs=graphs,
            parameters=tuple(
                replace(parameter, gets_reduced_gradient=True) if key in self._reduced else parameter
                for key, parameter in self._parameters.items()
            ),
            sources=sources | imported,
            imported=tuple(imported),
            imported_left_out=left_out,
            compilations=compilations,
            uncompiled_cuts=cuts,
            disclosures=self.disclosures(),
            calls=calls,
            settings=settings_now(),
            missing=capabilities.unseen(self.happened),
        )

    def _opened_graphs(self) -> Iterator[Graph]:
        return map(self._opened, self.graphs)

    def _opened(self, index: int) -> Graph:
        """One of the graphs, with its compiled regions open."""
        made_of = self.graphs[index], self._regions.get(index)
        known = self._opened_of.get(index)
        if known is None or any(one is not other for one, other in zip(made_of, known, strict=False)):
            known = self._opened_of[index] = (*made_of, opened(made_of[0], self._regions_of(index)))
        return known[2]

    def compiled_regions(self, index: int) -> Mapping[int, FoundRegion]:
        """The compiled nodes of a graph, by id."""
        return self._regions.get(index, FoundRegions()).compiled

    def note_measured_regions(self, index: int, measured: Mapping[int, FoundRegion]) -> None:
        """Some compiled nodes of a graph were run a second time."""
        found = self._regions.get(index, FoundRegions())
        self._regions[index] = found._replace(compiled={**found.compiled, **measured})

    def _regions_of(self, index: int) -> FoundRegions:
        return without_broken(self.graphs[index], self._regions.get(index, FoundRegions()))

    def _log_of_graph(self) -> ThreadLog | None:
        """The log of the thread that made the nodes: this thread's, or the only one with entries."""
        logs = self._forward.log.threads
        busy = [log for log in logs.values() if not log.is_empty]
        if len(busy) == 1:
            return busy[0]
        if len(busy) > 1:
            self.disclose(
                f"{len(busy)} threads computed forward; lines and modules are those of the thread that called "
                "backward, and may be missing or wrong for nodes that another thread made"
            )
        return logs.get(threading.get_ident())

    def _note_parameters(self, models: Iterable[torch.nn.Module], names: ModuleNames) -> None:
        flat = dict(flat_shards(self._forward.log.modules_that_ran()))
        for parameter in map(own_parameter, parameters_inside(*models)):
            self._parameters[id(parameter)] = Parameter(
                tuple(names.parameters[id(parameter)]),
                self._facts.of_tensor(parameter),
                parameter.requires_grad,
                sharding=flat[id(parameter)].sharding if id(parameter) in flat else sharding_of(parameter),
                part_of=names.flat.get(id(parameter), ""),
            )

    def _unknowns(self) -> Iterator[str]:
        for (before, after), (call, count) in self._of_calls.items():
            later = "" if count == 1 else " and 1 later call" if count == 2 else f" and {count - 1:,} later calls"
            yield f"{before} {call}{later} {after}".lstrip()
        for what, count in sorted(self._builder.unreadable.items()):
            yield f"the {what} of {counted(count, 'node')} could not be read"
        for reason, count in sorted(self.unmeasured.items()):
            yield f"{counted(count, 'gradient')} could not be measured: {reason}"
        yield from self._forward.defects.sentences("{} calls could not be noted")
        yield from self._forward.values.disclosures()
        yield from self._forward.remote_backward.disclosures()
        if self._builder.unseen_calls:
            nodes = counted(self._builder.unseen_calls, "node is", "nodes are")
            yield (
                f"the lines of {nodes} unknown: made before the recording began or more than "
                f"{KEPT_CALLS} backward calls ago, by a thread that is not recorded, or by code below Python, such as "
                "TorchScript; which torch calls ran there is not known"
            )
        if self._builder.uncompiled:
            operations = counted(self._builder.uncompiled, "operation gets", "operations get")
            yield (
                f"the data without gradient (masks, buffers, constants) that {operations} in code that torch.compile "
                "left uncompiled"
            )
        if self._builder.undecided:
            nodes = counted(self._builder.undecided, "node is", "nodes are")
            yield f"the lines and modules of {nodes} unknown: several threads made this graph, with the same numbers"
        regions = {index: self._regions_of(index) for index in self._regions}
        inside = sum(map(unmeasured_between, self._opened_graphs()))
        if inside:
            yield (
                f"the gradients between the {counted(inside, 'operation')} inside compiled code: where one becomes "
                "zero, NaN, small or large there is not known"
            )
        again = [each for found in regions.values() for each in found.compiled.values()]
        if any(each.is_measured for each in again):
            yield (
                "the rounding of compiled code: the gradients inside it are those of a second run without compilation, "
                "which agrees with the program except for rounding"
            )
        yield from not_measured_again(again)
        for reason in self._region_finder.untraceable:
            yield f"the lines of some operations inside code for torch.compile: {reason}"
        yield from closed_regions(found for each in regions.values() for found in each.compiled.values())
        callers = tuple(dict.fromkeys(name for graph in self.graphs.values() for name in callers_of_backward(graph)))
        if callers:
            yield (
                f"what {words_for_callers(callers)} computes is not in this graph: it is computed again inside "
                "backward, where its parameters get their gradients"
            )


def _held_models_behind(walked: Walk, names: NameTable) -> list[torch.nn.Module]:
    """If no module was seen running: the modules that a variable holds and that own a leaf of the graph."""
    leaves = {id(variable) for _, variable in leaf_variables(walked)}
    held = outermost(module for module, _ in names.modules.values())
    return [module for module in held if any(id(parameter) in leaves for parameter in parameters_inside(module))]


# -- Versions that a program was recorded with -------------------------------------------------------------------------


def program_of(name: str, arguments: tuple[str, ...] = ()) -> Program:
    """What a recording says about the program called `name`."""
    return Program(name, arguments, platform.python_version(), str(torch.__version__), __version__)


CONTEXT_LINES = 10
"""Lines kept above and below each of the user's own, so that a short script is kept as a whole."""
LONGEST_WHOLE_FILE = 2_000
"""Lines of a file of the program that is kept as a whole beside the log of its calls: rules read what encloses them."""

MOST_IMPORTED = 50
"""Files that are kept though nothing was recorded in them."""


def kept_lines(
    graphs: Iterable[Graph],
    calls: CallLog | None,
    error: ScriptError | None,
    compilations: Sequence[Compilation] = (),
    cuts: Sequence[GradientCut] = (),
) -> dict[str, dict[int, str]]:
    """The source lines that go into a capture: those that it refers to, and the user's own around them.

    By file and line number, without line ends. Files that cannot be read have no lines.
    """
    wanted: defaultdict[str, set[int]] = defaultdict(set)
    for graph in graphs:
        _want_sites(wanted, graph)
        for function in graph.custom_functions:
            wanted[function.file].update(range(function.first_line, function.last_line + 1))
    if calls is not None:
        _want_sites(wanted, calls)
        for file in calls.own_files:
            wanted[file].update(_whole_file(file))
        for definition in calls.definitions:
            wanted[definition.file].update(range(definition.first_line, definition.last_line + 1))
        for holder in (tensor.holder for tensor in calls.tensors if tensor.holder is not None):
            for file, line in holder.lines:
                wanted[file].update(_around(line))
    for cut in (*cuts, *(cut for compilation in compilations for cut in compilation.cuts)):
        wanted[cut.file].update(_around(cut.line))
    for compilation in compilations:
        wanted[compilation.file].update(_around(compilation.line))
        if compilation.broken is not None:
            wanted[compilation.broken.file].update(_around(compilation.broken.line))
    if error is not None and error.call_site is not None:
        file, line = error.call_site
        wanted[file].update(_around(line))
    kept = {file: _lines_of(file, numbers) for file, numbers in sorted(wanted.items())}
    return {file: lines for file, lines in kept.items() if lines}


def _imported(calls: CallLog, kept: Container[str]) -> tuple[dict[str, dict[int, str]], int]:
    """The lines of the program's modules of which none is kept, as others use what they define; and how many of these
    are left out, as they are too many, or too long."""
    files = [file for file in imported_beside(calls.own_files) if file not in kept]
    found = {file: _lines_of(file, set(_whole_file(file))) for file in files[:MOST_IMPORTED]}
    too_long = sum(not lines and bool(linecache.getlines(file)) for file, lines in found.items())
    return {file: lines for file, lines in found.items() if lines}, too_long + len(files[MOST_IMPORTED:])


def _want_sites(wanted: defaultdict[str, set[int]], holder: Graph | CallLog) -> None:
    for site in holder.call_sites:
        wanted[site.file].update([site.line] if site.is_library else _around(site.line))


def _around(line: int) -> range:
    return range(line - CONTEXT_LINES, line + CONTEXT_LINES + 1)


def _whole_file(file: str) -> range:
    """The numbers of all its lines; none if it is too long."""
    count = len(linecache.getlines(file))
    return range(1, count + 1 if count <= LONGEST_WHOLE_FILE else 1)


def _lines_of(file: str, numbers: set[int]) -> dict[int, str]:
    lines = linecache.getlines(file)
    return {number: lines[number - 1].rstrip("\r\n") for number in sorted(numbers) if 0 < number <= len(lines)}
