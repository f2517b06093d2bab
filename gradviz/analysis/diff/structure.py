"""Differences in structure: what only one run has, what was called otherwise, renamed or moved."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

from gradviz.analysis.diff.alignment import Alignment
from gradviz.analysis.diff.closeness import UNKNOWN, Apart
from gradviz.analysis.diff.difference import Change
from gradviz.analysis.diff.runs import Operand, Operation, Run
from gradviz.analysis.diff.wording import (
    are_of_one_form,
    arguments_words,
    changed_arguments,
    is_given_in_both,
    where,
)
from gradviz.capture.capture import Parameter
from gradviz.graph.number_words import counted
from gradviz.graph.query.own_line import file_name

MAX_NAMES = 4
"""Names of parameters in one sentence."""


def changes_between(a: Run, b: Run, alignment: Alignment, results: Mapping[int, Apart]) -> tuple[Change, ...]:
    """All of them, those that are more than names and order first.

    Args:
        results: for pairs, by the operation of the first run, how far apart their results are.
    """
    pairs = [(a.operations[i], b.operations[j]) for i, j in sorted(alignment.to_b.items())]
    found = [
        *_only(a, "only_a", [operation.index for operation in alignment.only_a(a)]),
        *_only(b, "only_b", [operation.index for operation in alignment.only_b(b)]),
        *(change for one, other in pairs for change in _of_pair(a, b, one, other, results.get(one.index, UNKNOWN))),
        *_parameters_taken(a, b, pairs, alignment),
        *_compiled(a, b, alignment),
        *_parameters(a, b, pairs),
        *_reached(a, b, pairs),
        *_hooks(a, b, pairs),
        *_moved(a, b, alignment),
        *_wrapped(a, b, pairs),
        *_renamed_modules(a, b, pairs),
        *_renamed_files(a, b, pairs),
    ]
    return tuple(sorted(found, key=lambda change: change.is_cosmetic))


# -- Operations that only one run has: whole module calls as one ------------------------------------------------------


def _only(run: Run, kind: Literal["only_a", "only_b"], indices: list[int]) -> Iterator[Change]:
    unmatched = set(indices)
    size: Counter[int] = Counter()
    missing: Counter[int] = Counter()
    for operation in run.operations:
        for scope in run.modules_around(operation):
            size[scope] += 1
            missing[scope] += operation.index in unmatched
    groups: defaultdict[tuple[int | None, int], list[Operation]] = defaultdict(list)
    for index in indices:
        operation = run.operations[index]
        whole = next((scope for scope in run.modules_around(operation) if size[scope] == missing[scope]), None)
        groups[whole, -1 if whole is not None else index].append(operation)
    name = "A" if kind == "only_a" else "B"
    for (outermost, _), operations in groups.items():
        what = f"only {name} has {operations[0].word}"
        if outermost is not None:
            module = run.scopes[outermost]
            what = f"only {name} has {module.path} ({module.class_name}, {counted(len(operations), 'operation')})"
        is_form = all(operation.keeps_values for operation in operations)
        if is_form:
            what += ", which changes no value"
        location = where(run, operations[0])
        a, b = (location, None) if kind == "only_a" else (None, location)
        yield Change("form" if is_form else kind, what, a, b, len(operations))


# -- Operations that belong together -----------------------------------------------------------------------------------


def _of_pair(a: Run, b: Run, one: Operation, other: Operation, result: Apart) -> Iterator[Change]:
    if (one.kind == "compiled") != (other.kind == "compiled"):
        return
    if are_of_one_form(one, other):
        if one.word != other.word:
            what = f"{one.word} in A, {other.word} in B, with the same result"
            yield Change("form", what, where(a, one), where(b, other))
    elif one.word != other.word:
        yield Change("replaced", f"{one.word} in A, {other.word} in B", where(a, one), where(b, other))
    else:
        changed = changed_arguments(one, other)
        if result.level == "same":
            # An argument that one of them leaves to its default.
            changed = [entry for entry in changed if is_given_in_both(entry)]
        if changed and not _are_shapes(one, other):
            yield Change("arguments", f"{one.word}: {arguments_words(changed)}", where(a, one), where(b, other))
    if one.is_autocast != other.is_autocast:
        which = "A" if one.is_autocast else "B"
        yield Change("autocast", f"{one.word} runs under autocast only in {which}", where(a, one), where(b, other))
    if one.grad_mode != other.grad_mode and bool(one.nodes) != bool(other.nodes):
        which, mode = ("B", other.grad_mode) if one.nodes else ("A", one.grad_mode)
        what = f"{one.word} runs under {mode} only in {which}, so it has no grad_fn there"
        yield Change("grad_mode", what, where(a, one), where(b, other))
    for kind in ("shape", "dtype", "device"):
        x, y = _of_results(one, kind), _of_results(other, kind)
        # Where an operand has changed as well, it is told there.
        if x != y and _of_operands(one, kind) == _of_operands(other, kind):
            what = f"{one.word}: the result's {kind} is {_listed(x)} in A, {_listed(y)} in B"
            yield Change(kind, what, where(a, one), where(b, other))


def _parameters_taken(
    a: Run, b: Run, pairs: Sequence[tuple[Operation, Operation]], alignment: Alignment
) -> Iterator[Change]:
    """With a bias of zeros, as layers begin, the results are the same; its gradient is not."""
    alone_a = {operation.index for operation in alignment.only_a(a)}
    alone_b = {operation.index for operation in alignment.only_b(b)}
    for one, other in pairs:
        taken, by_other = ([each.leaf for each in side.operands if each.is_parameter] for side in (one, other))
        # What stands before it in one run only is told by itself.
        is_told = any(each.source in alone_a for each in one.operands) or any(
            each.source in alone_b for each in other.operands
        )
        if one.word == other.word and len(taken) != len(by_other) and not is_told:
            which, more = ("A", taken) if len(taken) > len(by_other) else ("B", by_other)
            what = f"only in {which}, {one.word} takes {counted(abs(len(taken) - len(by_other)), 'more parameter')}"
            yield Change("parameter", f"{what}: it takes {_listed(map(str, more))}", where(a, one), where(b, other))


def _are_shapes(one: Operation, other: Operation) -> bool:
    """Sizes among the arguments follow from the operands' shapes."""
    return _of_operands(one, "shape") != _of_operands(other, "shape") and bool(one.operands)


