"""The gradients on every edge are those of an independent computation, and measuring them changes nothing."""

# Much of torch has no types: backward, register_hook, Function.apply.
# mypy: allow-untyped-calls, no-warn-return-any
from __future__ import annotations

import gc
import math
import weakref
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import msgspec
import pytest
import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

from gradviz.capture.capture_file import read_capture, write_capture
from gradviz.graph.gradients import FIRST_DECADE, BranchShare, TensorFigures
from gradviz.graph.model import Graph, Node
from gradviz.recording.backward.gradients import gradient_sums
from gradviz.recording.backward.gradients.gradient_meter import GradientMeter
from gradviz.recording.backward.gradients.gradient_watch import GradientWatch
from gradviz.recording.run.recording_plan import RecordingPlan
from gradviz.recording.walk.graph_walker import walk
from tests.integration.recording.child import forked_result
from tests.integration.recording.helpers import (
    EVERY_BACKWARD,
    leaf_named,
    node_named,
    nodes_named,
    record,
    record_failing,
    recorder,
)
from tests.integration.recording.small_graphs import PROGRAMS, independent_walk, weight


def figures(gradient: Tensor) -> tuple[float, ...]:
    """Norm, mean, minimum, maximum and zeros in plain Python."""
    if gradient.is_sparse:
        gradient = gradient.to_dense()
    values = (gradient.abs() if gradient.is_complex() else gradient).detach().double().flatten().tolist()
    if not values:
        return (0.0,)
    norm = math.sqrt(math.fsum(value * value for value in values))
    return norm, math.fsum(values) / len(values), min(values), max(values), float(values.count(0))


def recorded_figures(facts: TensorFigures | None) -> tuple[float, ...]:
    assert facts is not None, "not measured"
    assert facts.is_measured, facts
    if not facts.count:
        return (0.0,)
    assert facts.norm is not None and facts.mean is not None
    assert facts.minimum is not None and facts.maximum is not None
    return facts.norm, facts.mean, facts.minimum, facts.maximum, float(facts.zeros)


def close(expected: tuple[float, ...]) -> Any:
    return pytest.approx(expected, rel=1e-5, abs=1e-6 * max(1, *map(abs, expected)))


SLOW_OR_REFUSED = ("reentrant checkpoint", "a nested tensor", "a long chain that is cut for freeing")
"""Programs for which autograd.grad at every node is refused by torch, or takes long."""


@pytest.mark.parametrize("words", [words for words in PROGRAMS if words not in SLOW_OR_REFUSED])
def test_the_gradient_that_arrives_at_every_node_is_that_of_autograd_grad(words: str) -> None:
    roots = PROGRAMS[words]()
    starts = [torch.ones_like(root) for root in roots]
    wrappers = walk(torch.autograd.graph.get_gradient_edge(root).node for root in roots).wrappers
    expected = {
        (place, output_nr): torch.autograd.grad(
            roots, [GradientEdge(node, output_nr)], starts, retain_graph=True, allow_unused=True
        )[0]
        for place, node in enumerate(wrappers)
        for output_nr in range(len(node._input_metadata))
    }
    graph = record(lambda: torch.autograd.backward(roots, starts)).graph
    for (place, output_nr), gradient in expected.items():
        arrived = graph.nodes[place].arrived
        facts = arrived[output_nr] if output_nr < len(arrived) else None
        if gradient is None:
            assert facts is None or facts.is_undefined
        else:
            assert recorded_figures(facts) == close(figures(gradient)), graph.nodes[place]


@pytest.mark.parametrize("words", PROGRAMS)
def test_what_is_sent_along_a_single_edge_is_what_arrives(words: str) -> None:
    roots = PROGRAMS[words]()
    graph = record(lambda: torch.autograd.backward(roots, [torch.ones_like(root) for root in roots])).graph
    senders: dict[tuple[int, int], list[TensorFigures | None]] = {}
    for node in graph.nodes:
        for edge, facts in zip(node.edges, node.gradients, strict=bool(node.gradients)):
            if edge is not None:
                senders.setdefault((edge.target, edge.input_nr), []).append(facts)
    places_of_roots = {(root.node, root.output_nr) for root in graph.roots}
    for (place, output_nr), sent in senders.items():
        if len(sent) == 1 and (place, output_nr) not in places_of_roots and graph.nodes[place].run:
            assert graph.nodes[place].arrived[output_nr] == sent[0]


