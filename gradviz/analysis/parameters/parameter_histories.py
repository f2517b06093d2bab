"""What happened to every parameter in one run: who trains it, what used it, which backward calls reached it.

All of it is read from the log of calls, for parameters of modules and for plain tensors that require grad.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache, cached_property
from itertools import chain

from gradviz.analysis.dataflow.call_words import is_in_library, plain_name
from gradviz.analysis.dataflow.custom_functions import is_argument
from gradviz.analysis.dataflow.dataflow import Dataflow, passes_on
from gradviz.analysis.dataflow.tensor_words import tensor_words, together
from gradviz.analysis.gradients.received_gradients import ReceivedGradients
from gradviz.graph.call_log import Call, CallLog, LoggedTensor, TensorUse
from gradviz.graph.model import CallSite

_COMPUTE = frozenset({"operation", "custom", "compiled"})
_MIN_MOVES = 2
"""Changes by hand, with backward calls between them."""
_MAX_LOOKS = 20
"""The limit of visits to each call, on average, for all backward calls: graphs that persist over steps overlap."""
_MAX_LOSSES_OF_A_LINE = 4
"""More sets of parameters that one line trains are those that happen to be chosen, as among experts."""


class ParameterHistories:
    """Answers questions on the parameters of one log. Tensors, calls and optimizers are identified by their numbers."""

    def __init__(self, flow: Dataflow, received: ReceivedGradients) -> None:
        self.flow = flow
        self.log = flow.log
        self.received = received
        self._computed_for = cache(self._calls_behind)  # rules ask for each use of each parameter at each step

    # -- names and makers ----------------------------------------------------------------------------------------

    def tensor(self, number: int) -> LoggedTensor:
        return self.log.tensors[number]

    def name(self, number: int) -> str:
        """Its name in findings."""
        return tensor_words(self.flow, number)

    def together(self, numbers: Iterable[int]) -> str:
        """The names of several parameters for findings: ``a.weight, a.bias and 3 more``."""
        return together(dict.fromkeys(map(self.name, numbers)))

    def parameters_below(self, path: str) -> list[int]:
        """Parameters whose names start with the path of a module."""
        names, numbers = self._by_name
        start, end = bisect_left(names, f"{path}."), bisect_left(names, f"{path}/")
        return numbers[start:end]

    @cached_property
    def _by_name(self) -> tuple[list[str], list[int]]:
        named = sorted((self.name(number), number) for number in self.log.parameters)
        return [name for name, _ in named], [number for _, number in named]

    def made_by(self, number: int) -> int | None:
        """The call that made its memory, or the first one that used it."""
        tensor = self.tensor(number)
        makers = [self.tensor(shared).producer for shared in self.flow.sharing_memory(number)]
        known = [row for row in (*makers, tensor.first_seen) if row is not None]
        return min(known, default=None)

    def line_where_made(self, number: int) -> CallSite | None:
        row = self.made_by(number)
        return None if row is None else self.flow.line_of(row)

    @cached_property
    def gradient_tensors(self) -> dict[int, list[int]]:
        """By leaf: the tensors that were its ``.grad`` and that some call took."""
        found: dict[int, list[int]] = defaultdict(list)
        for number, tensor in enumerate(self.log.tensors):
            if tensor.gradient_of is not None:
                found[tensor.gradient_of].append(number)
        return dict(found)

    @cached_property
    def leaves_of_gradients(self) -> dict[int, int]:
        """By tensor that was the ``.grad`` of a leaf, or that the program made it: that leaf."""
        assigned = (call.inputs for call in self.log.calls if call.function == GIVES_A_GRADIENT)
        found = {inputs[1].tensor: inputs[0].tensor for inputs in assigned if len(inputs) > 1}
        tensors = enumerate(self.log.tensors)
        found.update((number, tensor.gradient_of) for number, tensor in tensors if tensor.gradient_of is not None)
        return found

    def changes_gradients(self, row: int) -> bool:
        """Whether a call changes a gradient in place, perhaps by another name: ``p.grad.data.mul_(0.5)``."""
        return any(self.flow.memory_of(use.tensor) in self._gradient_memory for use in self.log.calls[row].changed)

    @cached_property
    def _gradient_memory(self) -> frozenset[int]:
        tensors = enumerate(self.log.tensors)
        return frozenset(self.flow.memory_of(number) for number, each in tensors if each.gradient_of is not None)

    # -- optimizers ----------------------------------------------------------------------------------------------

    @cached_property
    def trained(self) -> frozenset[int]:
        """Tensors that an optimizer has, or had."""
        return frozenset().union(*self._held)

    @cached_property
    def learned(self) -> frozenset[int]:
        """Tensors that an optimizer has, or had, and leaves that the program itself changes between the backward calls
        that reach them, as in ``p -= rate * p.grad``."""
        reaching = defaultdict[int, list[int]](list)
        for row, leaves in self.reached_by.items():
            for number in leaves - self.trained:
                reaching[number].append(row)
        by_hand = (number for number, rows in reaching.items() if self._is_moved_by_hand(number, rows))
        return self.trained.union(by_hand)

    def _is_moved_by_hand(self, number: int, reaching: list[int]) -> bool:
        if len(reaching) < _MIN_MOVES:
            return False
        given = {*self.flow.data_replacements(number), *self._changes_by_others(number, reaching[0])}
        return len({bisect_left(reaching, row) for row in given} - {0}) >= _MIN_MOVES

    def _changes_by_others(self, number: int, since: int) -> list[int]:
        """The calls that change it by another tensor, as ``add_`` does, and not as ``clamp_`` and ``zero_`` do."""
        calls = self.log.calls
        rows = self.flow.changes(number, since, len(calls))
        return [row for row in rows if calls[row].kind == "operation" and len(calls[row].inputs) > 1]

    @cached_property
    def _held(self) -> tuple[frozenset[int], ...]:
        """For each optimizer, the tensors that it holds at the end and those that it was given at any time."""
        return tuple(
            frozenset(
                [
                    *(tensor for group in optimizer.groups for tensor in group),
                    *(use.tensor for row in self.given_at(number) for use in self.log.calls[row].inputs),
                ]
            )
            for number, optimizer in enumerate(self.log.optimizers)
        )

    def held_by(self, optimizer: int) -> frozenset[int]:
        """The tensors that an optimizer holds at the end, or was given at any time."""
        return self._held[optimizer]

    def given_at(self, optimizer: int) -> list[int]:
        """The calls that gave an optimizer its groups; the first ones belong to its constructor."""
        return self._given_by_optimizer.get(optimizer, [])

    def first_given(self, optimizer: int) -> dict[int, tuple[int, TensorUse]]:
        """By tensor of an optimizer: the first of these calls, and the state of the tensor then."""
        return self._first_given[optimizer]

    @cached_property
    def _first_given(self) -> list[dict[int, tuple[int, TensorUse]]]:
        found: list[dict[int, tuple[int, TensorUse]]] = [{} for _ in self.log.optimizers]
        for optimizer, first in enumerate(found):
            for row in self.given_at(optimizer):
                for use in self.log.calls[row].inputs:
                    first.setdefault(use.tensor, (row, use))
        return found

    def optimizers_of(self, number: int) -> tuple[int, ...]:
        """Optimizers that hold it, or were given it."""
        return self._holders.get(number, ())

    def is_stepped_after(self, number: int, row: int) -> bool:
        """Whether an optimizer that holds it, or was given it, steps after a call."""
        lasts = (self.steps_by_optimizer.get(each, [])[-1:] for each in self.optimizers_of(number))
        return any(step > row for last in lasts for step in last)

    @cached_property
    def _holders(self) -> dict[int, tuple[int, ...]]:
        found: dict[int, list[int]] = defaultdict(list)
        for index, held in enumerate(self._held):
            for number in held:
                found[number].append(index)
        return {number: tuple(indices) for number, indices in found.items()}

    @cached_property
    def steps(self) -> tuple[int, ...]:
        """Calls of ``step()``."""
        return self.flow.rows_of_kind("step")

    @cached_property
    def steps_by_optimizer(self) -> dict[int | None, list[int]]:
        """The same for each optimizer: a program may make one for every step."""
        return self._by_optimizer(self.steps)

    @cached_property
    def _given_by_optimizer(self) -> dict[int | None, list[int]]:
        return self._by_optimizer(self.flow.rows_of_kind("add_param_group"))

    def _by_optimizer(self, rows: Iterable[int]) -> dict[int | None, list[int]]:
        found: dict[int | None, list[int]] = defaultdict(list)
        for row in rows:
            found[self.log.calls[row].optimizer].append(row)
        return found

    @cached_property
    def stepped_by_hooks(self) -> frozenset[int]:
        """Leaves that an optimizer steps during a backward."""
        steps = (call for row in self.steps if self._is_in_backward(call := self.log.calls[row]))
        return frozenset(use.tensor for step in steps for use in step.inputs)

    @cached_property
    def backward_calls(self) -> tuple[int, ...]:
        """Calls of ``backward()`` and ``grad()``, except those inside of another one."""
        calls = self.log.calls
        return tuple(row for row in self.flow.rows_of_kind("backward") if not self._is_in_backward(calls[row]))

    def backward_after(self, row: int) -> int | None:
        """The next of these behind a call."""
        index = bisect_right(self.backward_calls, row)
        return self.backward_calls[index] if index < len(self.backward_calls) else None

    @cached_property
    def last_backward_of_each_line(self) -> tuple[int, ...]:
        """The last ``backward()`` of each line that calls one, and that did not fail; the last before which all calls
        were noted, if there is one.

        A line that is called for several losses, one after the other, counts once for each set of parameters that they
        train, if these are few.
        """
        calls = self.log.calls
        lines: dict[int | None, dict[frozenset[int], list[int]]] = defaultdict(lambda: defaultdict(list))
        for row, leaves in self.reached_by.items():
            if calls[row].function.endswith(".backward"):
                lines[calls[row].call_site][leaves & self.trained].append(row)
        last: list[int] = []
        for by_leaves in lines.values():
            groups = list(by_leaves.values())
            if len(groups) > _MAX_LOSSES_OF_A_LINE:
                groups = [sorted(chain(*groups))]
            for rows in groups:
                noted = [row for row in rows if not calls[row].misses_calls]
                last.append((noted or rows)[-1])
        return tuple(last)

    def backward_through(self, row: int) -> int | None:
        """The next backward after a call, if it goes through what the call computed, and a step follows it."""
        backward = self.backward_after(row)
        if backward is None or not self.flow.has_step_after(backward):
            return None
        return backward if row in self._computed_for(backward) else None

    def _calls_behind(self, backward: int) -> frozenset[int]:
        """The calls since the backward before that computed what a backward call starts from."""
        index = bisect_left(self.backward_calls, backward)
        since = self.backward_calls[index - 1] if index else 0
        roots = self.log.calls[backward].roots
        return frozenset(row for use in roots for row in self.flow.ancestors(use.tensor, backward, since))

    def backward_of_step(self, step: int) -> int | None:
        """The last backward before a step, if no other step came after it."""
        index = bisect_left(self.backward_calls, step)
        newest = self.backward_calls[index - 1] if index else None
        return newest if newest is not None and newest >= self.flow.step_before(step) else None

    @cached_property
    def last_trained_backward_of_each_line(self) -> tuple[int, ...]:
        """Those of them that a step of an optimizer follows."""
        return tuple(row for row in self.last_backward_of_each_line if self.flow.has_step_after(row))

    @cached_property
    def reads_of_no_gradient(self) -> tuple[int, ...]:
        """Calls that read a ``.grad`` that was None, after a backward call that did not fail."""
        calls = self.log.calls
        first = next((row for row in self.backward_calls if calls[row].raised is None), len(calls))
        return tuple(row for row in range(first + 1, len(calls)) if calls[row].function == "torch.Tensor.grad")

    def _is_in_backward(self, call: Call) -> bool:
        return call.inside is not None and self.log.calls[call.inside].kind == "backward"

    # -- use and reach -------------------------------------------------------------------------------------------

    def forward_uses(self, number: int, after: int = -1) -> tuple[int, ...]:
        """Calls that computed something from it, not those that fill, flag or inspect it."""
        return tuple(row for row in self.flow.users(number, after) if _computes_from(self.log.calls[row], number))

    @property
    def has_compiled_code(self) -> bool:
        """Whether some of it ran in compiled code, and its calls are not known."""
        calls = self.flow.log.calls
        return any(calls[row].node_count and not calls[row].is_opened for row in self.flow.rows_of_kind("compiled"))

    @cached_property
    def has_unseen_code(self) -> bool:
        """Whether the program computed with tensors of a graph that no known call made, but TorchScript, or other code
        below Python."""
        uses = (use for row in self.flow.rows_of_kind("operation") for use in self.log.calls[row].inputs)
        return any(
            use.has_grad_fn and not self.flow.producers(use.tensor) and self.tensor(use.tensor).gradient_of is None
            for use in uses
        )

    def is_used(self, number: int) -> bool:
        """Whether anything known was computed from it, including uses on other threads by a module that has it."""
        return self.tensor(number).is_used_elsewhere or bool(self.forward_uses(number))

    def is_only_copied(self, number: int) -> bool:
        """Whether all that was computed from it are values of other parameters and buffers, without a gradient, as
        those of a target network that follows it."""
        calls = [self.log.calls[row] for row in self.forward_uses(number)]
        return bool(calls) and all(
            call.grad_mode != "enabled"
            and bool(call.outputs)
            and all(use.is_leaf and self.tensor(use.tensor).role != "tensor" for use in call.outputs)
            for call in calls
        )

    def is_used_without_gradient(self, number: int) -> bool:
        """Whether something was computed from what ``detach()`` or ``.data`` gave of it.

        What ``copy.deepcopy()`` does is no such use: a copy for which it calls ``.data.clone()`` is a leaf of its own.
        """
        rows = (row for row in self.flow.users(number) if self.log.calls[row].function in _LOOKS_ONLY)
        copies = ((use.tensor, row) for row in rows for use in self.log.calls[row].outputs)
        return any(
            passes_on(self.log.calls[user]) and self.log.calls[user].outputs and not self.log.calls[user].changed
            for copy, row in copies
            for user in self.flow.users(copy, row)
            if not self._is_deepcopy(row, user)
        )

    def _is_deepcopy(self, row: int, user: int) -> bool:
        is_one_line = self.log.calls[row].call_site == self.log.calls[user].call_site
        return is_one_line and plain_name(self.log.calls[user].function) == "clone" and is_in_library(self.flow, user)

    @cached_property
    def reached_by(self) -> dict[int, frozenset[int]]:
        """For each backward call that did not fail, the leaves that its gradient reaches.

        Empty if graphs overlap so much that the search would take too long.
        """
        found: dict[int, frozenset[int]] = {}
        budget = _MAX_LOOKS * (len(self.log.calls) + 1_000)
        for row in self.backward_calls:
            if self.log.calls[row].raised is None:
                found[row], looks = self._leaves_of(row)
                budget -= looks
                if budget < 0:
                    return {}
        return found

    def _leaves_of(self, backward: int) -> tuple[frozenset[int], int]:
        call = self.log.calls[backward]
        roots = [use.tensor for use in call.roots if use.requires_grad]
        wanted = frozenset(use.tensor for use in call.asked)
        leaves, looks = self.live_leaves(roots, backward)
        recomputed = {
            use.tensor
            for row in self._inside_backward.get(backward, ())
            for use in self.log.calls[row].inputs
            if use.is_live_leaf and self.tensor(use.tensor).role == "parameter"
        }
        leaves = leaves | recomputed
        return (leaves & wanted if wanted else leaves), looks

    @cached_property
    def _inside_backward(self) -> dict[int, list[int]]:
        inside: dict[int, list[int]] = {}
        for number, call in enumerate(self.log.calls):
            if call.kind in _COMPUTE and call.inside is not None:
                inside.setdefault(call.inside, []).append(number)
        return inside

    def live_leaves(
        self, roots: Iterable[int], before: int, *, without: int | None = None
    ) -> tuple[frozenset[int], int]:
        """The leaves that a gradient at `roots` reaches, `without` a call, and the number of visited calls."""
        leaves: set[int] = set()
        seen: set[int] = set() if without is None else {without}
        waiting: list[int] = []
        for root in roots:
            waiting += self._live_makers(root, before, seen)
        while waiting:
            row = waiting.pop()
            call = self.log.calls[row]
            for use in call.inputs if call.kind != "custom" else filter(is_argument, call.inputs):
                if use.is_live_leaf:
                    leaves.add(use.tensor)
                elif use.requires_grad:
                    waiting += self._live_makers(use.tensor, row, seen)
        return frozenset(leaves), len(seen)

    def _live_makers(self, tensor: int, before: int, seen: set[int]) -> Iterator[int]:
        for row in self.flow.producers(tensor, before):
            if row not in seen and any(use.tensor == tensor and use.has_grad_fn for use in self.log.calls[row].outputs):
                seen.add(row)
                yield row

    @cached_property
    def reached(self) -> frozenset[int]:
        """Leaves that got a gradient: from a backward call, as the calls or their ``.grad`` show, or from the program
        itself, such as the gradient of a copy or a mean over samples."""
        by_calls: set[int] = set().union(*self.reached_by.values())
        given = (call.inputs for call in self.log.calls if call.function == GIVES_A_GRADIENT)
        by_hand = (uses[0].tensor for uses in given if len(uses) > 1)  # ``p.grad = None`` gives none
        return frozenset(by_calls.union(by_hand, (leaf for leaf in self.log.parameters if leaf in self.received)))

    @cached_property
    def without_influence(self) -> frozenset[int]:
        """Trained leaves to which calls lead from a loss, and to which no gradient came, in a program that
        differentiates derivatives: the loss depends on one that does not depend on them, as on the last bias of a
        network."""
        calls = self.log.calls
        if not any(calls[row].scalars.get("create_graph") for row in self.flow.rows_of_kind("backward")):
            return frozenset()
        ends = ((number, self.tensor(number).end) for number in self.reached & self.trained)
        return frozenset(
            number
            for number, end in ends
            if end is not None and number not in self.received and self.was_stepped_on(number)
        )

    def was_stepped_on(self, number: int) -> bool:
        """Whether a step came after the last backward that reached it: else its last gradient was never used."""
        last, step = self.last_reach.get(number), self.last_step.get(number)
        return last is not None and step is not None and last < step

    @cached_property
    def last_step(self) -> dict[int, int]:
        """By leaf: the last step of an optimizer that holds it."""
        return {use.tensor: row for row in self.steps for use in self.log.calls[row].inputs}

    def is_only_a_successor(self, number: int) -> bool:
        """Whether a trained parameter had its name before, and no backward reached this one: the program has loaded or
        made a model again after training."""
        tensor = self.tensor(number)
        is_idle = tensor.role == "parameter" and number not in self.trained and number not in self.reached
        return is_idle and not self._names_of_trained.isdisjoint(tensor.names)

    @cached_property
    def _names_of_trained(self) -> frozenset[str]:
        return frozenset(name for number in self.trained & self.reached for name in self.tensor(number).names)

    # -- not trained ---------------------------------------------------------------------------------------------

    @cached_property
    def untrained(self) -> tuple[int, ...]:
        """Leaves that get gradients but never change: no optimizer has them, and no call writes to them or gives
        them other memory, as a network does that makes the weights of another one.

        Only writes after the first gradient count, because earlier writes set the initial values. Empty if nothing is
        trained at all. A copy whose gradients are passed to a trained leaf needs no step.
        """
        first = next(iter(self.reached_by), None)
        if first is None:
            return ()
        # Copies with a history, as meta learning puts in the place of parameters, hand their gradients on.
        leaves = (n for n in sorted(self.reached - self.trained) if self.tensor(n).is_leaf)
        candidates = [n for n in leaves if not self._is_changed(n, self.first_reach.get(n, first))]
        is_training = bool(self.steps) or len(candidates) < len(self.reached - self.trained)
        handed_on = HandedOnGradients(self.log)
        return tuple(n for n in candidates if not handed_on.is_of(n)) if is_training else ()

    @cached_property
    def first_reach(self) -> dict[int, int]:
        """By leaf: the first backward call that reached it."""
        return {number: row for row in reversed(self.reached_by) for number in self.reached_by[row]}

    @cached_property
    def last_reach(self) -> dict[int, int]:
        """By leaf: the last backward call that reached it."""
        return {number: row for row in self.reached_by for number in self.reached_by[row]}

    def _is_changed(self, number: int, after: int) -> bool:
        replaced = self.flow.data_replacements(number)[-1:]
        return bool(self.flow.changes(number, after, len(self.log.calls))) or any(row > after for row in replaced)

    @cached_property
    def callers_of_flagging(self) -> dict[tuple[str, int], set[int]]:
        """For each file and line that sets ``requires_grad`` in a function, the lines that called the function."""
        callers: dict[tuple[str, int], set[int]] = defaultdict(set)
        for row, call in enumerate(self.log.calls):
            line = self.flow.line_of(row) if "requires_grad" in call.function else None
            if line is not None and line.caller is not None:
                callers[line.file, line.line].add(self.log.call_sites[line.caller].line)
        return dict(callers)

    def flag_changes(self, number: int) -> list[tuple[int, bool]]:
        """The calls that set its ``requires_grad``, with the flag afterwards."""
        return self._flag_changes.get(number, [])

    @cached_property
    def _flag_changes(self) -> dict[int, list[tuple[int, bool]]]:
        found: dict[int, list[tuple[int, bool]]] = defaultdict(list)
        for row, call in enumerate(self.log.calls):
            if "requires_grad" in call.function and call.raised is None and call.inputs:
                first = call.inputs[0]
                flag = next((use.requires_grad for use in call.outputs if use.tensor == first.tensor), None)
                found[first.tensor].append((row, first.requires_grad if flag is None else flag))
        return dict(found)

    def requires_grad_at_last(self, number: int) -> bool:
        """Whether it requires grad when the program ends, or after its last use or change if it was freed before."""
        end = self.tensor(number).end
        if end is not None:
            return end.requires_grad
        uses = self.forward_uses(number)[-1:]
        for row, flag in self.flag_changes(number)[-1:]:
            if not uses or row > uses[0]:
                return flag
        return any(use.requires_grad for row in uses for use in self.log.calls[row].inputs if use.tensor == number)

    def is_ever_stepped_live(self, number: int) -> bool:
        """Whether it required grad in any step of an optimizer."""
        return number in self._stepped_live

    @cached_property
    def _stepped_live(self) -> frozenset[int]:
        return frozenset(use.tensor for row in self.steps for use in self.log.calls[row].inputs if use.requires_grad)


def _computes_from(call: Call, number: int) -> bool:
    if call.kind not in _COMPUTE or call.function.endswith("requires_grad_"):
        return False
    return any(use.tensor != number for use in call.outputs) and call.function not in _LOOKS_ONLY


_LOOKS_ONLY = frozenset({"torch.Tensor.detach", "torch.Tensor.data", "torch.Tensor.__deepcopy__"})


# Leaves whose gradients the program passes to other leaves, like a worker whose copy of a model needs no step.

GIVES_A_GRADIENT = "torch.Tensor.grad.__set__"


class HandedOnGradients:
    """Finds the leaves whose gradients went into other leaves, with one pass over the log."""

    def __init__(self, log: CallLog) -> None:
        self._log = log

    def is_of(self, leaf: int) -> bool:
        """Whether its gradient, or what was computed from it, went into another leaf or its ``.grad``."""
        return any(fed != leaf for gradient in self._gradients.get(leaf, ()) for fed in self._fed.get(gradient, ()))

    @cached_property
    def _gradients(self) -> dict[int, list[int]]:
        found: dict[int, list[int]] = defaultdict(list)
        for number, tensor in enumerate(self._log.tensors):
            if tensor.gradient_of is not None:
                found[tensor.gradient_of].append(number)
        return dict(found)

    @cached_property
    def _fed(self) -> dict[int, tuple[int, ...]]:
        """For each tensor, up to two leaves that its values went into: one of two differs from any given leaf.

        One number made of a gradient does not hand it on: ``clip_grad_norm_`` scales all gradients by their norm.
        """
        fed: dict[int, tuple[int, ...]] = {}
        for call in reversed(self._log.calls):
            is_list = "_foreach_" in call.function
            leaves: dict[str, set[int]] = defaultdict(set)
            from_numbers: dict[str, set[int]] = defaultdict(set)
            for item, leaf in self._given_to(call):
                leaves[item if is_list else ""].add(leaf)
            for use in call.outputs if passes_on(call) else ():
                if use.tensor in fed:
                    kept = from_numbers if self._is_number(use.tensor) else leaves
                    kept[_item_of(use) if is_list else ""].update(fed[use.tensor])
            for use in call.inputs if leaves or from_numbers else ():
                item = _item_of(use) if is_list else ""
                found = leaves[item] | (from_numbers[item] if self._is_number(use.tensor) else set())
                if found:
                    fed[use.tensor] = tuple(sorted(found.union(fed.get(use.tensor, ())))[:2])
        return fed

    def _is_number(self, tensor: int) -> bool:
        return self._log.tensors[tensor].facts.elements == 1

    def _given_to(self, call: Call) -> Iterator[tuple[str, int]]:
        """Leaves into which a call writes, or whose gradient it writes; with the item of a list of tensors."""
        for use in call.inputs[:1] if call.function == GIVES_A_GRADIENT else call.changed:
            leaf = use.tensor if use.is_live_leaf else self._log.tensors[use.tensor].gradient_of
            leaf = self._assigned.get(use.tensor) if leaf is None else leaf
            leaf = self._leaf_in.get(self._log.memory_of(use.tensor)) if leaf is None else leaf
            if leaf is not None:
                yield _item_of(use), leaf

    @cached_property
    def _leaf_in(self) -> dict[int, int]:
        """By memory: the leaf that lies there, or whose gradient does. ``p.data.add_()`` writes by another name."""
        of_gradients = {each: leaf for leaf, gradients in self._gradients.items() for each in gradients}
        leaves = {**of_gradients, **{leaf: leaf for leaf in self._log.parameters}}
        return {self._log.memory_of(number): leaf for number, leaf in leaves.items()}

    @cached_property
    def _assigned(self) -> dict[int, int]:
        """By tensor that the program made the gradient of a leaf: that leaf."""
        calls = (call for call in self._log.calls if call.function == GIVES_A_GRADIENT)
        return {use.tensor: call.inputs[0].tensor for call in calls for use in call.inputs[1:]}


def _item_of(use: TensorUse) -> str:
    """``2]`` for ``0[2]`` and ``return[2]``: a call for lists of tensors computes each item from those at its index."""
    return use.place.rpartition("[")[2] if "[" in use.place else ""
