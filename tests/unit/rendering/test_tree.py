"""The tree as a reader sees it in a terminal, to the letter."""

from __future__ import annotations

from gradviz.capture.capture import Capture, Program, ScriptError
from gradviz.graph.folding import FoldOptions, fold
from gradviz.graph.model import Graph
from gradviz.rendering.renderer import Subject
from gradviz.rendering.tree import TreeRenderer
from gradviz.rendering.tree_rows import TreeRows
from tests.builders import GraphBuilder, chain_graph, graph_of, transformer, unrolled_rnn

NET = "x -> fc1/Addmm -> Relu -> fc2/Addmm -> Add -> MseLoss -> loss; Relu -> Add; {target} -> MseLoss; w -> fc1/Addmm"


def tree_of(
    graph: Graph, renderer: TreeRenderer | None = None, *, capture: Capture | None = None, **fold_options: object
) -> str:
    view = fold(graph, FoldOptions(**fold_options))  # type: ignore[arg-type]
    capture = capture or Capture(Program("train.py"))
    tree = (renderer or TreeRenderer(width=80)).render(Subject(capture, graph, view))
    assert not [line for line in tree.splitlines() if line != line.rstrip()], "no line ends in spaces"
    return tree


def test_a_chain_runs_down_one_column_and_branches_are_set_in() -> None:
    assert (
        tree_of(graph_of(NET))
        == """\
operation    shape   grad_fn
◆ loss       [2, 3]  backward()
● mse_loss   [2, 3]  MseLossBackward0
├─· target   [2, 3]  no gradient
● add        [2, 3]  AddBackward0
├─↓ #1 relu
│ in fc2 (Fc2)
● addmm      [2, 3]  AddmmBackward0
│ at the outermost level
● relu #1    [2, 3]  ReluBackward0
│ in fc1 (Fc1) · 6 params
● addmm      [2, 3]  AddmmBackward0
├─◇ x        [2, 3]  AccumulateGrad
└─○ w        [2, 3]  AccumulateGrad

7 autograd nodes in train.py
"""
    )


def test_headings_tell_the_calls_of_a_module_apart() -> None:
    builder = GraphBuilder()
    last = builder.leaf("x", kind="input")
    for operation in ("Sin", "Exp"):
        last = builder.operation(operation, last, scope=builder.scope("act", "Act"))
    builder.root(last)
    headings = [line for line in tree_of(builder.build(), depth=1).splitlines() if line.startswith("│ in")]
    assert headings == ["│ in act (call 2) (Act)", "│ in act (Act)"]


def test_a_repeated_block_is_shown_once_with_its_count() -> None:
    assert (
        tree_of(transformer(12), depth=1)
        == """\
operation                       shape   grad_fn
◆ loss                          scalar  backward()
● nll_loss                      scalar  NllLossBackward0
├─· target                      [2, 3]  no gradient
● log_softmax                   [2, 3]  LogSoftmaxBackward0
│ in model (GPT) · 12.0k params
■ head · 20 params              [2, 4]  Linear
■ h.0 … h.11 ×12 · 1.7k params  [2, 3]  Block
■ embed · 20 params             [2, 3]  Embedding
└─· tokens                      [2, 3]  no gradient

416 autograd nodes in train.py
note: 12 alike model.h.0 … model.h.11 are drawn once
note: depth 1 of 4: --depth N or --unfold PATH shows more
note: 85 view operations are merged into their neighbours (--plumbing shows
  them)
"""
    )


def test_a_branch_keeps_its_own_column() -> None:
    assert (
        tree_of(graph_of("a -> Sin -> Exp -> Mul -> loss; b -> Cos -> Mul; c -> Mul"))
        == """\
operation  shape   grad_fn
◆ loss     [2, 3]  backward()
● mul      [2, 3]  MulBackward0
├─○ c      [2, 3]  AccumulateGrad
├─● cos    [2, 3]  CosBackward0
│ └─○ b    [2, 3]  AccumulateGrad
● exp      [2, 3]  ExpBackward0
● sin      [2, 3]  SinBackward0
└─○ a      [2, 3]  AccumulateGrad

7 autograd nodes in train.py
"""
    )


def test_what_two_roots_share_is_shown_once() -> None:
    assert (
        tree_of(graph_of("w -> Exp -> Sum -> loss; Exp -> Sin -> other"))
        == """\
operation   shape   grad_fn
◆ loss      [2, 3]  backward()
● sum       [2, 3]  SumBackward0
└─↓ #1 exp
◆ other     [2, 3]  backward()
● sin       [2, 3]  SinBackward0
● exp #1    [2, 3]  ExpBackward0
└─○ w       [2, 3]  AccumulateGrad

4 autograd nodes in train.py
"""
    )