def edge_gradients(graph: Graph, node: Node) -> list[TensorFigures | None]:
    return [facts for edge, facts in zip(node.edges, node.gradients, strict=True) if edge is not None]


def test_branches_of_a_sum_differ_by_their_share_and_direction() -> None:
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    a, b = torch.tensor([3.0, 0.0]), torch.tensor([1.0, 2.0])

    def run() -> None:
        y = x * 1
        torch.autograd.backward([(y * a).sum() + (y * b).sum()])

    graph = record(run).graph
    sum_of_both = a + b
    first, _, third = nodes_named(graph, "MulBackward0")
    (arrived,) = first.arrived
    assert recorded_figures(arrived) == close(figures(sum_of_both))
    branches = {node.id: node.shares[0] for node in nodes_named(graph, "MulBackward0")[1:]}
    share = float(b @ sum_of_both) / float(sum_of_both @ sum_of_both)
    cosine = float(a @ b) / float(a.norm() * b.norm())
    assert branches[third.id] == close_share(share, cosine)
    assert sum(branch.share or 0 for branch in branches.values() if branch) == pytest.approx(1)


def close_share(share: float, cosine: float) -> Any:
    """A branch with these figures."""

    class Close:
        def __eq__(self, other: object) -> bool:
            return isinstance(other, BranchShare) and (other.share, other.cosine) == pytest.approx(
                (share, cosine), rel=1e-4, abs=1e-5
            )

    return Close()


def expected_shares(branches: list[Tensor]) -> list[Any]:
    """Share in the sum, and cosine with all others together, from the definition."""
    flat = [torch.view_as_real(each.resolve_conj()) if each.is_complex() else each for each in branches]
    vectors = [each.double().flatten() for each in flat]
    whole = torch.stack(vectors).sum(0)
    return [
        close_share(
            float(each @ whole / (whole @ whole)),
            float(torch.nn.functional.cosine_similarity(each, whole - each, dim=0)),
        )
        for each in vectors
    ]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.complex64])
@pytest.mark.parametrize("branches", [2, 3, 5])
@pytest.mark.parametrize("has_hook", [False, True])
def test_each_branch_of_a_sum_has_its_share_and_its_cosine_with_the_others(
    dtype: torch.dtype, branches: int, has_hook: bool
) -> None:
    generator = torch.Generator().manual_seed(branches)
    factors = [torch.randn(20, dtype=dtype, generator=generator) for _ in range(branches)]

    def run() -> None:
        y = torch.ones(20, dtype=dtype, requires_grad=True) * 1
        if has_hook:
            y.register_hook(lambda grad: grad * 10)
        torch.stack([y * factor for factor in factors]).sum().backward(torch.ones((), dtype=dtype))

    graph = record(run).graph
    joined, *senders = nodes_named(graph, "MulBackward0")
    if dtype == torch.bfloat16 and branches == 2 and not has_hook:
        return  # from norms of a sum that bfloat16 rounds
    assert [node.shares[0] for node in senders] == expected_shares([factor.conj() for factor in factors])
    if has_hook:
        (before,), (after,) = joined.before_hooks, joined.arrived
        assert before is not None and after is not None and before.norm is not None
        assert after.norm == pytest.approx(10 * before.norm, rel=1e-2)


def test_uses_of_a_shared_weight_have_their_shares_in_its_gradient() -> None:
    w = weight(4)
    factors = [torch.arange(4.0) + step for step in range(6)]

    def run() -> None:
        torch.stack([w * factor for factor in factors]).sum().backward()

    graph = record(run).graph
    assert [node.shares[0] for node in nodes_named(graph, "MulBackward0")] == expected_shares(factors)


def test_branches_that_cancel_out_point_against_each_other() -> None:
    def run() -> None:
        y = weight(3) * 1
        (y * 2 - y * 2).sum().backward()

    _, *senders = nodes_named(record(run).graph, "MulBackward0")
    assert [node.shares[0] for node in senders] == [BranchShare(None, -1.0)] * 2


def test_sums_whose_branches_are_too_large_to_copy_are_disclosed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gradient_sums, "MAX_HELD_BYTES", 100)

    def run() -> None:
        y = weight(30) * 1
        (y.sin() + y.cos() + y.exp()).sum().backward()

    recording = record(run)
    assert not any(node.shares for node in recording.graph.nodes)
    assert any("the shares of gradients in 1 sum of several are not known" in s for s in recording.capture.disclosures)


