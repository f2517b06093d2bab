"""Tensors that should have a gradient but have none, and the cut to blame for each.

A cut (`gradviz.analysis.dataflow.cuts`) is to blame if it is below such a tensor *and* a path from the cut
(`gradviz.analysis.cuts.cut_paths`) leads to the root of a backward call. A cut before a metric, a log or a target leads
to no root, or affects no such tensor.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import pairwise

from msgspec import Struct
from msgspec.structs import replace

from gradviz.analysis.cuts.cut_paths import (
    CutPath,
    alive_above,
    cut_paths_on,
    is_draw,
    is_parameter_as_number,
    steering_path,
)
from gradviz.analysis.cuts.dead_terms import ends_a_term
from gradviz.analysis.dataflow.cuts import Cut
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.refused_calls import frozen_above, is_refused_hook, refused_roots
from gradviz.analysis.gradients.received_gradients import ReceivedGradients
from gradviz.graph.call_log import Call, TensorUse

_COPIES = (".clone", ".detach", ".detach_", ".requires_grad_", ".to", ".requires_grad.__set__")
_MAX_COPIES = 5


class CutOff(Struct, frozen=True):
    """One line that cuts, and all tensors that get no gradient because of it."""

    cut_path: CutPath
    """The cut, and the path from it to the root; the most certain one, if the line cut several times."""
    cuts: tuple[Cut, ...]
    """All cuts of the line on paths to this root."""
    backward: int
    """The call in the log that requested the gradients."""
    root: int
    """The tensor that it started from, as a number of the log."""
    is_refused: bool
    """Whether that call raised because nothing that it started from requires grad."""
    tensors: tuple[int, ...]
    """The tensors that should have a gradient but get none."""
    is_draw: bool = False
    """Whether the cut is a draw of random numbers, as in every sampling policy."""
    ends_a_term: bool = False
    """Whether it makes a whole loss, or a whole term of one, a constant."""
    is_partial: bool = False
    """Whether other paths bring them gradients."""
    may_be_meant: bool = False
    """Whether programs cut so on purpose, too."""
    is_behind_another: bool = False
    """Whether another cut, or a choice such as ``argmax``, is on its way to the root: mending this one alone brings no
    gradient."""
    is_parameter_as_number: bool = False
    """Whether the value of one of these tensors itself went on as a Python number, as a bound or a factor."""
    beside: tuple[int, ...] = ()
    """If so, other calls that cut it off: ``detach()`` may be meant there, or is no way to mend it alone."""
    is_of_leaf: bool = False
    """Whether the root was made a leaf, so that the backward call reaches nothing else."""
    stage: int | None = None
    """If a loss of another stage brings them gradients: the optimizer in whose steps they get none."""

    @property
    def cut(self) -> Cut:
        return self.cut_path.cut

    @property
    def count(self) -> int:
        """How often the line cut on paths to this root."""
        return len(self.cuts)


class MissingGradients:
    """The missing gradients of one run, judged by its calls."""

    def __init__(self, dataflow: Dataflow, received: ReceivedGradients) -> None:
        self._flow = dataflow
        self._log = dataflow.log
        self._received = received

    @cached_property
    def without_gradient(self) -> tuple[int, ...]:
        """Leaves that should train, were used, and got no gradient in the whole run.

        If there are optimizers, the leaves that one of them has. Otherwise parameters and leaves made with
        ``requires_grad``, except those of a model of which no part got a gradient while other models did. Leaves that a
        backward had not reached yet when it raised are not cut off.
        """
        found = [
            number
            for number in self._candidates
            if self._log.tensors[number].requires_grad
            and (number not in self._received or number in self._only_returned)
            and self._flow.users(number)
        ]
        found = [number for number in found if number not in self._not_reached_yet] if found else found
        if self._has_failed:
            # The program may have ended before it came to their loss.
            found = [number for number in found if number in self._stepped or number not in self._trained]
        return tuple(found if self._trained else [number for number in found if not self._is_left_alone(number)])

    @cached_property
    def cut_off(self) -> tuple[CutOff, ...]:
        """Every line to blame, the one with the most affected tensors first."""
        blamed: dict[tuple[object, ...], CutOff] = {}
        explained: dict[int, _Rank] = {}
        for backward, root in self._roots():
            wants = self._wants(backward, root)
            for found in self._to_blame(backward, root, wants) if wants else ():
                for tensor in found.tensors:
                    explained[tensor] = min(explained.get(tensor, _rank(found)), _rank(found))
                key = self._key(found.cut)
                known = blamed.get(key)
                blamed[key] = found if known is None else _joined(known, found)
        for found in self._steering(frozenset(self.without_gradient).difference(explained)):
            blamed.setdefault(self._key(found.cut), found)
            explained.update((tensor, _rank(found)) for tensor in found.tensors)
        best = (_without(_with_others(found, blamed.values()), explained) for found in blamed.values())
        return tuple(
            sorted(
                (found for found in best if found.tensors),
                key=lambda found: (
                    not found.is_refused,
                    found.is_behind_another,
                    -len(found.tensors),
                    _rank(found),
                    found.cut.call,
                ),
            )
        )

    # -- which tensors should have one ---------------------------------------------------------------------------

    @cached_property
    def _trained(self) -> frozenset[int]:
        return frozenset(tensor for optimizer in self._log.optimizers for group in optimizer.groups for tensor in group)

    @cached_property
    def _candidates(self) -> tuple[int, ...]:
        return tuple(sorted(self._trained)) if self._trained else self._log.parameters

    @cached_property
    def _has_failed(self) -> bool:
        """Whether a backward raised for another reason than a root without a history."""
        calls = (self._log.calls[row] for row in self._flow.rows_of_kind("backward"))
        return any(call.raised is not None and not refused_roots(call) for call in calls)

    @cached_property
    def _stepped(self) -> frozenset[int]:
        return frozenset(use.tensor for row in self._flow.rows_of_kind("step") for use in self._log.calls[row].inputs)

    @cached_property
    def _only_returned(self) -> frozenset[int]:
        """Leaves that no step has moved, as ``autograd.grad`` returned their gradients, and nothing has set ``.grad``.

        The inner steps of meta learning ask for the gradients of a model that the loss behind them should train.
        """
        calls = (self._log.calls[row] for row in self._flow.rows_of_kind("backward"))
        asked = {use.tensor for call in calls if not call.function.endswith("backward") for use in call.asked}
        filled = {tensor.gradient_of for tensor in self._log.tensors}
        tensors = ((each, self._log.tensors[each]) for each in asked & self._stepped - filled)
        return frozenset(
            each
            for each, tensor in tensors
            if tensor.is_moved is False and (tensor.end is None or not tensor.end.has_grad)
        )

    @cached_property
    def _not_reached_yet(self) -> frozenset[int]:
        """Leaves that a backward would have reached if it had not raised."""
        calls = ((row, self._log.calls[row]) for row in self._flow.rows_of_kind("backward"))
        return alive_above(
            self._flow, ((use.tensor, row) for row, call in calls if call.raised is not None for use in call.roots)
        )

    def _wants(self, backward: int, root: int) -> frozenset[int]:
        """Tensors to which this call should have brought a gradient, and that have none."""
        call = self._log.calls[backward]
        asked = {use.tensor: use for use in call.asked}
        if self._is_refused(backward):
            # A frozen tensor that an optimizer has explains the refusal; a cut beside it may be meant. It does not
            # where the derivative by something else is asked for.
            alive = frozenset(tensor for tensor, use in asked.items() if use.requires_grad)
            if not alive and frozen_above(self._flow, backward, self._trained):
                return frozenset(self.without_gradient)
            return frozenset(asked or self._candidates)
        if self._starts_at_a_leaf(backward, root):
            return frozenset(self._candidates)
        if call.function.endswith("backward"):
            return frozenset(self.without_gradient).intersection(asked) if asked else frozenset(self.without_gradient)
        missing = self._not_given(call, asked.values())
        return missing - alive_above(self._flow, [(root, backward)]) if missing else missing

    def _not_given(self, call: Call, asked: Iterable[TensorUse]) -> frozenset[int]:
        given = {use.place.removeprefix("return") for use in call.outputs}
        return frozenset(use.tensor for use in asked if use.place.removeprefix("input") not in given)

    def _is_left_alone(self, number: int) -> bool:
        """Whether the tensor belongs to an untrained model, such as a target network, beside models trained by hand."""
        if self._log.tensors[number].role != "parameter" or not self._is_trained_by_hand:
            return False
        reached = {model for each in self._candidates if each in self._received for model in self._models(each)}
        return bool(reached) and reached.isdisjoint(self._models(number))

    @cached_property
    def _is_trained_by_hand(self) -> bool:
        """Whether a call after the first backward changed a leaf that requires grad."""
        calls = self._log.calls
        first = next(iter(self._flow.rows_of_kind("backward")), len(calls))
        return any(use.is_live_leaf for call in calls[first:] for use in call.changed)

    @cached_property
    def is_training(self) -> bool:
        """Whether anything is known to train; if not, it is a guess that a tensor should have a gradient."""
        return bool(self._trained) or self._is_trained_by_hand

    def _models(self, number: int) -> set[str]:
        return {name.partition(".")[0] for name in self._log.tensors[number].names}

    # -- which cut -----------------------------------------------------------------------------------------------

    def _roots(self) -> Iterator[tuple[int, int]]:
        """The first and the last call of each line that calls backward, and every refused call."""
        by_line: dict[int | None, list[int]] = {}
        for number, call in enumerate(self._log.calls):
            if (call.kind == "backward" or is_refused_hook(call)) and self._flow.is_by_program(call):
                by_line.setdefault(call.call_site, []).append(number)
        chosen = {
            number
            for rows in by_line.values()
            for number in (rows[0], rows[-1], *(row for row in rows if self._log.calls[row].raised is not None))
        }
        for number in sorted(chosen):
            call = self._log.calls[number]
            roots = refused_roots(call) or [use.tensor for use in call.roots]
            yield from ((number, root) for root in roots)

    def _is_refused(self, backward: int) -> bool:
        return bool(refused_roots(self._log.calls[backward]))

    def _starts_at_a_leaf(self, backward: int, root: int) -> bool:
        """Whether a loss was made a leaf, as by ``detach().requires_grad_()``: nothing but itself gets a gradient."""
        call = self._log.calls[backward]
        return call.function.endswith("backward") and any(
            use.tensor == root and use.requires_grad and use.is_leaf and not use.has_grad_fn for use in call.roots
        )

    def _to_blame(self, backward: int, root: int, wants: frozenset[int]) -> Iterator[CutOff]:
        found = list(cut_paths_on(self._flow, root, backward, self._key))
        rows = {cut.call for _, cuts in found for cut in cuts}
        for cut_path, cuts in found:
            if self._makes_new_leaf(cut_path) or (self._only_selects(cut_path) and not self._is_refused(backward)):
                continue
            above = alive_above(self._flow, ((tensor, cut.call) for cut in cuts for tensor in cut.live_inputs))
            ends = ends_a_term(self._flow, cut_path)
            # Beside a loss that was made a leaf, other cuts may be meant.
            wanted = wants if ends or not self._starts_at_a_leaf(backward, root) else wants & {*self.without_gradient}
            tensors = tuple(sorted(wanted & above))
            if tensors:
                yield CutOff(
                    cut_path,
                    cuts,
                    backward,
                    root,
                    self._is_refused(backward),
                    tensors,
                    is_draw(self._flow, cut_path),
                    ends,
                    is_behind_another=not rows.isdisjoint(cut_path.calls[1:])
                    or self._is_in_another_block(cut_path)
                    or (self._is_refused(backward) and not self._leads_back(cuts, root, backward, frozenset(tensors))),
                    is_parameter_as_number=is_parameter_as_number(self._flow, cut_path, tensors),
                    is_of_leaf=self._starts_at_a_leaf(backward, root),
                )

    def _only_selects(self, cut_path: CutPath) -> bool:
        """Whether the values of a switched-off or detached result go on as integers or truth values only, which decide
        what is taken: no gradient would come back through them in any case."""
        if cut_path.cut.kind not in ("no_grad", "inference", "detach", "data"):
            return False
        calls, tensors = self._log.calls, self._log.tensors
        for row, following in pairwise(cut_path.calls):
            made = {use.tensor for use in calls[row].outputs}
            passed = [use.tensor for use in calls[following].inputs if use.tensor in made]
            if passed and not any(tensors[tensor].facts.is_differentiable for tensor in passed):
                return True
        return False

    def _is_in_another_block(self, cut_path: CutPath) -> bool:
        """Whether what follows the cut runs without gradients because of another line."""
        calls, site = self._log.calls, cut_path.cut.call_site
        off = [calls[row] for row in cut_path.calls[1:] if calls[row].grad_mode != "enabled"]
        return any(call.grad_mode_site is not None and call.grad_mode_site != site for call in off)

    def _leads_back(self, cuts: tuple[Cut, ...], root: int, backward: int, wanted: frozenset[int]) -> bool:
        """Whether a gradient would come back to one of the tensors without the cuts: not through integers, such as
        the result of ``argmax``."""
        calls = self._log.calls
        for cut in cuts:
            if wanted.isdisjoint(alive_above(self._flow, ((tensor, cut.call) for tensor in cut.live_inputs))):
                continue
            made = {use.tensor for use in calls[cut.call].outputs}
            waiting, seen = [(tensor, cut.call) for tensor in sorted(made)], set[int]()
            while waiting and len(seen) < _MAX_CALLS:
                tensor, after = waiting.pop()
                if tensor == root:
                    return True
                # The cut itself may be a cast to integers.
                if tensor not in made and not self._log.tensors[tensor].facts.is_differentiable:
                    continue
                new = [row for row in self._flow.users(tensor, after) if row < backward and row not in seen]
                seen.update(new)
                waiting += [(use.tensor, row) for row in new for use in calls[row].outputs]
            if len(seen) >= _MAX_CALLS:
                return True
        return False

    def _makes_new_leaf(self, cut_path: CutPath) -> bool:
        """Whether the cut only copied a leaf's values into another leaf, which is trained instead."""
        calls = self._log.calls
        if cut_path.cut.call in self.remade:
            return False
        taken = [use for use in calls[cut_path.cut.call].inputs if use.requires_grad]
        copied = {use.tensor for row in cut_path.calls for use in calls[row].outputs}
        leaves = (use for row in cut_path.calls[1:] for use in calls[row].inputs if use.is_live_leaf)
        return all(use.is_leaf for use in taken) and any(
            use.tensor in copied and use.tensor in self._received for use in leaves
        )

    @cached_property
    def remade(self) -> dict[int, int]:
        """Cuts that copy an optimizer's parameter into a leaf that nothing changes, anew in each of several steps, with
        that leaf: the fast weights of a meta step. A copy that is made once may be a model of its own."""
        calls, flow = self._log.calls, self._flow
        found: dict[tuple[int | None, int], dict[int, int]] = {}
        steps: dict[tuple[int | None, int], set[int]] = {}
        for cut in flow.cuts:
            if cut.kind not in ("detach", "data", "no_grad") or self._trained.isdisjoint(cut.live_inputs):
                continue
            leaf = self._leaf_made_of(cut)
            is_changed = leaf is None or leaf in self._trained or bool(flow.changes(leaf, cut.call, len(calls)))
            if leaf is not None and not is_changed:
                key = cut.call_site, cut.live_inputs[0]
                found.setdefault(key, {})[cut.call] = leaf
                steps.setdefault(key, set()).add(flow.step_before(cut.call))
        return {row: leaf for key, each in found.items() if len(steps[key]) > 1 for row, leaf in each.items()}

    def _leaf_made_of(self, cut: Cut) -> int | None:
        """The plain tensor with the values of a cut, made to require grad right afterwards."""
        calls, tensor, row = self._log.calls, (*cut.dead_outputs, -1)[0], cut.call
        for _ in range(_MAX_COPIES if tensor >= 0 else 0):
            row = next(iter(self._flow.users(tensor, row)), -1)
            call = calls[row]
            if row < 0 or not call.outputs or not call.function.endswith(_COPIES):
                return None
            tensor = call.outputs[0].tensor
            if call.outputs[0].is_live_leaf:
                return tensor if self._log.tensors[tensor].role == "tensor" else None
        return None

    def _steering(self, tensors: frozenset[int]) -> Iterator[CutOff]:
        """For tensors whose values reach no root: the cuts after which the values only controlled the program."""
        roots = list(self._roots())
        by_cut: dict[int, tuple[CutPath, int, int, list[int]]] = {}
        for tensor in sorted(tensors):
            for backward, root in roots:
                cuts = self._flow.cuts_below(tensor, until=backward)
                cut_path = next((found for cut in cuts if (found := steering_path(self._flow, cut, backward))), None)
                if cut_path is not None:
                    by_cut.setdefault(cut_path.cut.call, (cut_path, backward, root, []))[3].append(tensor)
                if cuts:
                    break
        for cut_path, backward, root, steered in by_cut.values():
            yield CutOff(cut_path, (cut_path.cut,), backward, root, False, tuple(steered))

    def _key(self, cut: Cut) -> tuple[object, ...]:
        line = self._flow.line(cut.call_site)
        return (cut.kind, None, 0) if line is None else (cut.kind, line.file, line.line)


