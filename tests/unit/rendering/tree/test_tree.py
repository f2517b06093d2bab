"""The tree as a user sees it in a terminal, letter by letter."""

from __future__ import annotations

import re

import pytest
from msgspec.structs import replace

from gradviz.capture.capture import Capture, Program, ScriptError
from gradviz.graph.model import Graph
from gradviz.rendering.formats import Subject
from gradviz.rendering.look.palette import ROLE_STYLES
from gradviz.rendering.subjects import subject_of
from gradviz.rendering.tree.outline import outline
from gradviz.rendering.tree.signs import ABOVE, BELOW, FAILED, MATCH, ROLE_SIGNS
from gradviz.rendering.tree.tree import TreeRenderer
from gradviz.view.build import ViewOptions
from gradviz.view.folding import FoldOptions, fold
from gradviz.view.select.selection import SelectOptions
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


def viewed_tree(graph: Graph, viewing: ViewOptions, renderer: TreeRenderer | None = None) -> str:
    return (renderer or TreeRenderer(width=80)).render(subject_of(Capture(Program("train.py")), graph, viewing))


def test_a_chain_runs_down_one_column_and_branches_are_indented() -> None:
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
● #1 relu    [2, 3]  ReluBackward0
│ in fc1 (Fc1) · 6 params
● addmm      [2, 3]  AddmmBackward0
├─◇ x        [2, 3]  AccumulateGrad
└─○ w        [2, 3]  AccumulateGrad

◆ root of backward  ● operation  ○ parameter  ◇ input that requires grad
· constant, no gradient  ↓ shown further down
7 autograd nodes in train.py, from the loss down to its inputs
"""
    )


def test_headings_distinguish_the_calls_of_a_module() -> None:
    builder = GraphBuilder()
    last = builder.leaf("x", kind="input")
    for operation in ("Sin", "Exp"):
        last = builder.operation(operation, last, scope=builder.scope("act", "Act"))
    builder.root(last)
    headings = [line for line in tree_of(builder.build(), depth=1).splitlines() if line.startswith("│ in")]
    assert headings == ["│ in act (call 2) (Act)", "│ in act (Act)"]


def test_without_a_backward_the_legend_mentions_none() -> None:
    graph = replace(graph_of("w -> Exp -> loss"), backward=None)
    assert "◆ root of the graph" in tree_of(graph)


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

◆ root of backward  ● operation  ■ module call  · constant, no gradient
416 autograd nodes in train.py, from the loss down to its inputs
note: 12 alike model.h.0 … model.h.11 are drawn once
note: depth 1 of 3: --depth N or --unfold PATH shows more
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

◆ root of backward  ● operation  ○ parameter
7 autograd nodes in train.py, from the loss down to its inputs
"""
    )


def test_nodes_that_two_roots_share_are_shown_once() -> None:
    assert (
        tree_of(graph_of("w -> Exp -> Sum -> loss; Exp -> Sin -> other"))
        == """\
operation   shape   grad_fn
◆ loss      [2, 3]  backward()
● sum       [2, 3]  SumBackward0
└─↓ #1 exp
◆ other     [2, 3]  backward()
● sin       [2, 3]  SinBackward0
● #1 exp    [2, 3]  ExpBackward0
└─○ w       [2, 3]  AccumulateGrad

◆ root of backward  ● operation  ○ parameter  ↓ shown further down
4 autograd nodes in train.py, from the loss down to its inputs
"""
    )


def test_headings_of_modules_that_repeat_as_a_group_tell_how_often() -> None:
    builder = GraphBuilder()
    output = builder.leaf("x")
    for index in range(0, 40, 2):
        linear, act = builder.scope(f"model.{index}", "Linear"), builder.scope(f"model.{index + 1}", "Tanh")
        weight = builder.leaf(f"model.{index}.weight")
        output = builder.operation("Tanh", builder.operation("Mm", output, weight, scope=linear), scope=act)
    builder.root(output)
    headings = [line for line in tree_of(builder.build(), depth=9).splitlines() if " in model" in line]
    assert headings[0] == "│ in model.39 (Tanh)"
    assert headings[2] == "│ in model.1 (Tanh) · in each of ×19"