def test_what_was_copied_for_a_sum_is_gone_when_the_sum_is_there() -> None:
    def run() -> None:
        y = weight(50)
        for _ in range(100):
            y = y.sin() + y.cos() + y.tanh()
        y.sum().backward()

    most = 3 * 50 * 4
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gradient_sums, "MAX_HELD_BYTES", most)
        graph = record(run).graph
    assert all(node.shares for node in nodes_named(graph, "SinBackward0")[1:])


# -- special values ---------------------------------------------------------------------------------------------------


def sent_by_multiplication(factor: Tensor) -> TensorFigures:
    """The figures of a gradient that holds exactly what `factor` holds."""
    x = torch.ones_like(factor).requires_grad_()
    (facts,) = [
        facts
        for facts in node_named(record(lambda: (x * factor).sum().backward()).graph, "MulBackward0").gradients
        if facts is not None
    ]
    return facts


@pytest.mark.parametrize("size", [8, 100_000])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_nan_inf_and_zero_are_counted_apart_from_the_figures(size: int, dtype: torch.dtype) -> None:
    factor = torch.zeros(size, dtype=dtype)
    factor[:5] = torch.tensor([torch.nan, torch.inf, -torch.inf, 3.0, -4.0])
    facts = sent_by_multiplication(factor)
    assert (facts.nans, facts.infs, facts.zeros, facts.count) == (1, 2, size - 5, size)
    assert (facts.minimum, facts.maximum, facts.largest) == (-4, 3, 4)
    assert facts.norm == pytest.approx(5)
    assert facts.mean == pytest.approx(-1 / (size - 3))


@pytest.mark.parametrize("sign", [1, -1])
def test_of_numbers_of_one_sign_with_nan_among_them_the_largest_and_smallest_are_known(sign: int) -> None:
    facts = sent_by_multiplication(sign * torch.tensor([3.0, 1.0, torch.nan]))
    assert (facts.minimum, facts.maximum) == ((1, 3) if sign == 1 else (-3, -1))


def test_a_gradient_of_zeros_has_no_decades() -> None:
    assert sent_by_multiplication(torch.zeros(3)).histogram == ()


def test_a_failure_while_a_gradient_is_measured_does_not_reach_the_program_and_is_disclosed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: Any) -> int:
        raise LookupError("not to be measured")

    x = weight(2)
    with recorder() as running:
        loss = (x * 3).exp().sum()
        monkeypatch.setattr(GradientMeter, "take", fail)
        loss.backward()
        monkeypatch.undo()
    assert x.grad is not None and x.grad.tolist() == pytest.approx([3 * math.exp(3)] * 2)
    capture = running.capture("<python>", (), "finished", None)
    assert any("not to be measured" in sentence for sentence in capture.disclosures), capture.disclosures


def test_branches_of_what_grad_was_asked_for_have_their_shares() -> None:
    def run() -> None:
        y = weight(2) * 1
        torch.autograd.grad((y * 1).sum() + (y * 2).sum() + (y * 5).sum(), y)

    graph = record(run).graph
    asked, *branches = nodes_named(graph, "MulBackward0")
    assert asked.run is None
    shares = [node.shares[0].share for node in branches if node.shares and node.shares[0] is not None]
    assert shares == pytest.approx([1 / 8, 2 / 8, 5 / 8])


def test_the_start_gradient_of_backward_is_part_of_a_sum() -> None:
    def run() -> None:
        y = weight(2) * 1
        torch.autograd.backward([y, (y * 1).sum(), (y * 2).sum()], [torch.ones(2), None, None])

    _, *branches = nodes_named(record(run).graph, "MulBackward0")
    shares = [node.shares[0].share for node in branches if node.shares and node.shares[0] is not None]
    assert shares == pytest.approx([1 / 4, 2 / 4])


def test_branches_of_a_sum_that_a_hook_on_the_node_replaced_have_no_shares() -> None:
    def run() -> None:
        y = weight(2) * 1
        y.grad_fn.register_prehook(lambda grads: tuple(grad * 10 for grad in grads))  # type: ignore[union-attr]
        ((y * 1).sum() + (y * 3).sum()).backward()

    recording = record(run)
    _, *branches = nodes_named(recording.graph, "MulBackward0")
    assert [node.shares for node in branches] == [(), ()]
    assert any("a hook" in sentence for sentence in recording.capture.disclosures), recording.capture.disclosures