_STATE = frozenset({"buffer", "in_place"})
_MAX_CALLS = 10_000


_Rank = tuple[bool, bool, bool, bool, int]


def _rank(found: CutOff) -> _Rank:
    """A sort key, the best explanation first: cuts that update a state come last, random draws before them, and
    uncertain paths after certain ones. A cut that makes a whole term a constant is meant by nobody, nor is a parameter
    that goes on as a number."""
    is_number = found.is_parameter_as_number
    return found.cut.kind in _STATE, found.is_draw, not found.ends_a_term, not is_number, found.cut_path.doubt


def _joined(one: CutOff, other: CutOff) -> CutOff:
    first, second = (one, other) if (not one.is_refused, _rank(one)) <= (not other.is_refused, _rank(other)) else (
        other, one,
    )  # fmt: skip
    return replace(first, tensors=tuple(sorted({*first.tensors, *second.tensors})))


def _with_others(found: CutOff, all_found: Iterable[CutOff]) -> CutOff:
    """With the calls that cut off the same tensors, if a parameter went on as a number."""
    if not found.is_parameter_as_number:
        return found
    others = (each for each in all_found if each is not found and not {*each.tensors}.isdisjoint(found.tensors))
    return replace(found, beside=tuple(sorted(each.cut.call for each in others if each.cut.kind == "detach")))


def _without(found: CutOff, explained: dict[int, _Rank]) -> CutOff:
    """Leave out the tensors that another line explains better."""
    kept = tuple(tensor for tensor in found.tensors if _rank(found) <= explained[tensor])
    return replace(found, tensors=kept)
