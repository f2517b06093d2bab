"""Faults between backward and step, and in what optimizers hold."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.corpus_mutants.planting import Planted, Program, lines_of, name_of, one_line, operator


def _alone(program: Program, *names: str) -> Iterator[tuple[ast.Expr, ast.Call, str]]:
    """Statements that are only ``x.name(...)``, with x."""
    for call, attribute in program.methods(*names):
        statement = program.parents[call]
        owner = name_of(attribute.value)
        if isinstance(statement, ast.Expr) and owner and one_line(statement):
            yield statement, call, owner


def _optimizers(program: Program) -> dict[str, ast.Assign]:
    """The names of optimizers, and where they are made."""
    return {
        name: statement
        for statement in program.all(ast.Assign)
        if "optim." in program.of(statement.value)
        for target in statement.targets
        for name in [each for each in [name_of(target)] if each]
    }


def _neighbours(program: Program, statement: ast.stmt) -> tuple[int, ...]:
    """The lines around a step: where the gradients are cleared, computed and used."""
    words = re.compile(r"\.(backward|step|zero_grad|grad)\b")
    block = program.block(statement)
    near = [other for other in block if words.search(program.of(other)) or other is statement]
    return tuple({line for other in near if not hasattr(other, "body") for line in lines_of(other)})


@operator("missing_zero_grad")
def drop_zero_grad(program: Program) -> Iterator[Planted]:
    for statement, _, _ in _alone(program, "zero_grad", "zero_"):
        if program.of(statement).endswith((".zero_grad()", ".grad.zero_()")):
            yield Planted((program.drop(statement),), _neighbours(program, statement))


@operator("missing_zero_grad")
def zero_grad_before_the_loop(program: Program) -> Iterator[Planted]:
    for statement, _, _ in _alone(program, "zero_grad"):
        loop = program.loop(statement)
        if loop is not None and program.stands_alone(loop):
            edits = (program.before(loop, program.of(statement)), program.drop(statement))
            yield Planted(edits, _neighbours(program, statement))


@operator("missing_zero_grad", "gradient_unused", "step_without_effect")
def zero_grad_after_backward(program: Program) -> Iterator[Planted]:
    for statement, _, _ in _alone(program, "zero_grad"):
        block = program.block(statement)
        behind = block[block.index(statement) + 1 :]
        backward = next((other for other in behind if program.of(other).rstrip(")").endswith(".backward(")), None)
        if backward is not None:
            edits = (
                program.drop(statement),
                program.replace(backward, f"{program.of(backward)}; {program.of(statement)}"),
            )
            yield Planted(edits, _neighbours(program, statement))


@operator("missing_zero_grad")
def zero_grad_of_another(program: Program) -> Iterator[Planted]:
    names = list(_optimizers(program))
    for _, call, owner in _alone(program, "zero_grad"):
        for other in names:
            if owner in names and other != owner:
                statement = program.statement(call)
                edit = program.replace(call.func.value, other)  # type: ignore[attr-defined]
                yield Planted((edit,), _neighbours(program, statement))


@operator("not_stepped")
def drop_step(program: Program) -> Iterator[Planted]:
    names = _optimizers(program)
    for statement, _, owner in _alone(program, "step"):
        if owner in names:
            lines = (*_neighbours(program, statement), *lines_of(names[owner]))
            yield Planted((program.drop(statement),), lines)


@operator("not_stepped", "wrong_optimizer")
def step_of_another(program: Program) -> Iterator[Planted]:
    names = _optimizers(program)
    for _, call, owner in _alone(program, "step"):
        for other in names:
            if owner in names and other != owner:
                edit = program.replace(call.func.value, other)  # type: ignore[attr-defined]
                yield Planted((edit,), (*_neighbours(program, program.statement(call)), *lines_of(names[owner])))


@operator("missing_zero_grad", "gradient_unused", "step_without_effect", "optimizer_step_before_backward",
          "not_stepped")  # fmt: skip
def step_before_backward(program: Program) -> Iterator[Planted]:
    for statement, _, _ in _alone(program, "step"):
        block = program.block(statement)
        before = block[: block.index(statement)]
        backward = next((other for other in reversed(before) if program.of(other).endswith(".backward()")), None)
        if backward is not None and program.stands_alone(statement) and program.stands_alone(backward):
            edits = (program.replace(backward, program.of(statement)), program.replace(statement, program.of(backward)))
            yield Planted(edits, _neighbours(program, statement))


@operator("not_stepped", "stale_optimizer_params", "not_registered", "wrong_optimizer")
def parameters_of_another(program: Program) -> Iterator[Planted]:
    optimizers = _optimizers(program)
    owners = {name: _owners(program, made) for name, made in optimizers.items()}
    for name, made in optimizers.items():
        for call, owner in owners[name]:
            for other, theirs in owners.items():
                if other != name and theirs and theirs[0][1] != owner:
                    yield Planted((program.replace(call, f"{theirs[0][1]}.parameters()"),), lines_of(made))


@operator("not_stepped", "stale_optimizer_params", "not_registered")
def module_left_out_of_the_optimizer(program: Program) -> Iterator[Planted]:
    for made in _optimizers(program).values():
        for node in ast.walk(made.value):
            if isinstance(node, ast.List) and len(node.elts) > 1 and one_line(node):
                for left_out in node.elts:
                    rest = ", ".join(program.of(each) for each in node.elts if each is not left_out)
                    yield Planted((program.replace(node, f"[{rest}]"),), lines_of(made))
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
                for kept in (node.left, node.right):
                    yield Planted((program.replace(node, program.of(kept)),), lines_of(made))


@operator("not_stepped", "stale_optimizer_params", "not_registered")
def submodule_only_in_the_optimizer(program: Program) -> Iterator[Planted]:
    attributes = [
        name.removeprefix("self.")
        for statement in program.all(ast.Assign)
        for target in statement.targets
        if (name := name_of(target) or "").startswith("self.") and "nn." in program.of(statement.value)
    ]
    for made in _optimizers(program).values():
        for call, owner in _owners(program, made):
            for name in attributes:
                yield Planted((program.replace(call, f"{owner}.{name}.parameters()"),), lines_of(made))


@operator("stale_optimizer_params", "not_stepped")
def model_copied_after_the_optimizer(program: Program) -> Iterator[Planted]:
    for made in _optimizers(program).values():
        for _, owner in _owners(program, made):
            if program.stands_alone(made) and "." not in owner:
                line = f"{owner} = __import__('copy').deepcopy({owner})"
                yield Planted((program.after(made, line),), lines_of(made))


@operator("not_registered", "not_stepped")
def plain_list_of_layers(program: Program) -> Iterator[Planted]:
    for call in program.all(ast.Call):
        if (name_of(call.func) or "").split(".")[-1] in ("ModuleList", "ModuleDict", "ParameterList") and call.args:
            yield Planted(
                (
                    program.replace(
                        call, f"{'dict' if 'Dict' in program.of(call.func) else 'list'}({program.of(call.args[0])})"
                    ),
                ),
                lines_of(call),
            )


@operator("not_registered", "not_stepped")
def tensor_for_parameter(program: Program) -> Iterator[Planted]:
    for call in program.all(ast.Call):
        function = program.function(call)
        if (name_of(call.func) or "").endswith("nn.Parameter") and call.args and function and one_line(call):
            yield Planted((program.replace(call, f"({program.of(call.args[0])}).requires_grad_()"),))


@operator("gradient_counted_twice", "missing_zero_grad")
def backward_twice(program: Program) -> Iterator[Planted]:
    for statement, call, owner in _alone(program, "backward"):
        if not call.args and not call.keywords and program.stands_alone(statement):
            again = program.after(statement, f"{owner}.backward()")
            first = program.replace(call, f"{owner}.backward(retain_graph=True)")
            yield Planted((first, again))


@operator("gradient_counted_twice", "missing_zero_grad")
def parts_backward_beside_their_sum(program: Program) -> Iterator[Planted]:
    for statement, _call, owner in _alone(program, "backward"):
        block = program.block(statement)
        for other in block[: block.index(statement)]:
            if (
                isinstance(other, ast.Assign)
                and name_of(other.targets[0]) == owner
                and isinstance(other.value, ast.BinOp)
            ):
                part = other.value.left
                if isinstance(part, ast.Name) and program.stands_alone(other):
                    edit = program.after(other, f"{part.id}.backward(retain_graph=True)")
                    yield Planted((edit,), lines_of(statement))


@operator("clip_misplaced", "gradient_unused", "step_without_effect")
def clip_before_backward(program: Program) -> Iterator[Planted]:
    for statement, other in _clips(program):
        if program.of(other).endswith(".backward()") and program.stands_alone(other):
            edits = (program.replace(other, program.of(statement)), program.replace(statement, program.of(other)))
            yield Planted(edits, _neighbours(program, statement))


@operator("clip_misplaced", "gradient_unused", "step_without_effect")
def clip_after_step(program: Program) -> Iterator[Planted]:
    for statement, other in _clips(program):
        if re.search(r"\.step\(\w*\)$", program.of(other)) and program.stands_alone(other):
            edits = (program.replace(other, program.of(statement)), program.replace(statement, program.of(other)))
            yield Planted(edits, _neighbours(program, statement))


@operator("clip_misplaced")
def clip_before_unscale(program: Program) -> Iterator[Planted]:
    for statement, other in _clips(program):
        if ".unscale_(" in program.of(other) and program.stands_alone(other):
            edits = (program.replace(other, program.of(statement)), program.replace(statement, program.of(other)))
            yield Planted(edits, _neighbours(program, statement))


@operator("clip_misplaced")
def drop_unscale(program: Program) -> Iterator[Planted]:
    for statement, _, _ in _alone(program, "unscale_"):
        yield Planted((program.drop(statement),), _neighbours(program, statement))


@operator("accumulation_undivided", "missing_zero_grad")
def accumulation_not_divided(program: Program) -> Iterator[Planted]:
    for call, attribute in program.methods("backward"):
        if isinstance(attribute.value, ast.BinOp) and isinstance(attribute.value.op, ast.Div):
            yield Planted((program.replace(attribute.value, program.of(attribute.value.left)),), lines_of(call))


@operator("grad_argument")
def backward_with_a_weight(program: Program) -> Iterator[Planted]:
    for _, call, owner in _alone(program, "backward"):
        if not call.args and not call.keywords:
            yield Planted((program.replace(call, f"{owner}.backward(torch.full_like({owner}, 64.0))"),))


@operator("not_stepped", "non_leaf", "leaf_inplace")
def update_of_a_new_name(program: Program) -> Iterator[Planted]:
    for statement in program.all(ast.AugAssign):
        if (
            isinstance(statement.op, ast.Sub)
            and isinstance(statement.target, ast.Name)
            and ".grad" in program.of(statement)
        ):
            name = statement.target.id
            yield Planted((program.replace(statement, f"{name} = {name} - {program.of(statement.value)}"),))
    for update, call, owner in _alone(program, "sub_"):
        if call.args and not call.keywords:
            yield Planted((program.replace(update, f"{owner} = {owner} - {program.of(call.args[0])}"),))


def _owners(program: Program, made: ast.Assign) -> list[tuple[ast.Call, str]]:
    """Calls of ``x.parameters()`` that an optimizer is made of."""
    return [
        (call, owner)
        for call, attribute in program.methods("parameters")
        if program.statement(call) is made and (owner := name_of(attribute.value)) is not None
    ]


def _clips(program: Program) -> Iterator[tuple[ast.stmt, ast.stmt]]:
    """Statements that clip, with every other simple statement of their block."""
    for call in program.all(ast.Call):
        if (name_of(call.func) or "").split(".")[-1].startswith("clip_grad_"):
            statement = program.statement(call)
            if isinstance(statement, ast.Expr) and program.stands_alone(statement):
                for other in program.block(statement):
                    if isinstance(other, ast.Expr) and other is not statement and one_line(other):
                        yield statement, other