def test_a_loop_shows_its_body_once() -> None:
    tree = tree_of(unrolled_rnn(300))
    assert "│ in [mm ×2, add, tanh] ×300 · 18 params\n● tanh " in tree
    assert tree.count("● mm ") == 2
    assert "└─↻ previous tanh  [2, 3]  from the repetition before" in tree


def test_what_only_the_next_repetition_uses_is_shown_too() -> None:
    builder = GraphBuilder()
    h, c = builder.operation("Sin", builder.leaf("w")), builder.operation("Cos", builder.leaf("v"))
    for _ in range(30):
        c = builder.operation("Exp", builder.operation("Add", c, h))
        h = builder.operation("Tanh", builder.operation("Mul", c, h))
    builder.root(h)
    tree = tree_of(builder.build())
    for word in ("exp", "add", "tanh", "mul", "sin", "cos"):
        assert f"● {word}" in tree


def test_ten_thousand_operations_in_a_row_neither_recurse_nor_indent() -> None:
    tree = tree_of(chain_graph(10_000), show_all=True)
    assert tree.count("\n● add") == 10_000
    assert max(map(len, tree.splitlines())) <= 80


def test_no_row_is_wider_than_the_terminal() -> None:
    builder = GraphBuilder()
    leaf = builder.leaf("model." + "transformer." * 8 + "weight", (1024, 1024))
    site = builder.line(1234, file="/somewhere/a_file_with_a_rather_long_name.py")
    made = builder.operation("ScaledDotProductFlashAttentionForCpu", leaf, call_site=site)
    builder.root(made, "a_loss_with_a_very_long_name_that_nobody_would_choose")
    for width in (60, 80, 100):
        tree = tree_of(builder.build(), TreeRenderer(width=width))
        assert max(map(len, tree.splitlines())) <= width
        assert "…" in tree


def test_columns_align_also_with_characters_of_double_width() -> None:
    rows = tree_of(graph_of("重み -> Mul -> loss; w -> Mul")).splitlines()
    assert rows[3] == "├─○ 重み   [2, 3]  AccumulateGrad"
    assert rows[4] == "└─○ w      [2, 3]  AccumulateGrad"


def test_plain_ascii_holds_nothing_else() -> None:
    tree = tree_of(transformer(12), TreeRenderer(width=80, ascii=True), depth=1)
    assert tree.isascii()
    assert "+ h.0 ~ h.11 x12 . 1.7k params  [2, 3]  Block\n" in tree


def test_colour_is_there_only_when_asked_for() -> None:
    graph = graph_of(NET)
    assert "\x1b[" not in tree_of(graph)
    coloured = TreeRenderer(width=80, color=True).render(Subject(Capture(Program("train.py")), graph, fold(graph)))
    assert "\x1b[1m● mse_loss" in coloured


def test_names_cannot_move_the_cursor() -> None:
    builder = GraphBuilder()
    builder.root(builder.operation("Sum", builder.leaf("w\x1b[2J\n\x07")))
    assert "\x1b" not in tree_of(builder.build())
    assert "○ w?[2J ?" in tree_of(builder.build())


def test_the_node_that_failed_is_marked() -> None:
    assert "✗ exp ✗ backward failed here" in tree_of(graph_of("w -> Exp -> Sum -> loss", failed="Exp"))


def test_the_error_the_notes_and_what_was_not_recorded_stand_below() -> None:
    capture = Capture(
        Program("train.py"),
        error=ScriptError("RuntimeError", "it broke", "..."),
        disclosures=("Saved tensors of 2 nodes are packed by hooks; their size is unknown.",),
    )
    assert tree_of(graph_of("w -> T -> Mm -> loss"), capture=capture).endswith("""\

3 autograd nodes in train.py
error: RuntimeError: it broke
note: 1 view operation is merged into its neighbour (--plumbing shows it)
not recorded: Saved tensors of 2 nodes are packed by hooks; their size is
  unknown.
""")


def test_every_item_of_any_view_is_in_the_tree() -> None:
    for graph in (transformer(3), unrolled_rnn(20), graph_of(NET)):
        for depth in (None, 0, 1, 2, 5):
            view = fold(graph, FoldOptions(depth=depth))
            rows = TreeRows(graph, view).rows
            shown = sorted(row.item for row in rows if row.kind == "item" and row.item is not None)
            assert shown == [item.id for item in view.items if not item.is_open]