def test_a_loop_shows_its_body_once() -> None:
    tree = tree_of(unrolled_rnn(300))
    assert "│ in [mm ×2, add, tanh] ×300 · 18 params\n● tanh " in tree
    assert tree.count("● mm ") == 2
    assert "└─↻ previous tanh  [2, 3]  from the repetition before" in tree


def test_nodes_that_only_the_next_repetition_uses_are_shown_too() -> None:
    builder = GraphBuilder()
    h, c = builder.operation("Sin", builder.leaf("w")), builder.operation("Cos", builder.leaf("v"))
    for _ in range(30):
        c = builder.operation("Exp", builder.operation("Add", c, h))
        h = builder.operation("Tanh", builder.operation("Mul", c, h))
    builder.root(h)
    tree = tree_of(builder.build())
    for word in ("exp", "add", "tanh", "mul", "sin", "cos"):
        assert re.search(f"● (#\\d )?{word}", tree)


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


def test_the_ascii_tree_has_only_ascii_characters() -> None:
    tree = tree_of(transformer(12), TreeRenderer(width=80, ascii=True), depth=1)
    assert tree.isascii()
    assert "+ h.0 ~ h.11 x12 . 1.7k params  [2, 3]  Block\n" in tree


def test_the_tree_has_colours_only_on_request() -> None:
    graph = graph_of(NET)
    assert "\x1b[" not in tree_of(graph)
    coloured = TreeRenderer(width=80, color=True).render(Subject(Capture(Program("train.py")), graph, fold(graph)))
    assert "\x1b[36m○ \x1b[0m\x1b[36mw\x1b[0m" in coloured
    assert not re.search("\x1b\\[[0-9;]*(3[037]|[49][0-9])m", coloured), "unreadable on a light or a dark terminal"


def test_names_cannot_move_the_cursor() -> None:
    builder = GraphBuilder()
    builder.root(builder.operation("Sum", builder.leaf("w\x1b[2J\n\x07")))
    assert "\x1b" not in tree_of(builder.build())
    assert "○ w?[2J ?" in tree_of(builder.build())


def test_the_node_that_failed_is_marked() -> None:
    tree = tree_of(graph_of("w -> Exp -> Sum -> loss", failed="Exp"))
    assert re.search(r"✗ exp .*\n[│├ ]*✗ backward failed here\n", tree)


def test_the_error_the_notes_and_what_was_not_recorded_are_below_the_tree() -> None:
    capture = Capture(
        Program("train.py"),
        error=ScriptError("RuntimeError", "it broke", "..."),
        disclosures=("Saved tensors of 2 nodes are packed by hooks; their size is unknown.",),
    )
    assert tree_of(graph_of("w -> T -> Mm -> loss"), capture=capture).endswith("""\

3 autograd nodes in train.py, from the loss down to its inputs
error: RuntimeError: it broke
note: 1 view operation is merged into its neighbour (--plumbing shows it)
not recorded: Saved tensors of 2 nodes are packed by hooks; their size is
  unknown.
""")


def test_every_item_of_any_view_is_in_the_tree() -> None:
    for graph in (transformer(3), unrolled_rnn(20), graph_of(NET)):
        for depth in (None, 0, 1, 2, 5):
            view = fold(graph, FoldOptions(depth=depth))
            for upside_down in (False, True):
                rows = outline(graph, view, upside_down=upside_down)
                shown = {row.item for row in rows if row.kind == "item"}
                assert shown == {item.id for item in view.items if not item.is_open}


