"""GV405."""

from __future__ import annotations

import ast
import math
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import PurePath

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.backward_calls import BackwardCalls
from gradviz.analysis.dataflow.call_words import at_line, at_line_beside, location_of_call, operation
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.refused_calls import views_between
from gradviz.analysis.dataflow.tensor_words import names_of, tensor_words
from gradviz.analysis.finding import Finding, Location, NodeAt, location_of_line
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.copies.arrays_written import WrittenArray, line_that_wraps, written_arrays
from gradviz.analysis.rules.bases.sources.own_files import own_tree
from gradviz.analysis.rules.bases.sources.shared_arrays import line_that_returns_own, line_that_writes
from gradviz.analysis.sources.source_tree import called_name
from gradviz.graph.call_log import Call
from gradviz.graph.model import Graph, Node
from gradviz.graph.saved_tensors import SavedTensor


class DataWrittenUnseen(Rule):
    """Values that were saved for backward are overwritten through ``.data`` or NumPy, and torch does not notice.

    What it finds
    -------------
    A write through ``x.data``, or an assignment to it, after the forward has saved ``x`` (or a view of it) and before
    the backward computes with it. Tensors that ``from_numpy()`` or ``as_tensor()`` made of one array, which was changed
    in place between the forward that saved its values and the backward: as by an environment that returns the same
    array at each step.

    Why it matters
    --------------
    torch counts in-place changes and refuses a backward that would compute with changed values. ``.data`` has another
    counter, and NumPy has none, so torch refuses nothing, and the gradient is wrong without an error.

    Example
    -------
    weight = torch.randn(4, requires_grad=True)
    squashed = weight.sigmoid()
    squashed.data.mul_(0.5)
    squashed.sum().backward()

    Instead
    -------
    weight = torch.randn(4, requires_grad=True)
    squashed = weight.sigmoid()
    squashed = squashed * 0.5
    squashed.sum().backward()
    """

    code = "GV405"
    name = "data_access"
    severity = "error"
    needs = ("versions of tensors", "saved tensors")

    def check(self, case: Case) -> Iterator[Finding]:
        told: set[int | None] = set()
        for found in unseen_writes(case.backward_calls):
            if _is_of_trained(case, found) and not _is_by_gradcheck(case, found.write):
                told.add(case.dataflow.log.calls[found.write].call_site)
                yield self._explain(case, case.dataflow, found)
        for write, tensor, backward in writes_beside_the_graph(case.backward_calls):
            if case.dataflow.log.calls[write].call_site not in told and not _is_by_gradcheck(case, write):
                told.add(case.dataflow.log.calls[write].call_site)
                yield self._beside(case, write, tensor, backward)
        yield from self._through_arrays(case)

    def _through_arrays(self, case: Case) -> Iterator[Finding]:
        found: dict[Location | None, list[WrittenArray]] = defaultdict(list)
        for each in written_arrays(case):
            found[line_that_wraps(case, each)].append(each)
        for location, written in found.items():
            yield self._through_array(case, location, written)

    def _through_array(self, case: Case, location: Location | None, written: list[WrittenArray]) -> Finding:
        flow, first = case.dataflow, written[0]
        name, saver = tensor_words(flow, first.tensor), operation(flow.log.calls[first.saver])
        own = line_that_returns_own(case)
        writes = None if own is None else line_that_writes(case, own)
        saved_at = location_of_call(flow, first.saver)
        backwards = len({each.backward for each in written})
        count = f"{backwards:,} backward calls compute" if backwards > 1 else "backward computes"
        return self.finding(
            f"{saver}{at_line_beside(saved_at, location)} saved {name} for backward, which has the memory of a NumPy "
            f"array, and that array was changed in place before: {count} with the values of a later step, and the "
            "gradient is wrong",
            symptom="grad_wrong",
            why="from_numpy() and as_tensor() do not copy, and torch does not see what is written into the array"
            + ("" if own is None else f"; {PurePath(own.file).name}:{own.line} returns its own array")
            + ("" if writes is None else f", which line {writes.line} changes in place"),
            fix="make the tensor of a copy: torch.tensor(array), or torch.from_numpy(array.copy()); or return a copy "
            "where the array is handed out",
            location=location,
            symptom_location=location_of_call(flow, first.backward if saved_at == location else first.saver),
            op=first.node.name,
            tensors=names_of(flow, case.backward_calls.reached(first.backward).above(first.saver).leaves),
            nodes=(NodeAt(first.graph, first.node.id),),
            evidence={"slot": first.saved.slot, "saved_by": saver, "backward_calls": backwards},
        )

    def _beside(self, case: Case, write: int, tensor: int, backward: int) -> Finding:
        flow = case.dataflow
        name = tensor_words(flow, tensor)
        line = flow.line_of(write)
        leaves = sorted(case.histories.reached_by.get(backward, ()))
        return self.finding(
            f"a write through .data{at_line(line)} changes {name}, and autograd does not see it: the gradient is "
            "that of the values before",
            symptom="grad_wrong",
            why=f"{name} was computed with a history, and what .data changes is no part of it",
            fix="make a new tensor instead of the write: x = x * 0.5, not x.data.mul_(0.5)",
            location=location_of_line(line),
            symptom_location=location_of_call(flow, backward),
            tensors=names_of(flow, leaves),
        )

    def _explain(self, case: Case, flow: Dataflow, found: UnseenWrite) -> Finding:
        calls, line = flow.log.calls, flow.line_of(found.write)
        saver, saved = operation(calls[found.saver]), tensor_words(flow, found.tensor)
        reached = case.backward_calls.reached(found.backward).above(found.saver)
        return self.finding(
            f"{saved} was saved for backward by {saver}{at_line(flow.line_of(found.saver))}, "
            f"but a write through .data{at_line(line)} overwrites it: backward does not notice, and "
            "its gradient is wrong",
            symptom="grad_wrong",
            why=f"the derivative of {saver} is computed from the values that it saved; .data hides that they changed",
            fix="make a new tensor instead of the write, or write after backward(); under torch.no_grad() and without "
            ".data torch notices such a write and refuses",
            location=location_of_line(line),
            symptom_location=location_of_call(flow, found.backward),
            op=case.graphs[found.node.graph].nodes[found.node.node].name,
            tensors=names_of(flow, reached.leaves),
            nodes=(found.node,),
            evidence={"slot": found.slot, "saved_by": saver},
        )


