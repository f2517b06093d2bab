"""Faults where autograd does what was written: gradients where none were meant, modes, indexes, shapes and changes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.corpus_mutants.planters.missing import results
from tests.corpus_mutants.planting import Planted, Program, lines_of, name_of, one_line, operator

_UNMEANT = (
    "gradient_into_target", "state_not_detached", "graph_freed", "graph_retained_leak", "zero_gradient_op",
    "inplace_modified_saved", "optimizer_step_before_backward", "leaf_inplace", "missing_zero_grad", "cancelled_out",
    "numpy_roundtrip",
)  # fmt: skip
"""The last one is what torch raises where NumPy gets a tensor with a history."""


@operator(*_UNMEANT)
def drop_detach(program: Program) -> Iterator[Planted]:
    for call, attribute in program.methods("detach"):
        yield Planted((program.cut(program.end(attribute.value), program.end(call)),))


@operator(*_UNMEANT)
def drop_no_grad(program: Program) -> Iterator[Planted]:
    for block in program.all(ast.With):
        if len(block.items) == 1 and program.of(block.items[0].context_expr) == "torch.no_grad()":
            yield Planted((program.replace(block.items[0].context_expr, "torch.enable_grad()"),), lines_of(*block.body))


@operator(*_UNMEANT)
def drop_no_grad_decorator(program: Program) -> Iterator[Planted]:
    for function in program.all(ast.FunctionDef):
        for decorator in function.decorator_list:
            if program.of(decorator) == "torch.no_grad()":
                lines = (function.lineno, *lines_of(*function.body))
                yield Planted((program.replace(decorator, "torch.enable_grad()"),), lines)


@operator("gradient_into_target", "missing_zero_grad", "stale_optimizer_params", "not_stepped", "graph_freed")
def target_not_frozen(program: Program) -> Iterator[Planted]:
    for call, attribute in program.methods("requires_grad_"):
        if call.args and program.of(call.args[0]) == "False":
            yield Planted((program.cut(program.end(attribute.value), program.end(call)),))


@operator("graph_retained_leak", needs="nothing")
def keep_losses(program: Program) -> Iterator[Planted]:
    for call, attribute in program.methods("backward"):
        loop, statement = program.loop(call), program.statement(call)
        name = name_of(attribute.value)
        if loop is not None and loop in program.tree.body and name and program.stands_alone(statement):
            yield Planted((program.before(loop, "kept = []"), program.after(statement, f"kept.append({name} * 1)")))


@operator("graph_retained_leak", needs="nothing")
def append_without_item(program: Program) -> Iterator[Planted]:
    for call, attribute in program.methods("item"):
        around = program.parents[call]
        is_kept = isinstance(around, ast.Call) and (name_of(around.func) or "").endswith(".append")
        if is_kept or isinstance(around, ast.AugAssign):
            edit = program.cut(program.end(attribute.value), program.end(call))
            yield Planted((edit,), value=program.probe(attribute.value))


@operator("graph_freed", "state_not_detached", "optimizer_step_before_backward", "inplace_modified_saved")
def sum_of_all_losses(program: Program) -> Iterator[Planted]:
    for call, attribute in program.methods("backward"):
        loop, statement = program.loop(call), program.statement(call)
        name = name_of(attribute.value)
        if loop is not None and loop in program.tree.body and name and program.stands_alone(statement):
            added = program.replace(attribute.value, "so_far")
            line = program.before(statement, f"so_far = so_far + {name}")
            yield Planted((program.before(loop, "so_far = 0"), line, added))


@operator("graph_freed")
def drop_retain_graph(program: Program) -> Iterator[Planted]:
    for call in program.all(ast.Call):
        for keyword in call.keywords:
            if keyword.arg == "retain_graph" and program.of(keyword.value) == "True":
                yield Planted((program.replace(keyword.value, "False"),), lines_of(call))


@operator("evaluation_mode")
def eval_before_training(program: Program) -> Iterator[Planted]:
    for statement in program.tree.body:
        if isinstance(statement, (ast.For, ast.While)):
            for name in _modules(program):
                yield Planted((program.before(statement, f"{name}.eval()"),))


@operator("evaluation_mode")
def train_left_out(program: Program) -> Iterator[Planted]:
    for call, attribute in program.methods("train"):
        if not call.args and isinstance(program.parents[call], ast.Expr):
            evals = [
                other
                for other, theirs in program.methods("eval")
                if program.of(theirs.value) == program.of(attribute.value)
            ]
            yield Planted((program.drop(program.parents[call]),), lines_of(*evals))


@operator("evaluation_mode", "training_mode")
def train_for_eval(program: Program) -> Iterator[Planted]:
    for call, attribute in program.methods("eval"):
        yield Planted((program.replace(call, f"{program.of(attribute.value)}.train()"),))


@operator("other_random_numbers")
def rng_state_not_preserved(program: Program) -> Iterator[Planted]:
    for call in program.all(ast.Call):
        if (name_of(call.func) or "").split(".")[-1].startswith("checkpoint"):
            end = program.end(call) - 1
            yield Planted(
                (program.replace(call, program.text[program.start(call) : end] + ", preserve_rng_state=False)"),)
            )


_ACCUMULATING = {
    "index_add_": "index_copy_",
    "index_add": "index_copy",
    "scatter_add_": "scatter_",
    "scatter_add": "scatter",
}


@operator("duplicate_index")
def last_one_wins(program: Program) -> Iterator[Planted]:
    for _, attribute in program.methods(*_ACCUMULATING):
        end = program.end(attribute)
        name = attribute.attr
        start = end - len(name)
        yield Planted((type(program.cut(0, 0))(start, end, _ACCUMULATING[name]),))
    for call, _ in program.methods("index_put_", "index_put"):
        for keyword in call.keywords:
            if keyword.arg == "accumulate":
                yield Planted((program.replace(keyword.value, "False"),))


@operator("duplicate_index")
def added_through_an_index(program: Program) -> Iterator[Planted]:
    for call, attribute in program.methods("index_add_", "index_add"):
        statement = program.statement(call)
        is_known = len(call.args) == 3 and program.of(call.args[0]) == "0"
        if not is_known or not isinstance(statement, (ast.Expr, ast.Assign)) or statement.value is not call:
            continue
        target, first = program.of(attribute.value), ""
        if isinstance(statement, ast.Assign):
            target = program.of(statement.targets[0])
            first = f"{target} = {program.of(attribute.value)}\n{' ' * statement.col_offset}"
        if program.stands_alone(statement):
            changed = f"{first}{target}[{program.of(call.args[1])}] += {program.of(call.args[2])}"
            yield Planted((program.replace(statement, changed),))


@operator("broadcast_mismatch", "grad_argument")
def drop_squeeze(program: Program) -> Iterator[Planted]:
    for call, attribute in program.methods("squeeze", "flatten", "view"):
        if one_line(call) and re.search(r"\((-1|1|)\)$", program.of(call)):
            yield Planted(
                (program.cut(program.end(attribute.value), program.end(call)),), lines_of(*_uses(program, call))
            )


@operator("broadcast_mismatch")
def drop_keepdim(program: Program) -> Iterator[Planted]:
    for call in program.all(ast.Call):
        for keyword in call.keywords:
            if keyword.arg == "keepdim" and program.of(keyword.value) == "True":
                yield Planted((program.replace(keyword.value, "False"),), lines_of(*_uses(program, call)))


@operator("broadcast_mismatch")
def axis_added_to_the_target(program: Program) -> Iterator[Planted]:
    for call in program.all(ast.Call):
        if (name_of(call.func) or "").split(".")[-1] in ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss") and len(
            call.args
        ) > 1:
            text = program.of(call.args[1])
            yield Planted((program.replace(call.args[1], f"({text}).unsqueeze(-1)"),))
            yield Planted((program.replace(call.args[1], f"({text}).squeeze(-1)"),))


@operator("grad_argument")
def loss_not_reduced(program: Program) -> Iterator[Planted]:
    for statement in program.all(ast.Assign):
        target = name_of(statement.targets[0]) or ""
        value = statement.value
        if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Attribute):
            continue
        if "loss" in target and value.func.attr in ("mean", "sum") and not value.args and one_line(statement):
            edit = program.cut(program.end(value.func.value), program.end(value))
            yield Planted((edit,), _backward_lines(program, target))


@operator("inplace_modified_saved", "view_inplace", "leaf_inplace", needs="raise")
def in_place_before_use(program: Program) -> Iterator[Planted]:
    for statement, name in _kept_by_backward(program):
        yield Planted((program.after(statement, f"{name}.mul_(0.5)"),))


@operator("inplace_modified_saved", "view_inplace", "leaf_inplace", needs="raise")
def in_place_through_a_view(program: Program) -> Iterator[Planted]:
    for statement, name in _kept_by_backward(program):
        yield Planted((program.after(statement, f"{name}[:1] = 0"),))


@operator("data_access", "data_written_unseen")
def data_changed_unseen(program: Program) -> Iterator[Planted]:
    for statement, name in _kept_by_backward(program):
        edit = program.after(statement, f"{name}.data.mul_(0.5)")
        yield Planted((edit,), value=program.probe(statement.value))


def _tied_weights(program: Program) -> Iterator[tuple[ast.Attribute, ast.Attribute]]:
    """Both sides of ``a.weight = b.weight``."""
    for statement in program.all(ast.Assign):
        target, value = statement.targets[0], statement.value
        if (
            isinstance(target, ast.Attribute)
            and isinstance(value, ast.Attribute)
            and target.attr == value.attr == "weight"
        ):
            yield target, value


@operator("broken_weight_tie", "unused_parameter", "stale_optimizer_params")
def tie_through_a_copy(program: Program) -> Iterator[Planted]:
    for _, value in _tied_weights(program):
        yield Planted((program.replace(value, f"nn.Parameter({program.of(value)}.detach().clone())"),))


@operator("broken_weight_tie", "data_access", "unused_parameter")
def tie_through_data(program: Program) -> Iterator[Planted]:
    for target, value in _tied_weights(program):
        yield Planted(
            (
                program.replace(target, f"{program.of(target)}.data"),
                program.replace(value, f"{program.of(value)}.data"),
            )
        )


@operator("masked_out", "zero_gradient_op", "dead_relu", "zero_factors")
def all_weights_zero(program: Program) -> Iterator[Planted]:
    for statement, name in _module_lines(program):
        yield Planted((program.after(statement, f"[nn.init.zeros_(p) for p in {name}.parameters()]"),))


@operator("dead_relu", "zero_gradient_op", "saturation")
def bias_far_below(program: Program) -> Iterator[Planted]:
    for statement, name in _module_lines(program):
        if re.search(r"relu", program.text, re.IGNORECASE):
            fill = f"[nn.init.constant_(b, -1e3) for n, b in {name}.named_parameters() if n.endswith('bias')]"
            relus = [call for call in program.all(ast.Call) if re.search(r"relu", program.of(call.func), re.IGNORECASE)]
            yield Planted((program.after(statement, fill),), lines_of(*(r for r in relus if one_line(r))))


@operator("nan_from_op", "nan_in_masked_branch", "overflow")
def root_of_zero(program: Program) -> Iterator[Planted]:
    for statement, _name in results(program):
        text = program.of(statement.value)
        edit = program.replace(statement.value, f"({text}) + (({text}) * 0).abs().sqrt()")
        yield Planted((edit,), value=program.probe(statement.value))


@operator("overflow", "nan_from_op", "nan_in_masked_branch", "exploding_chain")
def exponential_overflows(program: Program) -> Iterator[Planted]:
    for statement, _name in results(program):
        text = program.of(statement.value)
        edit = program.replace(statement.value, f"torch.log1p(torch.exp(({text}) + 1000))")
        yield Planted((edit,), value=program.probe(statement.value))


def _modules(program: Program) -> list[str]:
    return [name for _, name in _module_lines(program)]


def _module_lines(program: Program) -> Iterator[tuple[ast.Assign, str]]:
    classes = {each.name for each in program.all(ast.ClassDef) if any("Module" in program.of(b) for b in each.bases)}
    for statement in program.tree.body:
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Call):
            made, name = name_of(statement.value.func) or "", name_of(statement.targets[0])
            is_layer = made.startswith(("nn.", "torch.nn.")) and "Loss" not in made and "Parameter" not in made
            if name and (is_layer or made in classes) and program.stands_alone(statement):
                yield statement, name


def _kept_by_backward(program: Program) -> Iterator[tuple[ast.Assign, str]]:
    """Results whose own values backward needs."""
    for statement, name in results(program):
        if re.search(r"\b(tanh|sigmoid|softmax|exp|relu|sqrt)\(", program.of(statement.value)):
            yield statement, name


def _uses(program: Program, call: ast.Call) -> list[ast.stmt]:
    """Where the name that a call's result is given to is used."""
    statement = program.statement(call)
    names = {node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    function = program.function(call)
    users = [
        program.statement(node)
        for node in program.all(ast.Name)
        if node.id in names and isinstance(node.ctx, ast.Load) and program.function(node) is function
    ]
    if isinstance(statement, ast.Return) and function is not None:
        callers = (
            program.statement(c) for c in program.all(ast.Call) if (name_of(c.func) or "").endswith(function.name)
        )
        users += [*callers, *(each for each in program.all(ast.Assign) if "loss" in program.of(each))]
    return [user for user in users if not hasattr(user, "body")]


def _backward_lines(program: Program, name: str) -> tuple[int, ...]:
    return tuple(call.lineno for call, attribute in program.methods("backward") if name_of(attribute.value) == name)
