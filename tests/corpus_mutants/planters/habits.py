"""Faults of whole programs: what is made anew, left behind after a step, left out of the loop, or normalized twice."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.corpus_mutants.planters.meaning import _modules
from tests.corpus_mutants.planters.missing import results
from tests.corpus_mutants.planters.optimizers import _alone, _neighbours, _optimizers, _owners
from tests.corpus_mutants.planting import Edit, Planted, Program, lines_of, name_of, one_line, operator

_OF_OTHERS = ("stale_optimizer_params", "not_stepped", "not_registered", "unused_parameter")


@operator("gradient_unused", "missing_zero_grad", "step_without_effect", "not_stepped")
def step_outside_the_loop(program: Program) -> Iterator[Planted]:
    names = _optimizers(program)
    for statement, _, owner in _alone(program, "step"):
        loop = program.loop(statement)
        last = program.block(statement)[-1]
        if owner.rpartition(".")[2] in {each.rpartition(".")[2] for each in names} and loop and loop.body[-1] is last:
            end = program.after(last, "").start
            behind = Edit(end, end, f"\n{' ' * loop.col_offset}{program.of(statement)}")
            yield Planted((program.drop(statement), behind), _neighbours(program, statement))


@operator("optimizer_made_anew", "stale_optimizer_params")
def optimizer_made_anew(program: Program) -> Iterator[Planted]:
    for name, made in _optimizers(program).items():
        for loop in program.tree.body:
            is_used = isinstance(loop, ast.For) and f"{name}.step" in program.of(loop)
            if is_used and one_line(made) and program.stands_alone(loop.body[0]):  # type: ignore[attr-defined]
                yield Planted((program.before(loop.body[0], program.of(made)),), lines_of(made))  # type: ignore[attr-defined]


@operator(*_OF_OTHERS)
def layer_made_in_forward(program: Program) -> Iterator[Planted]:
    for call in program.all(ast.Call):
        name, function = name_of(call.func) or "", program.function(call)
        if not name.startswith("self.") or function is None or function.name == "__init__":
            continue
        for made in program.all(ast.Assign):
            if name_of(made.targets[0]) == name and program.of(made.value).startswith("nn.") and one_line(made):
                yield Planted((program.replace(call.func, program.of(made.value)),), lines_of(made))


@operator("normalized_twice")
def probabilities_as_logits(program: Program) -> Iterator[Planted]:
    wrappers = {
        "cross_entropy": "F.softmax({}, dim=-1)",
        "criterion": "F.softmax({}, dim=-1)",
        "binary_cross_entropy_with_logits": "torch.sigmoid({})",
    }
    for call in program.all(ast.Call):
        wrapper = wrappers.get((name_of(call.func) or "").split(".")[-1])
        if wrapper and call.args and one_line(call):
            yield Planted((program.replace(call.args[0], wrapper.format(program.of(call.args[0]))),))


@operator("stale_optimizer_params", "not_stepped")
def optimizer_of_copies(program: Program) -> Iterator[Planted]:
    for made in _optimizers(program).values():
        for call, _ in _owners(program, made):
            text = f"[p.detach().clone().requires_grad_() for p in {program.of(call)}]"
            yield Planted((program.replace(call, text),), lines_of(made))


@operator("stale_optimizer_params", "not_stepped")
def weights_made_anew(program: Program) -> Iterator[Planted]:
    for made in _optimizers(program).values():
        for _, owner in _owners(program, made):
            if program.stands_alone(made) and "." not in owner:
                lines = (
                    f"for part in {owner}.modules():",
                    "    if isinstance(getattr(part, 'weight', None), nn.Parameter):",
                    "        part.weight = nn.Parameter(part.weight.detach() * 0.5)",
                )
                yield Planted((program.after(made, *lines),), lines_of(made))


@operator("step_without_effect")
def learning_rate_zero(program: Program) -> Iterator[Planted]:
    for made in _optimizers(program).values():
        for call in ast.walk(made.value):
            for keyword in call.keywords if isinstance(call, ast.Call) else []:
                if keyword.arg == "lr":
                    yield Planted((program.replace(keyword.value, "0.0"),), lines_of(made))


@operator("step_without_effect")
def learning_rate_decays_away(program: Program) -> Iterator[Planted]:
    names = _optimizers(program)
    for statement, _, owner in _alone(program, "step"):
        if owner in names and program.stands_alone(statement):
            line = f"{owner}.param_groups[0]['lr'] *= 1e-6"
            yield Planted((program.after(statement, line),), (*lines_of(names[owner]), *lines_of(statement)))


@operator("non_differentiable_op", "integer_cast", "term_without_gradient")
def one_hot_for_softmax(program: Program) -> Iterator[Planted]:
    for call in program.all(ast.Call):
        name = name_of(call.func) or ""
        if name.split(".")[-1] == "softmax" and call.args and one_line(call):
            value = program.of(call.args[0])
            edit = program.replace(call, f"F.one_hot(({value}).argmax(-1), ({value}).shape[-1]).float()")
            yield Planted((edit,), value=program.probe(call))


@operator("inplace_modified_saved", "leaf_inplace", "view_inplace", needs="raise")
def relu_in_place(program: Program) -> Iterator[Planted]:
    for call in program.all(ast.Call):
        name = name_of(call.func) or ""
        if name in ("F.relu", "torch.relu", "torch.sigmoid", "torch.tanh", "F.leaky_relu", "F.elu") and call.args:
            value = call.args[0]
            made = [
                line
                for statement, target in results(program)
                if isinstance(value, ast.Name) and target == value.id
                for line in lines_of(statement)
            ]
            yield Planted((program.replace(call.func, f"{name}_".replace("F.sigmoid", "torch.sigmoid")),), tuple(made))


@operator("requires_grad_false")
def frozen_after_a_step(program: Program) -> Iterator[Planted]:
    yield from _after_steps(program, "{}.requires_grad_(False)")


@operator("no_grad_block")
def grad_off_after_a_step(program: Program) -> Iterator[Planted]:
    for statement, _, owner in _alone(program, "step"):
        if owner in _optimizers(program) and program.stands_alone(statement):
            yield Planted((program.after(statement, "torch.set_grad_enabled(False)"),))


@operator("evaluation_mode")
def eval_after_a_step(program: Program) -> Iterator[Planted]:
    if re.search(r"Dropout|BatchNorm|dropout", program.text):
        yield from _after_steps(program, "{}.eval()")


@operator("requires_grad_false", "not_registered", "plain_tensor")
def parameter_left_plain(program: Program) -> Iterator[Planted]:
    for call in _parameters(program):
        yield Planted((program.replace(call, program.of(call.args[0])),))


@operator("not_registered", "not_stepped", "stale_optimizer_params")
def parameter_as_plain_leaf(program: Program) -> Iterator[Planted]:
    for call in _parameters(program):
        if program.of(program.statement(call)).startswith("self."):
            yield Planted((program.replace(call, f"({program.of(call.args[0])}).requires_grad_()"),))


@operator("non_leaf", "not_registered", "not_stepped", "graph_freed")
def leaf_times_a_factor(program: Program) -> Iterator[Planted]:
    for call in program.all(ast.Call):
        is_flagged = any(each.arg == "requires_grad" and program.of(each.value) == "True" for each in call.keywords)
        if is_flagged and program.loop(call) is None:
            yield Planted(
                (program.replace(call, f"{program.of(call)} * 0.5"),), lines_of(*_optimizers(program).values())
            )
    for call in _parameters(program):
        yield Planted((program.replace(call, f"{program.of(call)} * 0.5"),))


@operator("graph_freed", "unused_parameter", "not_stepped", "gradient_counted_twice", "missing_zero_grad",
          "parameter_without_gradient")  # fmt: skip
def backward_of_another_loss(program: Program) -> Iterator[Planted]:
    found = list(_alone(program, "backward"))
    for statement, call, owner in found:
        for _, _, other in found:
            if other != owner:
                edit = program.replace(call.func.value, other)  # type: ignore[attr-defined]
                made = [each for each, name in results(program) if name in (owner, other)]
                yield Planted((edit,), (*_neighbours(program, statement), *lines_of(*made)))


@operator("detached", "term_without_gradient")
def detach_of_a_use(program: Program) -> Iterator[Planted]:
    targets = {name for _, name in results(program)}
    for name in sorted(targets):
        uses = [
            node
            for statement, _ in results(program)
            for node in ast.walk(statement.value)
            if isinstance(node, ast.Name) and node.id == name and not isinstance(program.parents[node], ast.Attribute)
        ]
        for use in uses if len(uses) > 1 else []:
            yield Planted((program.replace(use, f"{name}.detach()"),), value=program.probe(use))


@operator("hook_alters_grad")
def hook_shrinks(program: Program) -> Iterator[Planted]:
    for made in _optimizers(program).values():
        for _, owner in _owners(program, made):
            if program.stands_alone(made):
                line = f"[p.register_hook(lambda g: g.clamp(-1e-9, 1e-9)) for p in {owner}.parameters()]"
                yield Planted((program.after(made, line),))


def _after_steps(program: Program, line: str) -> Iterator[Planted]:
    """A line about a module behind the last step of a loop, which all later turns of the loop meet."""
    names = _optimizers(program)
    for statement, _, owner in _alone(program, "step"):
        if owner in names and program.stands_alone(statement):
            for module in _modules(program):
                yield Planted((program.after(statement, line.format(module)),))


def _parameters(program: Program) -> Iterator[ast.Call]:
    """Calls that make one parameter of a tensor."""
    for call in program.all(ast.Call):
        plain = re.fullmatch(r"(torch\.)?nn\.Parameter", name_of(call.func) or "")
        if plain and len(call.args) == 1 and one_line(call):
            yield call


@operator("gradient_into_target", "requires_grad_false", "inplace_modified_saved", "optimizer_step_before_backward",
          "copied_onto_itself", "cancelled_out", "zero_gradient_op", "gradient_always_zero")  # fmt: skip
def alias_for_copy(program: Program) -> Iterator[Planted]:
    for call in program.all(ast.Call):
        if (name_of(call.func) or "").endswith("deepcopy") and len(call.args) == 1:
            yield Planted((program.replace(call, program.of(call.args[0])),))


@operator("grad_argument", "unscaled_step", "clip_misplaced", "step_without_effect")
def step_without_the_scaler(program: Program) -> Iterator[Planted]:
    for statement, call, _ in _alone(program, "step"):
        if len(call.args) == 1 and name_of(call.args[0]) in _optimizers(program):
            edit = program.replace(statement, f"{program.of(call.args[0])}.step()")
            yield Planted((edit,), _neighbours(program, statement))


@operator("graph_freed", "optimizer_step_before_backward")
def forward_before_the_loop(program: Program) -> Iterator[Planted]:
    for statement, _ in results(program):
        loop = program.loop(statement)
        if loop in program.tree.body and statement in loop.body and isinstance(statement.value, ast.Call):
            assert loop is not None
            before = loop.body[: loop.body.index(statement)]
            if all(isinstance(each, ast.Assign) for each in before) and len(before) < 3:
                lines = [*(program.of(each) for each in before), program.of(statement)]
                edits = (program.before(loop, *lines), program.drop(statement))
                steps = _neighbours(program, statement)
                yield Planted(edits, (*steps, *lines_of(statement)), value=program.probe(statement.value))


@operator("inference_tensor", "no_grad_block")
def inference_for_no_grad(program: Program) -> Iterator[Planted]:
    for call in program.all(ast.Call):
        if name_of(call.func) == "torch.no_grad" and not call.args:
            users = [each for each in program.all(ast.With) if each.items[0].context_expr is call]
            yield Planted((program.replace(call.func, "torch.inference_mode"),), lines_of(*users))


@operator("tensor_rewrap", "term_without_gradient", "detached")
def tensor_for_stack(program: Program) -> Iterator[Planted]:
    for call in program.all(ast.Call):
        if name_of(call.func) == "torch.stack" and len(call.args) == 1 and not call.keywords:
            yield Planted((program.replace(call.func, "torch.tensor"),), value=program.probe(call))


@operator("inplace_modified_saved", "leaf_inplace", "view_inplace", needs="raise")
def added_in_place(program: Program) -> Iterator[Planted]:
    for statement, name in results(program):
        formula = statement.value
        if isinstance(formula, ast.BinOp) and isinstance(formula.op, ast.Add) and name_of(formula.left) == name:
            yield Planted((program.replace(statement, f"{name} += {program.of(formula.right)}"),))
