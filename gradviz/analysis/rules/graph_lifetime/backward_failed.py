"""GV970."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import shorten

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.backward_calls import RaisedBackward
from gradviz.analysis.dataflow.call_words import at_line, location_of_call
from gradviz.analysis.dataflow.refused_calls import calls_that_ended
from gradviz.analysis.dataflow.tensor_words import names_of
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.gradients.asked_in_engine import line_that_detaches
from gradviz.analysis.rules.bases.sources.own_files import own_tree
from gradviz.capture.capture import Capture, ScriptError
from gradviz.graph.call_log import words_of_error
from gradviz.graph.query.operation_names import autograd_name


class BackwardFailed(Rule):
    """A backward call raised and ended the program, and no other rule knows why.

    What it finds
    -------------
    A call of ``backward()`` or ``torch.autograd.grad()`` that raised an exception with which the program ended, where
    none of the other rules names the cause. It repeats what was said, and names the operation whose backward failed,
    with the line of its forward. Exceptions that the program itself raises, memory that ran out, and jobs of several
    processes are left out.

    Why it matters
    --------------
    The traceback ends in torch's engine: it names the line of the call, and neither the operation whose backward
    failed nor the line that made it.

    Example
    -------
    class Turn(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, matrix):
            ctx.save_for_backward(matrix)
            return x @ matrix

        @staticmethod
        def backward(ctx, grad):
            (matrix,) = ctx.saved_tensors
            return grad @ matrix[:2], None

    layer = torch.nn.Linear(4, 3)
    Turn.apply(layer(torch.randn(5, 4)), torch.eye(3)).square().mean().backward()

    Instead
    -------
    class Turn(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, matrix):
            ctx.save_for_backward(matrix)
            return x @ matrix

        @staticmethod
        def backward(ctx, grad):
            (matrix,) = ctx.saved_tensors
            return grad @ matrix.T, None

    layer = torch.nn.Linear(4, 3)
    Turn.apply(layer(torch.randn(5, 4)), torch.eye(3)).square().mean().backward()
    """

    code = "GV970"
    name = "backward_failed"
    severity = "error"
    only_repeats_error = True

    def check(self, case: Case) -> Iterator[Finding]:
        error = case.capture.error
        if error is None or not _is_of_torch(case, error):
            return
        flow = case.dataflow
        raised = calls_that_ended(case.capture, flow)
        # A call that torch refuses before its engine begins is only logged as one of a function.
        begun = [row for row in raised if flow.log.calls[row].kind == "backward"]
        refused = [row for row in raised if flow.log.calls[row].function.endswith(_BACKWARD)]
        for row in (begun or refused)[-1:]:
            failed = next((each for each in case.backward_calls.raised if each.call is flow.log.calls[row]), None)
            yield self._finding(case, row, error, failed)

    def _finding(self, case: Case, row: int, error: ScriptError, failed: RaisedBackward | None) -> Finding:
        location = location_of_call(case.dataflow, row)
        node = None if failed is None else failed.node
        made = None if failed is None or node is None else case.location_of(failed.graph, node.id)
        own = None if error.call_site is None else Location(*error.call_site)
        inner = own if own != location else None
        cut = _line_that_detaches(case, inner) if _DETACHED in error.message else None
        where = "" if node is None else f" in {autograd_name(node)}, whose forward ran{at_line(made)}"
        which = "this backward" if inner is None else f"the backward{at_line(location)}"
        said = shorten(words_of_error(error.type_name, error.message), _LONGEST, placeholder="...")
        return self.finding(
            f"what backward runs{at_line(inner)} asks for the gradient of what is detached here, which has none, and "
            f"ended the program: {said}"
            if cut is not None
            else f"{which} raised{where}{',' if where else ''} and ended the program; cause not found: {said}",
            symptom="raises",
            why="no parameter gets a gradient from a backward that raises, and no step follows",
            fix="let it require grad: .detach().requires_grad_()"
            if cut is not None
            else "mend this line, which that backward runs"
            if inner is not None
            else f"look at what the operation{at_line(made)} takes, and whether it has a derivative"
            if made is not None
            else "look at what it starts from, and which arguments it is given",
            location=cut or inner or location,
            symptom_location=inner if cut is not None else location if inner is not None else made,
            tensors=_without_path(case, row),
            op=None if node is None else node.name,
            nodes=() if failed is None or node is None else case.nodes_in(failed.graph, (node.id,)),
        )


def _line_that_detaches(case: Case, inner: Location | None) -> Location | None:
    tree = None if inner is None else own_tree(case, inner.file)
    line = None if inner is None or tree is None else line_that_detaches(tree, inner.line)
    return None if inner is None or line is None else Location(inner.file, line)


_DETACHED = "does not require grad"
_BACKWARD = (".Tensor.backward", "torch.autograd.backward", "torch.autograd.grad")
_OF_NOBODY = frozenset({"KeyboardInterrupt", "SystemExit", "GeneratorExit", "OutOfMemoryError", "MemoryError"})
_NO_MEMORY = ("out of memory", "allocate memory")
_RAISES = ("raise", "assert")
_LONGEST = 200
_NO_PATH = ("does not require grad", "not have been used in the graph")


def _without_path(case: Case, row: int) -> tuple[str, ...]:
    """If torch found no path to them: the names of the tensors that should get a gradient, of which other findings may
    tell why they get none."""
    call = case.dataflow.log.calls[row]
    if not any(words in (call.raised or "") for words in _NO_PATH):
        return ()
    asked = [use.tensor for use in call.asked]
    return names_of(case.dataflow, asked or sorted(case.histories.trained))


def _is_of_torch(case: Case, error: ScriptError) -> bool:
    """Whether torch raised it, as far as is known: the program's own exceptions say what they mean."""
    own = None if error.call_site is None else Location(*error.call_site)
    line = (case.source_line(own) or "").split(maxsplit=1)
    return (
        error.type_name not in _OF_NOBODY
        and not any(words in error.message for words in _NO_MEMORY)
        and not (line and line[0].startswith(_RAISES))
        and not _is_one_of_many(case.capture)
    )


def _is_one_of_many(capture: Capture) -> bool:
    """Whether other processes may have failed first: GV816 tells which."""
    return capture.rank is not None and capture.rank.world_size > 1
