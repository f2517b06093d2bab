"""Faults that take the gradient away from a path: nothing comes back, or only zeros."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.corpus_mutants.planting import Planted, Program, lines_of, name_of, one_line, operator

_PLAIN = frozenset({"range", "len", "torch.randn", "torch.rand", "torch.randint", "torch.zeros", "torch.ones"})
_SET_UP = frozenset({"__init__", "main", "setup_context", "backward"})


def results(program: Program) -> Iterator[tuple[ast.Assign, str]]:
    """Assignments of what a call or a formula gives to one name, where a step or a forward runs."""
    for statement in program.all(ast.Assign):
        target, value = statement.targets[0], statement.value
        function = program.function(statement)
        runs = program.loop(statement) is not None or (function is not None and function.name not in _SET_UP)
        is_formula = isinstance(value, (ast.BinOp, ast.Call, ast.Subscript, ast.UnaryOp))
        if not (runs and is_formula and len(statement.targets) == 1 and isinstance(target, ast.Name)):
            continue
        if isinstance(value, ast.Call) and name_of(value.func) in _PLAIN:
            continue
        if one_line(statement) and program.stands_alone(statement):
            yield statement, target.id


def _appended(program: Program, suffix: str) -> Iterator[Planted]:
    for statement, _ in results(program):
        text = program.of(statement.value)
        needs_brackets = not isinstance(statement.value, (ast.Call, ast.Subscript))
        yield Planted(
            (program.replace(statement.value, f"({text}){suffix}" if needs_brackets else text + suffix),),
            value=program.probe(statement.value),
        )


def _wrapped(program: Program, template: str) -> Iterator[Planted]:
    for statement, _ in results(program):
        edit = program.replace(statement.value, template.format(program.of(statement.value)))
        yield Planted((edit,), value=program.probe(statement.value))


def _inside_of(program: Program, line: str) -> Iterator[Planted]:
    for statement, _ in results(program):
        yield Planted((program.within(statement, line),), value=program.probe(statement.value))


@operator("detached", "term_without_gradient")
def add_detach(program: Program) -> Iterator[Planted]:
    yield from _appended(program, ".detach()")


@operator("data_access", "term_without_gradient")
def use_data(program: Program) -> Iterator[Planted]:
    yield from _appended(program, ".data")


@operator("no_grad_block", "term_without_gradient")
def no_grad_around(program: Program) -> Iterator[Planted]:
    yield from _inside_of(program, "with torch.no_grad():")


@operator("no_grad_block", "term_without_gradient")
def no_grad_on_function(program: Program) -> Iterator[Planted]:
    for function in program.all(ast.FunctionDef):
        if function.name not in _SET_UP and not function.decorator_list:
            called = [
                call.lineno for call in program.all(ast.Call) if (name_of(call.func) or "").endswith(function.name)
            ]
            yield Planted((program.before(function, "@torch.no_grad()"),), (function.lineno, *called))


@operator("no_grad_block")
def grad_mode_left_off(program: Program) -> Iterator[Planted]:
    for statement in program.tree.body:
        if isinstance(statement, (ast.For, ast.While)):
            yield Planted((program.before(statement, "torch.set_grad_enabled(False)"),))


@operator("inference_tensor", "no_grad_block", "term_without_gradient")
def inference_mode_around(program: Program) -> Iterator[Planted]:
    yield from _inside_of(program, "with torch.inference_mode():")


@operator("tensor_rewrap", "numpy_roundtrip", "term_without_gradient")
def tensor_of_list(program: Program) -> Iterator[Planted]:
    yield from _wrapped(program, "torch.tensor(({}).tolist())")


@operator("numpy_roundtrip", "detached", "term_without_gradient")
def through_numpy(program: Program) -> Iterator[Planted]:
    yield from _wrapped(program, "torch.from_numpy(({}).detach().numpy())")


@operator("non_differentiable_op", "integer_cast", "term_without_gradient")
def compared(program: Program) -> Iterator[Planted]:
    yield from _wrapped(program, "(({}) > 0).float()")


@operator("integer_cast", "non_differentiable_op", "term_without_gradient")
def cast_to_integers(program: Program) -> Iterator[Planted]:
    yield from _wrapped(program, "({}).mul(10).long() / 10")


@operator("zero_gradient_op", "term_without_gradient")
def rounded(program: Program) -> Iterator[Planted]:
    yield from _appended(program, ".mul(4).round()")


@operator("zero_gradient_op", "term_without_gradient")
def sign_of(program: Program) -> Iterator[Planted]:
    yield from _wrapped(program, "torch.sign({})")


@operator("saturation", "term_without_gradient")
def clamped_outside(program: Program) -> Iterator[Planted]:
    yield from _appended(program, ".clamp(min=1e4)")


@operator("masked_out", "term_without_gradient")
def masked_with_zeros(program: Program) -> Iterator[Planted]:
    yield from _wrapped(program, "({0}) * torch.zeros_like({0})")


@operator("hook_alters_grad")
def hook_gives_zeros(program: Program) -> Iterator[Planted]:
    for statement, name in results(program):
        hook = f"{name}.register_hook(lambda g: torch.zeros_like(g))"
        yield Planted((program.after(statement, hook),), value=program.probe(statement.value))


@operator("tensor_rewrap", "detached", "unused_parameter", "term_without_gradient")
def item_of_a_term(program: Program) -> Iterator[Planted]:
    for formula in _sums(program):
        for term in _terms(formula):
            if isinstance(term, ast.Name):
                yield Planted((program.replace(term, f"{term.id}.item()"),))


@operator("detached", "term_without_gradient")
def detach_of_a_term(program: Program) -> Iterator[Planted]:
    for formula in _sums(program):
        for term in _terms(formula):
            if isinstance(term, (ast.Name, ast.Call)):
                yield Planted((program.replace(term, f"{program.of(term)}.detach()"),))


@operator("masked_out", "zero_gradient_op", "term_without_gradient")
def zero_weight_of_a_term(program: Program) -> Iterator[Planted]:
    for formula in _sums(program):
        for term in _terms(formula):
            if isinstance(term, (ast.Name, ast.Call)):
                yield Planted((program.replace(term, f"0.0 * {program.of(term)}"),))


@operator("unused_parameter", needs="loss")
def drop_a_term(program: Program) -> Iterator[Planted]:
    for formula in _sums(program):
        if isinstance(formula.op, ast.Add):
            uses = lines_of(*(definition for name in _names(formula) for definition in _definitions(program, name)))
            yield Planted((program.replace(formula, program.of(formula.left)),), uses)
            yield Planted((program.replace(formula, program.of(formula.right)),), uses)


@operator("unused_parameter", needs="loss")
def term_overwritten(program: Program) -> Iterator[Planted]:
    for formula in _sums(program):
        statement = program.statement(formula)
        if not isinstance(statement, ast.Assign) or statement.value is not formula:
            continue
        if one_line(statement) and program.stands_alone(statement) and isinstance(formula.op, ast.Add):
            target = program.of(statement.targets[0])
            text = f"{target} = {program.of(formula.left)}\n{' ' * statement.col_offset}{target} = "
            uses = lines_of(*(definition for name in _names(formula) for definition in _definitions(program, name)))
            yield Planted((program.replace(statement, text + program.of(formula.right)),), uses)


@operator("unused_parameter", needs="loss")
def layer_left_out(program: Program) -> Iterator[Planted]:
    for call in program.all(ast.Call):
        name, function = name_of(call.func) or "", program.function(call)
        is_plain = len(call.args) == 1 and not call.keywords and one_line(call)
        if name.startswith("self.") and is_plain and function is not None and function.name != "__init__":
            yield Planted((program.replace(call, program.of(call.args[0])),), _made(program, name))


@operator("detached", "tensor_rewrap", "requires_grad_false")
def loss_made_a_leaf(program: Program) -> Iterator[Planted]:
    for call, attribute in program.methods("backward"):
        name = name_of(attribute.value)
        statement = program.statement(call)
        if name and program.stands_alone(statement):
            yield Planted((program.before(statement, f"{name} = {name}.detach().requires_grad_()"),))


@operator("detached", "no_grad_block", "data_access", "sampled_without_gradient", "term_without_gradient")
def sample_for_rsample(program: Program) -> Iterator[Planted]:
    for _, attribute in program.methods("rsample"):
        start = program.end(attribute) - len("rsample")
        yield Planted((program.cut(start, start + 1),))


@operator("detached", "double_backward_unsupported", "requires_grad_false", "no_grad_block", "create_graph_missing",
          "unused_parameter", "term_without_gradient")  # fmt: skip
def drop_create_graph(program: Program) -> Iterator[Planted]:
    for call in program.all(ast.Call):
        for keyword in call.keywords:
            if keyword.arg == "create_graph":
                yield Planted((program.replace(keyword, "retain_graph=True"),), lines_of(call))


@operator("requires_grad_false")
def drop_requires_grad(program: Program) -> Iterator[Planted]:
    for call, attribute in program.methods("requires_grad_"):
        if not call.args or program.of(call.args[0]) == "True":
            yield Planted((program.cut(program.end(attribute.value), program.end(call)),))
    for call in program.all(ast.Call):
        for keyword in call.keywords:
            if keyword.arg == "requires_grad" and program.of(keyword.value) == "True":
                yield Planted((program.replace(keyword.value, "False"),))


@operator("requires_grad_false", "stale_optimizer_params")
def freeze_a_module(program: Program) -> Iterator[Planted]:
    for statement in program.tree.body:
        made = isinstance(statement, ast.Expr) and statement.col_offset == 0
        if made or not isinstance(statement, ast.Assign) or not program.stands_alone(statement):
            continue
        target = statement.targets[0]
        if isinstance(target, ast.Name) and _is_module(program, statement.value):
            yield Planted((program.after(statement, f"{target.id}.requires_grad_(False)"),))


@operator("requires_grad_false")
def freeze_by_hand(program: Program) -> Iterator[Planted]:
    for statement in program.tree.body:
        is_optimizer = isinstance(statement, ast.Assign) and "optim." in program.of(statement.value)
        if is_optimizer and program.stands_alone(statement):
            for call, attribute in program.methods("parameters"):
                owner = name_of(attribute.value)
                if owner and program.statement(call) is statement:
                    yield Planted(
                        (program.after(statement, f"for p in {owner}.parameters():", "    p.requires_grad = False"),)
                    )


@operator("reentrant_checkpoint")
def reentrant_checkpoint(program: Program) -> Iterator[Planted]:
    for call in program.all(ast.Call):
        for keyword in call.keywords:
            if keyword.arg == "use_reentrant" and program.of(keyword.value) == "False":
                yield Planted((program.replace(keyword.value, "True"),))


def _is_module(program: Program, value: ast.expr) -> bool:
    text = program.of(value)
    classes = {each.name for each in program.all(ast.ClassDef) if any("Module" in program.of(b) for b in each.bases)}
    name = name_of(value.func) if isinstance(value, ast.Call) else None
    return bool(name) and (text.startswith(("nn.", "torch.nn.")) or name in classes) and "Loss" not in text


def _sums(program: Program) -> Iterator[ast.BinOp]:
    """Outermost sums and differences that are a loss or a part of one."""
    for formula in program.all(ast.BinOp):
        statement = program.statement(formula)
        parent = program.parents[formula]
        outermost = not (isinstance(parent, ast.BinOp) and isinstance(parent.op, (ast.Add, ast.Sub)))
        text = program.of(statement).partition("=")[0]
        if (
            outermost
            and isinstance(formula.op, (ast.Add, ast.Sub))
            and one_line(formula)
            and ("loss" in text or "total" in text or ".backward" in text or isinstance(statement, ast.Return))
        ):
            yield formula


def _terms(formula: ast.expr) -> Iterator[ast.expr]:
    if isinstance(formula, ast.BinOp) and isinstance(formula.op, (ast.Add, ast.Sub)):
        yield from _terms(formula.left)
        yield from _terms(formula.right)
    elif isinstance(formula, ast.BinOp) and isinstance(formula.op, ast.Mult):
        yield formula.right
    else:
        yield formula


def _names(node: ast.AST) -> list[str]:
    return [each.id for each in ast.walk(node) if isinstance(each, ast.Name)]


def _definitions(program: Program, name: str) -> Iterator[ast.stmt]:
    for statement in program.all(ast.Assign):
        if name in [each for target in statement.targets for each in _names(target)] and program.loop(statement):
            yield statement


def _made(program: Program, name: str) -> tuple[int, ...]:
    return tuple(
        statement.lineno
        for statement in program.all(ast.Assign)
        if any(name_of(target) == name for target in statement.targets)
    )