def _is_by_gradcheck(case: Case, write: int) -> bool:
    """Whether ``torch.autograd.gradcheck()`` moves an input, to see how the result follows."""
    line = case.dataflow.line_of(write)
    tree = None if line is None else own_tree(case, line.file)
    statement = None if tree is None or line is None else tree.statement_at(line.line)
    return statement is not None and any(called_name(each) in _COMPARE for each in ast.walk(statement))


_COMPARE = frozenset({"gradcheck", "gradgradcheck"})


def _is_of_trained(case: Case, found: UnseenWrite) -> bool:
    """Whether the wrong gradient goes to something that is trained, or that is no parameter: those of a module to which
    another one gives its weights are of no use, right or wrong."""
    leaves = case.backward_calls.reached(found.backward).above(found.saver).leaves
    trained = case.histories.trained
    return not (
        trained
        and trained.isdisjoint(leaves)
        and all(case.dataflow.log.tensors[each].role == "parameter" for each in leaves)
    )


# Writes through ``.data`` into what a graph has saved: torch's version counter does not see them.
#
# ``x.data`` shares the memory of ``x`` and has a version counter of its own. So the check that refuses a backward after
# an in-place change finds nothing changed, and the gradient is computed from the new values.

_Nodes = dict[tuple[int, int], Node]
"""By their numbers in the order of the forward."""

_READ, _ASSIGN = "torch.Tensor.data", "torch.Tensor.data.__set__"


class UnseenWrite(Struct, frozen=True):
    """A write between a call that saved a tensor, and the backward that needs it. Calls are numbers of the log."""

    write: int
    saver: int
    tensor: int
    slot: str
    node: NodeAt
    backward: int


def unseen_writes(backward_calls: BackwardCalls) -> Iterator[UnseenWrite]:
    """One write for each line that writes, if a recorded graph shows what was saved."""
    calls = backward_calls.flow.log.calls
    nodes_of: Callable[[int], _Nodes] = cache(lambda graph: _by_key(backward_calls.graphs[graph]))
    reported: set[int | None] = set()
    for write, target in _writes(backward_calls.flow):
        if calls[write].call_site not in reported:
            found = next(_savers(backward_calls, nodes_of, write, target), None)
            if found is not None:
                reported.add(calls[write].call_site)
                yield found


def writes_beside_the_graph(backward_calls: BackwardCalls) -> Iterator[tuple[int, int, int]]:
    """Writes into results with a history that a backward goes through: the call, the tensor, and that backward."""
    flow = backward_calls.flow
    for write, target in _writes(flow):
        made = flow.newest_producer(target, write)
        is_computed = made is not None and any(
            use.tensor == target and use.has_grad_fn for use in flow.log.calls[made].outputs
        )
        if _is_told_by_a_function(flow, write, target):
            continue
        for backward in backward_calls.next_after(write, 1) if is_computed else ():
            members = backward_calls.reached(backward).members
            if any(user in members for user in flow.users(target, after=write)):
                yield write, target, backward