def _of_results(operation: Operation, kind: str) -> list[str]:
    return [_fact(result, kind) for result in operation.results]


def _of_operands(operation: Operation, kind: str) -> list[str]:
    return [_fact(operand, kind) for operand in operation.operands]


def _fact(operand: Operand, kind: str) -> str:
    if operand.facts is None:
        return "?"
    if kind == "shape":
        return "(" + ", ".join(map(str, operand.facts.shape)) + ")"
    return str(getattr(operand.facts, kind))


def _listed(words: Iterable[str]) -> str:
    return " and ".join(words) or "none"


# -- Parameters and hooks ----------------------------------------------------------------------------------------------


def _parameters(a: Run, b: Run, pairs: list[tuple[Operation, Operation]]) -> Iterator[Change]:
    names = parameter_names(pairs)
    in_a = {parameter.names[0]: parameter for parameter in a.capture.parameters if parameter.names}
    in_b = {parameter.names[0]: parameter for parameter in b.capture.parameters if parameter.names}
    counterpart = {name: names.get(name, name) for name in in_a}
    for name, parameter in in_a.items():
        other = in_b.get(counterpart[name])
        if other is None:
            yield Change("parameter", f"only A has the parameter {name} {_shape(parameter)}")
        else:
            yield from _changed_parameter(name, counterpart[name], parameter, other)
    for name in set(in_b) - set(counterpart.values()):
        yield Change("parameter", f"only B has the parameter {name} {_shape(in_b[name])}")


def _changed_parameter(name: str, renamed: str, one: Parameter, other: Parameter) -> Iterator[Change]:
    both = name if name == renamed else f"{name} ({renamed} in B)"
    if one.tensor.shape != other.tensor.shape:
        yield Change("parameter", f"the parameter {both} has the shape {_shape(one)} in A, {_shape(other)} in B")
    if one.tensor.dtype != other.tensor.dtype:
        yield Change("dtype", f"the parameter {both} is {one.tensor.dtype} in A, {other.tensor.dtype} in B")
    if one.requires_grad != other.requires_grad:
        yield Change("frozen", f"the parameter {both} is frozen only in {'B' if one.requires_grad else 'A'}")


def _shape(parameter: Parameter) -> str:
    return "(" + ", ".join(map(str, parameter.tensor.shape)) + ")"


def parameter_names(pairs: Iterable[tuple[Operation, Operation]]) -> dict[str, str]:
    """For names of parameters in the first run, those in the second: by the operations that take them."""
    votes: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for one, other in pairs:
        taken = [operand for operand in one.operands if operand.is_parameter]
        by_other = [operand for operand in other.operands if operand.is_parameter]
        if len(taken) == len(by_other):
            for x, y in zip(taken, by_other, strict=True):
                if x.leaf and y.leaf:
                    votes[x.leaf][y.leaf] += 1
    return {name: found.most_common(1)[0][0] for name, found in votes.items()}


def _reached(a: Run, b: Run, pairs: list[tuple[Operation, Operation]]) -> Iterator[Change]:
    """Parameters that both runs have and train, and that only one of the graphs leads to."""
    if a.graph is None or b.graph is None:
        return
    names = parameter_names(pairs)
    in_a, in_b = ({name for leaf in graph.parameters for name in leaf.names} for graph in (a.graph, b.graph))
    trained = {name for each in b.capture.parameters if each.requires_grad for name in each.names}
    only: dict[str, list[str]] = {"A": [], "B": []}
    for parameter in a.capture.parameters:
        name = parameter.names[0] if parameter.names else ""
        other = names.get(name, name)
        if parameter.requires_grad and other in trained and (name in in_a) != (other in in_b):
            only["A" if name in in_a else "B"].append(name)
    for side, found in only.items():
        if found:
            listed = found[:MAX_NAMES]
            if len(found) > MAX_NAMES:
                listed.append(f"{len(found) - MAX_NAMES} more")
            what = f"a gradient reaches {' and '.join(listed)} only in {side}"
            yield Change("reached", what, count=len(found))