def test_upside_down_it_reads_from_the_leaves_to_the_loss() -> None:
    assert (
        tree_of(graph_of(NET), TreeRenderer(width=80, reverse=True))
        == """\
operation    shape   grad_fn
in fc1 (Fc1) · 6 params
┌─○ w        [2, 3]  AccumulateGrad
├─◇ x        [2, 3]  AccumulateGrad
● addmm      [2, 3]  AddmmBackward0
│ at the outermost level
● #1 relu    [2, 3]  ReluBackward0
│ in fc2 (Fc2)
● addmm      [2, 3]  AddmmBackward0
│ at the outermost level
├─↑ #1 relu
● add        [2, 3]  AddBackward0
├─· target   [2, 3]  no gradient
● mse_loss   [2, 3]  MseLossBackward0
◆ loss       [2, 3]  backward()

◆ root of backward  ● operation  ○ parameter  ◇ input that requires grad
· constant, no gradient  ↑ shown further up
7 autograd nodes in train.py, from the inputs down to the loss
"""
    )


def test_upside_down_a_branch_runs_down_into_its_user() -> None:
    tree = tree_of(
        graph_of("a -> Sin -> Exp -> Mul -> loss; b -> Cos -> Mul; c -> Mul"), TreeRenderer(width=80, reverse=True)
    )
    assert [line.partition("  ")[0] for line in tree.splitlines()[1:9]] == [
        "┌─○ a",
        "● sin",
        "● exp",
        "│ ┌─○ b",
        "├─● cos",
        "├─○ c",
        "● mul",
        "◆ loss",
    ]


def test_matches_are_shown_in_their_context_and_other_rows_are_counted() -> None:
    assert (
        viewed_tree(transformer(12), ViewOptions(find="softmax"))
        == """\
  operation      shape   grad_fn
  ◆ loss         scalar  backward()
  │ … 2 rows
▸ ● log_softmax  [2, 3]  LogSoftmaxBackward0
  │ … 12 rows
  │ in model.h.0.attn (Attention) · 960 params
▸ ● softmax      [2, 3]  SoftmaxBackward0
  … 7 rows

◆ root of backward  ● operation  ▸ match
416 autograd nodes in train.py, from the loss down to its inputs
13 matches in 2 rows
note: 12 alike model.h.0 … model.h.11 are drawn once
note: modules that make one operation are folded: --depth 2 opens them
note: 85 view operations are merged into their neighbours (--plumbing shows
  them)
"""
    )


def test_shown_rows_and_rows_left_out_add_up() -> None:
    for graph in (transformer(3), graph_of(NET), unrolled_rnn(20)):
        view = fold(graph, FoldOptions(show_all=True))
        for upside_down in (False, True):
            everything = outline(graph, view, upside_down=upside_down)
            for wanted in (set(), {view.items[-1].id}, {item.id for item in view.items if item.kind == "constant"}):
                thinned = outline(graph, view, upside_down=upside_down, wanted=wanted)
                shown = [row for row in thinned if row.kind in ("item", "reference")]
                hidden = sum(row.hidden for row in thinned)
                assert len(shown) + hidden == sum(row.kind in ("item", "reference") for row in everything)
                assert wanted <= {row.item for row in shown}


def test_a_matching_box_shows_where_it_begins() -> None:
    tree = viewed_tree(transformer(12), ViewOptions(find=r"h\.3$"))
    assert "\n▸ │ in model.h.3 (Block) · 140 params\n  ● add " in tree
    assert "1 match in 1 row" in tree


def test_from_a_weight_upside_down_it_shows_all_users_of_the_weight() -> None:
    viewing = ViewOptions(select=SelectOptions(start="model.h.1.mlp.fc.weight", downstream=True))
    rows = viewed_tree(transformer(2), viewing, TreeRenderer(width=80, reverse=True)).splitlines()
    assert rows[1:4] == [
        "in model.h.1.mlp.fc (Linear) · 20 params",
        "┌─○ weight     [4, 4]  AccumulateGrad",
        "● linear       [2, 4]  AddmmBackward0",
    ]
    assert any(row.startswith("◆ loss") for row in rows)
    assert not any("embed" in row for row in rows)