@pytest.mark.parametrize("exponent", [-30, -20, 0, 18, 30])
def test_tiny_and_huge_gradients_have_a_norm(exponent: int) -> None:
    facts = sent_by_multiplication(torch.tensor([3.0, 4.0]) * 10.0**exponent)
    assert facts.norm == pytest.approx(5 * 10.0**exponent, rel=1e-5)


def test_a_gradient_that_is_one_number_in_many_places_counts_all_of_them() -> None:
    x = weight(300, 400)
    node = node_named(record(lambda: (2.0 * x.sum()).backward()).graph, "SumBackward0")
    assert recorded_figures(node.gradients[0]) == close(figures(torch.full((300, 400), 2.0)))


@pytest.mark.parametrize("shape", [(300, 400), (7, 5)])
def test_a_transposed_or_strided_gradient_has_the_figures_of_its_elements(shape: tuple[int, int]) -> None:
    factor = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    doubled = torch.randn((2 * shape[0], shape[1]), generator=torch.Generator().manual_seed(0))
    assert recorded_figures(sent_by_multiplication(factor.T)) == close(figures(factor))
    assert recorded_figures(sent_by_multiplication(doubled[::2])) == close(figures(doubled[::2]))


VIEWS: dict[str, Callable[[Tensor], Tensor]] = {
    "another shape": lambda x: x.reshape(2, -1, 2),
    "transposed": lambda x: x.t(),
    "twice": lambda x: x.t().unsqueeze(0).squeeze(0).t(),
    "repeated": lambda x: x.unsqueeze(0).expand(3, *x.shape),
    "a part": lambda x: x[:, 1:].unsqueeze(0),
    "numbers as pairs": lambda x: torch.view_as_real(torch.complex(x, x)).flatten(),
}


@pytest.mark.parametrize("size", [4, 300], ids=["small", "too large to be copied"])
@pytest.mark.parametrize("words", VIEWS)
def test_the_gradient_that_a_view_passes_on_has_its_own_shape_and_the_figures_of_its_elements(
    words: str, size: int
) -> None:
    kept: list[tuple[Tensor | None, ...]] = []
    names: list[str] = []

    def keep(name: str, sent: tuple[Tensor | None, ...], _: object) -> None:
        names.append(name)
        kept.append(sent)

    def step() -> None:
        torch.manual_seed(0)
        root = (VIEWS[words](torch.randn(size, size, requires_grad=True) * 2) ** 3).sum()
        for node in walk([root.grad_fn]).wrappers:
            node.register_hook(partial(keep, node.name()))
        root.backward()

    nodes = {node.name: node for node in record(step).graph.nodes}
    views = [(nodes[name], sent) for name, sent in zip(names, kept, strict=True) if nodes[name].kind == "view"]
    # Nodes are told apart by their names, which two of the same kind share.
    compared = [
        (facts, gradient)
        for node, sent in views
        for facts, gradient in zip(node.gradients, sent, strict=True)
        if names.count(node.name) == 1 and gradient is not None
    ]
    assert compared
    for facts, gradient in compared:
        assert facts is not None
        assert facts.shape == tuple(gradient.shape)
        assert recorded_figures(facts) == close(figures(gradient))


def test_the_histogram_counts_decades() -> None:
    facts = sent_by_multiplication(torch.tensor([2e-3, -3e-3, 5e-2, 0.0, 1e-30, torch.inf]))
    assert facts.histogram_from == FIRST_DECADE, "what is smaller counts there"
    counted = {facts.histogram_from + place: number for place, number in enumerate(facts.histogram) if number}
    assert counted == {FIRST_DECADE: 1, -3: 2, -2: 1}


def test_what_only_pictures_show_can_be_left_out_and_all_other_figures_stay() -> None:
    def program() -> None:
        torch.manual_seed(0)
        (torch.randn(3, 4) @ weight(4)).exp().sum().backward()

    whole = record(program).graph
    brief = record(program, replace(EVERY_BACKWARD, for_pictures=False)).graph
    assert brief.allocators == ()
    shown = [facts for node in whole.nodes for facts in node.gradients if facts is not None]
    assert any(facts.histogram for facts in shown)
    without = [msgspec.structs.replace(facts, histogram=(), histogram_from=0) for facts in shown]
    assert [facts for node in brief.nodes for facts in node.gradients if facts is not None] == without