def _hooks(a: Run, b: Run, pairs: list[tuple[Operation, Operation]]) -> Iterator[Change]:
    if a.graph is None or b.graph is None:
        return
    for one, other in pairs:
        x = [hook for node in one.nodes for hook in a.graph.nodes[node].hooks]
        y = [hook for node in other.nodes for hook in b.graph.nodes[node].hooks]
        if x != y:
            what = f"hooks on {one.word}: {_listed(x)} in A, {_listed(y)} in B"
            yield Change("hooks", what, where(a, one), where(b, other))


# -- Names and order ---------------------------------------------------------------------------------------------------


def _compiled(a: Run, b: Run, alignment: Alignment) -> Iterator[Change]:
    for index, inside in alignment.compiled_a.items():
        compiled = b.operations[alignment.to_b[index]]
        what = f"{counted(len(inside) + 1, 'operation')} of A are compiled code in B"
        yield Change("compiled", what, where(a, a.operations[index]), where(b, compiled), len(inside) + 1)
    for index, inside in alignment.compiled_b.items():
        compiled = a.operations[alignment.to_a[index]]
        what = f"{counted(len(inside) + 1, 'operation')} of B are compiled code in A"
        yield Change("compiled", what, where(a, compiled), where(b, b.operations[index]), len(inside) + 1)


def _moved(a: Run, b: Run, alignment: Alignment) -> Iterator[Change]:
    for index in sorted(alignment.moved):
        one, other = a.operations[index], b.operations[alignment.to_b[index]]
        yield Change("moved", f"{one.word} runs at another point of the order", where(a, one), where(b, other))


def _wrapped(a: Run, b: Run, pairs: list[tuple[Operation, Operation]]) -> Iterator[Change]:
    """Module calls around operations that are in fewer module calls in the other run."""
    depths = {(len(a.modules_around(one)), len(b.modules_around(other))) for one, other in pairs}
    if all(x == y for x, y in depths):
        return
    for run, name, side in ((a, "A", 0), (b, "B", 1)):
        deeper: Counter[str] = Counter()
        other_run = (b, a)[side]
        for pair in pairs:
            chain, counterpart = run.modules_around(pair[side]), other_run.modules_around(pair[1 - side])
            for scope in _without_counterpart(run, chain, other_run, counterpart):
                deeper[f"{run.scopes[scope].path} ({run.scopes[scope].class_name})"] += 1
        for path, count in deeper.items():
            what = f"only {name} has {counted(count, 'operation')} inside the module {path}"
            yield Change("wrapped", what, count=count)


def _without_counterpart(run: Run, chain: list[int], other: Run, counterpart: list[int]) -> list[int]:
    """As many module calls as `chain` has more, the innermost of those whose class the other has not."""
    classes = Counter(other.scopes[scope].class_name for scope in counterpart)
    others: list[int] = []
    for scope in reversed(chain):
        if classes[run.scopes[scope].class_name]:
            classes[run.scopes[scope].class_name] -= 1
        else:
            others.append(scope)
    return others[: max(0, len(chain) - len(counterpart))]


def _renamed_modules(a: Run, b: Run, pairs: list[tuple[Operation, Operation]]) -> Iterator[Change]:
    votes: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for one, other in pairs:
        chain_a, chain_b = a.modules_around(one), b.modules_around(other)
        if len(chain_a) == len(chain_b):
            for x, y in zip(chain_a, chain_b, strict=True):
                votes[a.scopes[x].path][b.scopes[y].path] += 1
    renamed = {path: found.most_common(1)[0][0] for path, found in votes.items()}
    for path, other_path in renamed.items():
        parent, _, name = path.rpartition(".")
        other_parent, _, other_name = other_path.rpartition(".")
        # A module inside a renamed one has another path, too.
        if name != other_name or (parent != other_parent and renamed.get(parent) != other_parent):
            yield Change("renamed", f"the module {path} is {other_path} in B", count=votes[path][other_path])


def _renamed_files(a: Run, b: Run, pairs: list[tuple[Operation, Operation]]) -> Iterator[Change]:
    programs = file_name(a.capture.program.name), file_name(b.capture.program.name)
    votes: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for one, other in pairs:
        x, y = a.line_of(one), b.line_of(other)
        if x is not None and y is not None:
            votes[file_name(x.file)][file_name(y.file)] += 1
    for name, found in votes.items():
        other_name, count = found.most_common(1)[0]
        if name != other_name and (name, other_name) != programs:
            what = f"the lines of {counted(count, 'operation')} are in {name} in A, in {other_name} in B"
            yield Change("file", what, count=count)
