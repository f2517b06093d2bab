"""GV977."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.checkpoints.checkpoint_calls import CheckpointRun
from gradviz.analysis.rules.bases.checkpoints.states_read_again import ChangedState, StatesReadAgain
from gradviz.graph.query.own_line import own_lines_around


class CheckpointChangesState(Rule):
    """A checkpointed function changes what it reads, so its second run in backward computes something else.

    What it finds
    -------------
    A function under ``checkpoint()`` that reads an attribute, or another variable that outlives it, and gives it a new
    value afterwards: the memory of a recurrent layer, a running average that is subtracted, a list that grows. Also
    what it computes with a gradient in its first run only, and keeps. Where torch notices that the second run saved
    other tensors, it tells which state is why; if it finds none, it tells the line of the checkpoint. State that is
    only written, or that only its own update reads, and what is put back before backward, are left out.

    Why it matters
    --------------
    A checkpoint keeps its inputs only, and runs its function again in backward. That run reads what the first one left
    in the variable. Where shapes differ, torch raises a ``CheckpointError``; where they do not, nothing raises, the
    gradients are those of another forward, and the state goes on by two steps.

    Example
    -------
    from torch.utils.checkpoint import checkpoint

    class Memory(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(4, 4)
            self.memory = torch.zeros(2, 4)

        def forward(self, x):
            h = self.layer(x + self.memory).tanh()
            self.memory = h.detach()
            return h

    model = Memory()
    for step in range(3):
        h = checkpoint(model, torch.randn(2, 4), use_reentrant=False)
        h.square().sum().backward()

    Instead
    -------
    from torch.utils.checkpoint import checkpoint

    class Memory(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(4, 4)
            self.memory = torch.zeros(2, 4)

        def forward(self, x, memory):
            return self.layer(x + memory).tanh()

    model = Memory()
    for step in range(3):
        h = checkpoint(model, torch.randn(2, 4), model.memory, use_reentrant=False)
        model.memory = h.detach()
        h.square().sum().backward()
    """

    code = "GV977"
    name = "checkpoint_changes_state"
    severity = "error"

    def check(self, case: Case) -> Iterator[Finding]:
        states = StatesReadAgain(case)
        explained: ChangedState | None = None
        if _raised(case):
            failed = _failed_run(case, states)
            runs = states.checkpoints.runs
            of_line = [each for each in runs if failed is None or each.line == failed.line]
            # What failed shows the function around it; a layer beside it may have chosen what that function gets.
            explained = (None if failed is None else states.explaining([failed])) or states.explaining(of_line)
            if explained is not None:
                yield self._of_state(case, explained, raised=True)
            elif failed is not None:
                yield self._of_unknown(case, failed)
        for found in states.silent():
            if explained is None or found.written != explained.written:
                yield self._of_state(case, found, raised=False)

    def _of_state(self, case: Case, found: ChangedState, *, raised: bool) -> Finding:
        read, written = found.read.line, found.written.line
        if found.is_made_once:
            words = f"keeps what line {written} computes in {found.name}, and finds it there"
            fix = f"compute {found.name} before the checkpoint, and give it to the function as an argument"
        else:
            words = f"reads {found.name} at line {read} and changes it at line {written}: it reads the new value"
            fix = (
                f"give {found.name} to the function as an argument, let it return the new value, and assign that "
                "outside of the checkpoint"
            )
        end = "torch raises, as it saves other tensors" if raised else "its gradients are those of another forward"
        return self.finding(
            f"what the checkpoint at line {found.checkpoint.line} runs {words} when it runs again in backward; {end}",
            symptom="raises" if raised else "grad_wrong",
            why="a checkpoint keeps its arguments only, and computes the rest again in backward, from the state as it "
            "is then",
            fix=fix,
            location=found.written,
            symptom_location=_error_line(case) if raised else found.read if found.read != found.written else None,
        )

    def _of_unknown(self, case: Case, failed: CheckpointRun) -> Finding:
        return self.finding(
            "what this checkpoint runs saved other tensors when it ran again in backward; torch raises",
            symptom="raises",
            why="a checkpoint keeps its arguments only, and computes the rest again in backward",
            fix="let what it runs depend on its arguments and on parameters only: on no random numbers from outside of "
            "torch, and on nothing that changes until backward",
            location=failed.line,
            symptom_location=_error_line(case),
        )


_SAVED_OTHERS = (
    "Recomputed values for the following tensors have different",
    "A different number of tensors was saved",
)


def _raised(case: Case) -> bool:
    """Whether the program ended as a second run saved other tensors."""
    error = case.capture.error
    return (
        error is not None
        and error.type_name == "CheckpointError"
        and any(words in error.message for words in _SAVED_OTHERS)
    )


def _error_line(case: Case) -> Location | None:
    error = case.capture.error
    return None if error is None or error.call_site is None else Location(*error.call_site)


def _failed_run(case: Case, states: StatesReadAgain) -> CheckpointRun | None:
    """The run of the checkpoint that the failed operation belongs to."""
    for failed in reversed(case.backward_calls.raised):
        site = None if failed.node is None else failed.node.call_site
        sites = case.graphs[failed.graph].call_sites
        return states.checkpoints.run_of_lines([sites[each] for each in own_lines_around(sites, site)])
    return None