def test_an_undefined_gradient_is_not_a_zero_gradient() -> None:
    class Forgets(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
            return x + y

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Any:
            return None, torch.zeros_like(grad)

    x, y = weight(2), weight(2)
    graph = record(lambda: Forgets.apply(x * 1, y * 1).sum().backward()).graph
    nothing, zero = edge_gradients(graph, nodes_named(graph, "ForgetsBackward")[0])
    assert nothing is not None and nothing.is_undefined and not nothing.is_zero
    assert zero is not None and zero.is_zero and not zero.is_undefined
    assert [leaf_named(graph, name).leaf_gradient.outcome for name in ("x", "y")] == ["unchanged", "fresh"]  # type: ignore[union-attr]


def test_a_sparse_gradient_counts_the_zeros_that_it_does_not_store() -> None:
    table = nn.Embedding(10, 3, sparse=True)
    graph = record(lambda: table(torch.tensor([4, 4, 7])).sum().backward()).graph
    facts = node_named(graph, "EmbeddingBackward0").gradients[0]
    assert facts is not None and facts.layout == "sparse_coo"
    assert recorded_figures(facts) == close(figures(table.weight.grad.to_dense()))  # type: ignore[union-attr]


@pytest.mark.filterwarnings("ignore:Sparse .* tensor support is in beta:UserWarning")
@pytest.mark.parametrize("layout", ["csr", "csc", "bsr", "bsc"])
def test_a_gradient_of_compressed_layout_counts_the_zeros_that_it_does_not_store(layout: str) -> None:
    matrix = torch.eye(4).mul_(torch.arange(1.0, 5.0)).requires_grad_()
    blocks = [(2, 2)] if layout.startswith("bs") else []

    def run() -> None:
        getattr(matrix, f"to_sparse_{layout}")(*blocks).to_dense().square().sum().backward()

    recording = record(run)
    assert recording.capture.disclosures == ()
    compressed = [
        facts for node in recording.graph.nodes for facts in node.gradients if facts and facts.layout.endswith(layout)
    ]
    assert compressed and all(recorded_figures(facts) == close(figures(2 * matrix.detach())) for facts in compressed)


def test_a_sparse_gradient_that_is_kept_whole_has_all_its_values() -> None:
    table = nn.Embedding(4, 2, sparse=True)
    plan = RecordingPlan(keep_going=True, values_up_to=8)
    graph = record(lambda: table(torch.tensor([1, 1, 3])).sum().backward(), plan).graph
    facts = node_named(graph, "EmbeddingBackward0").gradients[0]
    assert facts is not None and facts.values == (0, 0, 2, 2, 0, 0, 1, 1)


def test_gradients_that_cannot_be_measured_are_disclosed() -> None:
    nested = torch.nested.as_nested_tensor([weight(2), weight(3)], layout=torch.jagged)
    recording = record(lambda: nested.sin().values().sum().backward())
    assert any("NestedTensor is a tensor subclass" in sentence for sentence in recording.capture.disclosures)
    unmeasured = [facts for node in recording.graph.nodes for facts in node.gradients if facts and facts.unmeasured]
    assert unmeasured and all(facts.norm is None for facts in unmeasured)


# -- leaves, roots, hooks ---------------------------------------------------------------------------------------------


def test_the_gradient_of_a_leaf_is_separate_from_what_it_was_added_to() -> None:
    w = weight(2)

    def run() -> None:
        for _ in range(2):
            (w * 3).sum().backward()

    first, second = record(run).capture.graphs
    (fresh,), (added,) = ([n.leaf_gradient for n in graph.nodes if n.is_leaf] for graph in (first, second))
    assert fresh is not None and (fresh.outcome, fresh.before) == ("fresh", None)
    assert added is not None and added.outcome == "accumulated"
    assert added.before is not None and added.before.mean == 3
    assert added.after is not None and added.after.mean == 6
    assert leaf_named(second, "w").arrived[0].mean == 3  # type: ignore[union-attr]


def test_a_gradient_that_a_hook_removes_is_noted() -> None:
    w = weight(2)
    w.register_post_accumulate_grad_hook(lambda leaf: setattr(leaf, "grad", None))
    leaf = leaf_named(record(lambda: (w * 3).sum().backward()).graph, "w")
    assert leaf.leaf_gradient is not None and leaf.leaf_gradient.outcome == "taken"
    assert leaf.arrived[0] is not None and leaf.arrived[0].mean == 3


@pytest.mark.parametrize(
    "hook", [lambda grad: grad * 10, lambda grad: grad.mul_(10).sum() and None], ids=["new", "in place"]
)
def test_what_a_tensor_hook_changed_is_seen_before_and_after(hook: Callable[[Tensor], Any]) -> None:
    def run() -> None:
        y = weight(2) * 1
        y.register_hook(hook)
        (y * 3).sum().backward()

    graph = record(run).graph
    changed, sender = nodes_named(graph, "MulBackward0")
    assert sender.gradients[0] is not None and sender.gradients[0].mean == 3
    assert changed.before_hooks[0] is not None and changed.before_hooks[0].mean == 3
    assert changed.arrived[0] is not None and changed.arrived[0].mean == 30


def test_a_gradient_that_a_hook_on_the_node_replaced_is_shown_as_it_arrives() -> None:
    w = weight(2)

    def run() -> None:
        y = w * 1
        y.grad_fn.register_prehook(lambda grads: tuple(grad * 10 for grad in grads))  # type: ignore[union-attr]
        (y * 3).sum().backward()

    graph = record(run).graph
    changed, sender = nodes_named(graph, "MulBackward0")
    assert sender.gradients[0] is not None and sender.gradients[0].mean == 3
    assert changed.arrived[0] is not None and changed.arrived[0].mean == 30
    assert changed.gradients[0] is not None and changed.gradients[0].mean == 30
    leaf = leaf_named(graph, "w")
    assert w.grad is not None and leaf.arrived[0] is not None and leaf.arrived[0].mean == w.grad.mean() == 30


def test_the_gradient_that_backward_starts_from_is_at_the_root() -> None:
    def run() -> None:
        y = weight(2) * 2
        y.backward(torch.tensor([1.0, 0.0]))

    (root,) = record(run, replace(EVERY_BACKWARD, values_up_to=64)).graph.roots
    assert root.gradient is not None and root.gradient.values == (1.0, 0.0)


def test_only_the_nodes_that_run_have_run() -> None:
    x, w = weight(2), weight(2)

    def run() -> None:
        ((x * 2).exp() * w.sin()).sum().backward(inputs=[x])

    graph = record(run).graph
    ran = {node.name for node in graph.nodes if node.run is not None}
    assert "SinBackward0" not in ran
    assert ran >= {"SumBackward0", "MulBackward0", "ExpBackward0"}
    order = [node.run.order for node in reversed(graph.nodes) if node.run is not None and not node.is_leaf]
    assert order == sorted(order), "the engine runs what was made last first"


def test_autograd_grad_shows_what_arrived_at_the_inputs_it_was_asked_for() -> None:
    x = weight(3)

    def run() -> tuple[Tensor, ...]:
        y = x * 2
        return torch.autograd.grad((y.sin() + y.cos() + y).sum(), [x, y], create_graph=True)

    recording = record(run)
    y_node = next(node for node in recording.graph.nodes if "y" in node.names)
    assert recorded_figures(leaf_named(recording.graph, "x").arrived[0]) == close(figures(recording.value[0]))
    assert recorded_figures(y_node.arrived[0]) == close(figures(recording.value[1]))
    assert leaf_named(recording.graph, "x").leaf_gradient is None


def test_measuring_does_not_enter_the_graph_of_the_gradient() -> None:
    x = weight(3)

    def names() -> list[str]:
        (first,) = torch.autograd.grad((x**3 + x.sin()).sum(), x, create_graph=True)
        return [node.name() for node, _ in independent_walk((first,))]

    assert record(names).value == names()


# -- nothing changed, nothing left ------------------------------------------------------------------------------------


def test_a_gradient_is_kept_as_grad_without_a_copy_as_before() -> None:
    """torch keeps the tensor that arrives as ``.grad`` itself if nothing else holds it."""
    addresses: list[list[int]] = []

    def run() -> None:
        w = weight(4)
        seen: list[int] = []
        w.register_hook(lambda grad: seen.append(grad.data_ptr()))
        (w * 3).sum().backward()
        assert w.grad is not None
        addresses.append([*seen, w.grad.data_ptr()])

    record(run)
    ((arrived, kept),) = addresses
    assert arrived == kept


def test_a_backward_that_fails_half_way_keeps_what_ran() -> None:
    class Fails(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Tensor:
            raise ValueError("half-way")

    x = weight(2)
    recording = record_failing(lambda: Fails.apply(x * 2).exp().sum().backward(), ValueError)
    ran = [node.name for node in recording.graph.nodes if node.run is not None]
    assert ran == ["ExpBackward0", "SumBackward0"]
    exp = node_named(recording.graph, "ExpBackward0")
    assert exp.gradients[0] is not None and exp.gradients[0].is_measured


@pytest.mark.parametrize("fails", [False, True])
def test_no_hook_is_left_on_a_graph_that_lives_on(fails: bool) -> None:
    x = weight(2)
    y = (x * 2).exp()
    y.register_hook(lambda grad: 1 / 0 if fails else None)

    def run() -> None:
        y.sum().backward(retain_graph=True)

    recording = record_failing(run, ZeroDivisionError) if fails else record(run)
    assert recording.graph.nodes[-1].run is not None
    del recording  # and with it the traceback
    gc.collect()
    assert not any(type(kept) is GradientWatch for kept in gc.get_objects())


def test_nothing_keeps_a_gradient_alive() -> None:
    seen: list[weakref.ref[Tensor]] = []

    def run() -> None:
        y = weight(2) * 1
        y.register_hook(lambda grad: seen.append(weakref.ref(grad)))
        (y * 3).sum().backward()

    with recorder() as running:
        run()
        assert seen[0]() is None
        del running


def test_a_checkpoint_is_computed_again_just_once() -> None:
    calls: list[int] = []

    def block(x: Tensor) -> Tensor:
        calls.append(1)
        return x.sin().exp()

    x = weight(2)
    graph = record(lambda: checkpoint(block, x, use_reentrant=False).sum().backward()).graph
    assert len(calls) == 2
    assert recorded_figures(leaf_named(graph, "x").arrived[0]) == close(figures(x.grad))  # type: ignore[arg-type]


def test_a_leaf_that_an_inner_backward_reaches_too_shows_all_that_it_got() -> None:
    layer = nn.Linear(2, 2)
    x = weight(1, 2)
    loss = checkpoint(layer, x, use_reentrant=True).sum() + layer(x).sum()
    graph = record(lambda: loss.backward()).graph
    for node in graph.nodes:
        if node.name.endswith("AccumulateGrad") and node.leaf_gradient is not None:
            grads = [figures(p.grad) for p in (*layer.parameters(), x) if p.grad is not None]
            assert any(recorded_figures(node.arrived[0]) == close(each) for each in grads)


def test_modes_of_the_program_do_not_see_the_measuring() -> None:
    def operations(run: Callable[[], Any]) -> list[str]:
        with Operations() as mode:
            run()
        return mode.names

    def run() -> None:
        (weight(3) * 2).sum().backward()

    native = operations(run)
    assert record(lambda: operations(run)).value == native


class Operations(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(str(function))
        return function(*args, **(kwargs or {}))


def test_a_deep_chain_with_gradients_is_freed_without_a_crash() -> None:
    measured = forked_result("""
        def program():
            x = torch.ones(1, requires_grad=True)
            for _ in range(20_000):
                x = x * 1.0001
            x.backward()

        graph = record(program).graph
        print(json.dumps(sum(node.run is not None for node in graph.nodes)))
    """)
    assert measured == 20_001


def test_a_leaf_whose_memory_was_given_back_is_not_read() -> None:
    has_norm = forked_result("""
        def program():
            w = torch.ones(4, requires_grad=True)
            y = (w * 2).sum()
            w.untyped_storage().resize_(0)
            y.backward()

        leaf = record(program).graph.nodes[0]
        print(json.dumps([bool(leaf.values), leaf.arrived[0].mean]))
    """)
    assert has_norm == [False, 2]


def test_a_capture_without_gradients_is_as_before() -> None:
    plan = replace(EVERY_BACKWARD, gradients=False)
    graph = record(lambda: (weight(2) * 2).sum().backward(), plan).graph
    assert all(node.run is None and not node.gradients and not node.arrived for node in graph.nodes)


def test_gradients_survive_the_file() -> None:
    capture = record(lambda: PROGRAMS["a diamond"]()[0].backward()).capture
    assert read_capture(write_capture(capture), "x.gradviz") == capture