def _is_told_by_a_function(flow: Dataflow, write: int, target: int) -> bool:
    """Whether a custom function writes into what it returns: its backward is that of the write."""
    inside = flow.log.calls[write].inside
    function = None if inside is None else flow.log.calls[inside]
    return (
        function is not None
        and function.kind == "custom"
        and any(flow.memory_of(use.tensor) == flow.memory_of(target) for use in function.outputs)
    )


def _writes(flow: Dataflow) -> Iterator[tuple[int, int]]:
    """Calls that change the memory of tensors without increasing their version counter, with each of these tensors."""
    if not (flow.rows_of_function(_READ) or flow.rows_of_function(_ASSIGN)):
        return  # most programs never use .data, and change thousands of tensors
    for row in sorted({*flow.rows_that_change, *flow.rows_of_function(_ASSIGN)}):
        call = flow.log.calls[row]
        if call.raised is None:
            yield from ((row, target) for target in _written_unseen(flow, row, call))


def _written_unseen(flow: Dataflow, row: int, call: Call) -> Iterator[int]:
    if call.function == _ASSIGN:
        yield call.inputs[0].tensor
        return
    for use in call.changed:
        views = views_between(flow, use.tensor, row)
        tensors = (use.tensor, *(base for view in views for base in _outputs(flow, view)))
        for maker in (flow.first_producer(tensor, row) for tensor in tensors):
            if maker is not None and flow.log.calls[maker].function == _READ:
                yield flow.log.calls[maker].inputs[0].tensor


def _outputs(flow: Dataflow, row: int) -> list[int]:
    return [use.tensor for use in flow.log.calls[row].outputs]


def _savers(
    backward_calls: BackwardCalls, nodes_of: Callable[[int], _Nodes], write: int, target: int
) -> Iterator[UnseenWrite]:
    """Calls before the write that saved the tensor, or one over the same memory, for a backward after it."""
    flow = backward_calls.flow
    shared = set(flow.sharing_memory(target))
    for backward in backward_calls.next_after(write, _MAX_BACKWARDS):
        graph = backward_calls.graph_of(backward)
        if graph is None:
            continue
        for saver in backward_calls.reached(backward).rows:
            for tensor, saved, node in _saved_by(flow, nodes_of(graph), saver) if saver < write else ():
                if tensor in shared and not _may_lie_beside(flow, write, target, tensor):
                    yield UnseenWrite(write, saver, tensor, saved.slot, NodeAt(graph, node.id), backward)


_MAX_BACKWARDS = 2


def _may_lie_beside(flow: Dataflow, write: int, target: int, saved: int) -> bool:
    """Whether a write to some elements of a tensor, and a part of it that was saved, may have none in common: a solver
    reads the stages that it has, and writes the next one."""
    call, whole = flow.log.calls[write], flow.log.tensors[target].facts.elements
    is_whole = flow.log.tensors[saved].facts.elements == whole
    if is_whole or call.function != _WRITES_ELEMENTS or flow.memory_of(saved) != flow.memory_of(target):
        return False
    made = flow.first_producer(saved, write)
    taken = {} if made is None else flow.log.calls[made].scalars
    return not taken or taken != call.scalars


_WRITES_ELEMENTS = "torch.Tensor.__setitem__"


def _by_key(graph: Graph) -> _Nodes:
    return {node.key: node for node in graph.nodes if node.key is not None}


def _saved_by(flow: Dataflow, nodes: _Nodes, saver: int) -> Iterator[tuple[int, SavedTensor, Node]]:
    """Tensors of a call that its nodes saved: as large as what is in the slot, on the side that the slot is for."""
    call = flow.log.calls[saver]
    for node in (nodes[key] for key in call.node_keys if key in nodes):
        for saved in node.saved:
            uses = call.outputs if "result" in saved.slot or saved.slot == "output" else call.inputs
            for use in uses if saved.tensor is not None and saved.kept_in == "slot" else ():
                facts = flow.log.tensors[use.tensor].facts
                if saved.tensor is not None and _count(facts.shape) == _count(saved.tensor.shape) != 1:
                    yield use.tensor, saved, node


def _count(shape: tuple[int | str, ...]) -> int:
    return math.prod(size for size in shape if isinstance(size, int))
