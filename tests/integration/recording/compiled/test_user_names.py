"""What compiled code has is called as the program calls it, and what the program did not ask for is left out."""

# Much of torch has no types.
# mypy: allow-untyped-calls, allow-untyped-defs
from __future__ import annotations

import warnings
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from gradviz.analysis.case import Case
from gradviz.analysis.flow.gradient_flow import gradient_flow
from gradviz.analysis.rules.zero_gradients.gradient_always_zero import GradientAlwaysZero
from gradviz.capture.capture import Capture
from gradviz.recording.torch_access.dynamo.dynamo_graphs import draws_like_uncompiled_code
from tests.integration.recording.compiled.test_whole_steps import STEP, alarms
from tests.integration.recording.helpers import EVERY_CALL, recorded_script


def recorded(folder: Path, program: str, *, inside: bool = False) -> Capture:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        capture = recorded_script(folder, program, replace(EVERY_CALL, inside=inside))
    assert capture.error is None, capture.error
    return capture


@pytest.mark.parametrize(
    ("call", "name"),
    [
        ("loss.backward()", "loss"),
        ("torch.autograd.backward(\n        [loss]\n    )", "loss"),
        ("(2 * loss).backward()", None),
        ("loss.backward(); loss = None", "loss"),
    ],
)
def test_a_loss_at_a_graph_break_has_the_name_that_the_line_gives_it(
    tmp_path: Path, call: str, name: str | None
) -> None:
    program = STEP.replace("BEFORE", "optimizer.zero_grad()").replace("AFTER", "pass").replace("loss.backward()", call)
    capture = recorded(tmp_path, program)
    assert {graph.roots[0].name for graph in capture.graphs} == {name}


EXPORTED = """
import torch

class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.act = torch.nn.Linear(3, 3), torch.nn.Tanh()

    def forward(self, x):
        return x + self.act(self.linear(x))

net = torch.nn.Sequential(Block(), Block(), torch.nn.Linear(3, 1))
exported = torch.export.export(net, (torch.ones(2, 3),)).module()
del net
model = COMPILED
model(torch.ones(2, 3)).sum().backward()
"""


def test_an_exported_model_has_the_same_modules_when_it_is_compiled(tmp_path: Path) -> None:
    def modules(how: str) -> set[tuple[str, str]]:
        (graph,) = recorded(tmp_path, EXPORTED.replace("COMPILED", how)).graphs
        return {(scope.path.partition(".")[2], scope.class_name) for scope in graph.scopes}

    compiled = modules("torch.compile(exported, backend='aot_eager')")
    assert compiled == modules("exported")
    assert ("1.linear", "Linear") in compiled


GRAD = """
import torch

net = torch.compile(torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Tanh()), backend="aot_eager")
x = torch.ones(2, 3, requires_grad=True)
torch.autograd.grad(net(x).sum(), x)
"""


def test_gradients_that_were_not_asked_for_are_not_told_though_compiled_code_computes_them(tmp_path: Path) -> None:
    capture = recorded(tmp_path, GRAD)
    rows = gradient_flow(capture, capture.graphs[0]).rows
    assert [row.name for row in rows if row.nothing is None] == ["x"]


ORDER = """
import torch

model = torch.nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

@torch.compile(backend="eager")
def update():
    FIRST
    THEN

for _ in range(2):
    model(torch.randn(4, 3)).square().mean().backward()
    update()
"""


@pytest.mark.parametrize("clears_first", [False, True])
def test_compiled_code_that_clears_gradients_before_it_steps_is_told_from_the_other_order(
    tmp_path: Path, *, clears_first: bool
) -> None:
    lines = ["optimizer.step()", "optimizer.zero_grad(set_to_none=False)"]
    first, then = reversed(lines) if clears_first else lines
    capture = recorded(tmp_path, ORDER.replace("FIRST", first).replace("THEN", then))
    assert ("GV601" in alarms(capture)) == clears_first


UNUSED = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.head = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)

    def forward(self, x):
        return self.head(x), self.gate(x)

model = Net()
net = torch.compile(model, backend="BACKEND")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(2):
    optimizer.zero_grad()
    net(torch.randn(4, 3))[0].square().sum().backward()
    optimizer.step()
"""


def test_zeros_that_compiled_code_sends_to_what_nothing_uses_are_explained_by_that(tmp_path: Path) -> None:
    """`check` shows another rule, which knows the line, in place of this one."""
    case = Case(recorded(tmp_path, UNUSED.replace("BACKEND", "aot_eager")))
    (finding,) = GradientAlwaysZero().check(case)
    assert set(finding.tensors) == {"net.gate.weight", "net.gate.bias"}
    assert "sends zeros" in finding.why and "leaves compiled code" in finding.fix


@pytest.mark.parametrize("inside", [False, True])
def test_nobody_is_sent_to_an_option_that_is_given(tmp_path: Path, *, inside: bool) -> None:
    capture = recorded(tmp_path, UNUSED.replace("BACKEND", "eager"), inside=inside)
    (told,) = (each for each in capture.disclosures if "numbers inside compiled code" in each)
    assert ("--inside" in told) != inside


def test_a_setting_of_torch_is_read_as_it_is_now() -> None:
    import torch._inductor.config as settings

    assert not draws_like_uncompiled_code("inductor")
    with settings.patch(fallback_random=True):
        assert draws_like_uncompiled_code("inductor")


LOOKED_AT = """
import torch

@torch.compile(backend="aot_eager")
def f(x):
    x = x.sin().cos()
    if x.square().exp().sum().item() > 1e9:
        x = x / 2
    return x.tanh()

f(torch.ones(3, requires_grad=True)).sum().backward()
"""


def test_operations_that_a_graph_break_only_looks_at_are_not_counted_as_unmeasured(tmp_path: Path) -> None:
    capture = recorded(tmp_path, LOOKED_AT)
    (graph,) = capture.graphs
    inside = Counter(node.region for node in graph.nodes if node.region is not None)
    several = sum(count for count in inside.values() if count > 1)
    assert any(f"between the {several} operations inside" in each for each in capture.disclosures), capture.disclosures