def test_columns_are_in_the_requested_order() -> None:
    tree = tree_of(transformer(12), TreeRenderer(width=80, columns="params,shape,module"), depth=1)
    assert tree.splitlines()[:7] == [
        "operation         params  shape   module",
        "◆ loss                    scalar",
        "● nll_loss                scalar",
        "├─· target                [2, 3]",
        "● log_softmax             [2, 3]",
        "│ in model (GPT)",
        "■ head                20  [2, 4]  model.head",
    ]


def test_every_column_has_words_for_a_parameter_or_an_operation() -> None:
    builder = GraphBuilder()
    net = builder.scope("net", "Net")
    site = builder.line(7, function="step")
    made = builder.operation("Mul", builder.leaf("w"), scope=net, call_site=site)
    builder.root(made)
    tree = tree_of(builder.build(), TreeRenderer(width=200, columns="all"))
    header, _, _, operation, leaf = (" ".join(line.split()) for line in tree.splitlines()[:5])
    # No variable holds a tensor, so the column of names is left out.
    assert header == "operation shape dtype device params nodes grad_fn role module function line node"
    assert operation == "● mul [2, 3] float32 cpu 1 MulBackward0 operation net step() train.py:7 node:1"
    assert leaf == "└─○ w [2, 3] float32 cpu 6 1 AccumulateGrad parameter net node:0"


@pytest.mark.parametrize("width", [30, 40, 60, 80, 120, 160, 200])
def test_no_row_is_wider_than_the_window_whatever_the_columns(width: int) -> None:
    for renderer in (TreeRenderer(width=width), TreeRenderer(width=width, columns="all", reverse=True)):
        tree = viewed_tree(transformer(12), ViewOptions(find="add"), renderer)
        assert max(map(len, tree.splitlines())) <= width


def test_a_narrow_window_keeps_shapes_and_says_which_columns_do_not_fit() -> None:
    tree = tree_of(transformer(12), TreeRenderer(width=40), depth=2)
    assert re.search(r"■ ln_1 · 20 params +\[2, 3\]\n", tree)
    assert "note: 40 columns have no room for\n  grad_fn (--width, --columns)\n" in tree


def test_deep_inside_branches_the_outer_lines_are_cut_before_the_words() -> None:
    builder = GraphBuilder()
    level = [builder.operation("Exp", builder.leaf(f"w{number}")) for number in range(2**12)]
    while len(level) > 1:
        level = [builder.operation("Add", one, other) for one, other in zip(level[::2], level[1::2], strict=True)]
    builder.root(level[0])
    tree = tree_of(builder.build(), TreeRenderer(width=40), show_all=True)
    assert max(map(len, tree.splitlines())) <= 40
    assert all(word in line for line in tree.splitlines() if "○" in line and "para" not in line for word in "w[")


def test_source_lines_are_links_in_a_coloured_tree() -> None:
    builder = GraphBuilder()
    site = builder.line(7, file="/home/my net/train.py")
    builder.root(builder.operation("Sum", builder.leaf("w"), call_site=site))
    renderer = TreeRenderer(width=80, color=True, editor="vscode")
    link = "\x1b]8;;vscode://file/home/my%20net/train.py:7\x1b\\train.py:7\x1b]8;;\x1b\\"
    assert link in tree_of(builder.build(), renderer)
    assert "vscode" not in tree_of(builder.build(), TreeRenderer(width=80, editor="vscode"))


def test_every_sign_has_its_own_ascii_character() -> None:
    signs = [*ROLE_SIGNS.values(), FAILED, ABOVE, BELOW, MATCH]
    assert len({sign.character for sign in signs}) == len({sign.ascii for sign in signs}) == len(signs)
    assert all(len(sign.ascii) == 1 and sign.ascii.isascii() for sign in signs)
    assert set(ROLE_SIGNS) == set(ROLE_STYLES)
