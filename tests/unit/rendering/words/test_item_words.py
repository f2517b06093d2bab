"""The words on items."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from msgspec import structs

from gradviz.capture.capture import Capture, Program
from gradviz.graph.model import CallSite, Graph, HeldTensor, Node, TensorFacts
from gradviz.graph.query.operation_names import call_word, operation_word
from gradviz.rendering.words.common_words import count_words, shape_words
from gradviz.rendering.words.item_words import ItemText, first_to_last, item_texts
from gradviz.rendering.words.subject_facts import SubjectFacts
from gradviz.view.folding import FoldOptions, fold
from tests.builders import GraphBuilder, facts, graph_of, transformer, unrolled_rnn

SOURCES = {"/home/me/train.py": {7: "  h = relu(fc(x))", 12: "loss = step(x)"}}


def texts_of(graph: Graph, **options: object) -> list[ItemText]:
    view = fold(graph, FoldOptions(**options))  # type: ignore[arg-type]
    return list(item_texts(SubjectFacts(Capture(Program("train.py"), sources=SOURCES), graph, view)))


def text_of(graph: Graph, title: str, **options: object) -> ItemText:
    return next(text for text in texts_of(graph, **options) if text.title == title)


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("MulBackward0", "mul"),
        ("LogSoftmaxBackward0", "log_softmax"),
        ("NllLoss2DBackward0", "nll_loss2d"),
        ("MaxPool2DWithIndicesBackward0", "max_pool2d_with_indices"),
        ("AddmmBackward0", "addmm"),
        ("ScaledDotProductFlashAttentionForCpuBackward0", "scaled_dot_product_attention"),
        ("torch::autograd::CopySlices", "copy_slices"),
        ("CudnnRnnBackward0", "cudnn_rnn"),
        ("Backward", "Backward"),
    ],
)
def test_a_node_without_a_forward_call_is_named_after_its_operation(name: str, word: str) -> None:
    assert operation_word(name) == word


@pytest.mark.parametrize(
    ("call", "word"),
    [
        ("torch.nn.functional.linear", "linear"),
        ("torch.Tensor.__add__", "add"),
        ("torch.Tensor.__radd__", "add"),
        ("torch.Tensor.__iadd__", "add_"),
        ("torch.Tensor.__matmul__", "matmul"),
        ("torch.Tensor.relu_", "relu_"),
    ],
)
def test_a_forward_call_is_named_without_its_module(call: str, word: str) -> None:
    assert call_word(call) == word


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (0, "0"),
        (850, "850"),
        (1234, "1.2k"),
        (999_960, "1.0M"),
        (85_056_000, "85.1M"),
        (124_439_808, "124M"),
        (7 * 10**12, "7.0T"),
    ],
)
def test_counts_have_three_digits_at_most(count: int, words: str) -> None:
    assert count_words(count) == words


def test_a_shape_names_its_dtype_unless_it_is_float32() -> None:
    assert shape_words(facts(8, 64)) == "[8, 64]"
    assert shape_words(TensorFacts((), "float32")) == "scalar"
    assert shape_words(TensorFacts((2, "j1"), "float16")) == "[2, j1] float16"


def test_an_operation_is_called_by_the_function_that_made_it() -> None:
    builder = GraphBuilder()
    made = builder.operation("Addmm", builder.leaf("w"), forward_call="torch.nn.functional.linear")
    builder.root(made)
    text = text_of(builder.build(), "linear")
    assert text.subtitle == "AddmmBackward0"
    assert "made by torch.nn.functional.linear" in text.tooltip


def test_nodes_that_share_one_call_are_called_by_their_own_names() -> None:
    titles = [text.title for text in texts_of(transformer(1), depth=9)]
    assert "log_softmax" in titles
    assert "nll_loss" in titles
    assert "linear" in titles


def test_a_custom_function_keeps_its_name() -> None:
    builder = GraphBuilder()
    builder.root(builder.operation("MyReLUBackward", builder.leaf("w"), kind="custom"))
    assert text_of(builder.build(), "MyReLU").subtitle == "MyReLUBackward"


def test_the_line_is_in_the_users_code_and_the_tooltip_shows_its_source() -> None:
    builder = GraphBuilder()
    builder.call_sites = [
        CallSite("/home/me/train.py", 12),
        CallSite("/home/me/train.py", 7, "forward", caller=0),
        CallSite("/lib/torch/nn/functional.py", 99, "relu", caller=1, is_library=True),
    ]
    builder.root(builder.operation("Relu", builder.leaf("w"), call_site=2))
    text = text_of(builder.build(), "relu")
    assert text.line == "train.py:7"
    assert text.tooltip[1:4] == (
        "inside functional.py:99 in relu",
        "train.py:7 in forward: h = relu(fc(x))",
        "called from train.py:12",
    )


def test_where_all_lines_are_in_libraries_the_innermost_is_shown() -> None:
    builder = GraphBuilder()
    builder.call_sites = [CallSite("/lib/pkg/a.py", 3, is_library=True), CallSite("/lib/pkg/b.py", 4, "f", 0, True)]
    builder.root(builder.operation("Relu", builder.leaf("w"), call_site=1))
    assert text_of(builder.build(), "relu").line == "b.py:4"


def test_a_box_whose_line_calls_twice_still_shows_its_line() -> None:
    builder = GraphBuilder()
    builder.call_sites = [CallSite("train.py", 7), CallSite("train.py", 7)]
    scope = builder.scope("fc", "Linear")
    first = builder.operation("Mm", builder.leaf("w"), scope=scope, call_site=0)
    builder.root(builder.operation("Relu", first, scope=scope, call_site=1))
    assert text_of(builder.build(), "fc", depth=0).line == "train.py:7"


def test_tied_parameters_show_both_names() -> None:
    builder = GraphBuilder()
    builder.root(builder.operation("Mm", builder.leaf("wte.weight", (5, 4), names=["head.weight"])))
    text = text_of(builder.build(), "wte.weight (= head.weight)")
    assert text.shape == "[5, 4]"


def test_a_parameter_inside_its_modules_box_is_named_from_there() -> None:
    text = text_of(transformer(1), "weight", depth=9)
    assert text.tooltip[0].startswith("model.embed.weight: leaf, requires grad")


def test_an_unnamed_leaf_says_what_it_is() -> None:
    builder = GraphBuilder()
    builder.nodes.append(Node(0, "torch::autograd::AccumulateGrad", "input"))
    builder.root(builder.operation("Sum", 0))
    assert [text.title for text in texts_of(builder.build())] == ["input", "sum", "loss"]


def test_the_root_is_named_after_its_variable_and_knows_the_call() -> None:
    text = texts_of(graph_of("w -> Sum -> loss"))[-1]
    assert (text.title, text.subtitle, text.shape) == ("loss", "backward()", "[2, 3]")
    assert "backward() call 1 of this run" in text.tooltip


def test_constants_say_that_they_need_no_gradient() -> None:
    text = text_of(graph_of("w -> Mul -> loss; {mask} -> Mul"), "mask")
    assert text.subtitle == "no gradient"


def test_a_repeated_box_names_first_and_last_and_counts_all() -> None:
    text = text_of(transformer(12), "h.0 … h.11", depth=1)
    assert text.subtitle == "Block"
    assert text.badge == "×12 · 1.7k params"
    assert "12 alike, one after the other; the first is shown" in text.tooltip


def test_a_box_is_named_from_the_box_around_it() -> None:
    titles = [text.title for text in texts_of(transformer(1), depth=3, max_items=500)]
    assert titles[0] == "model"
    assert {"embed", "h.0", "ln_1", "attn", "q", "mlp", "head"} <= set(titles)


def test_a_loop_without_modules_is_named_by_its_operations() -> None:
    text = text_of(unrolled_rnn(300), "mm ×2, add, tanh", depth=0)
    assert text.badge == "×300 · 18 params"


def test_a_result_of_an_earlier_repetition_is_named_after_its_operation() -> None:
    text = text_of(unrolled_rnn(300), "previous tanh")
    assert (text.subtitle, text.shape) == ("from the repetition before", "[2, 3]")
    assert text.tooltip == ("the tanh of the repetition before", "the first repetition takes something else")


def test_the_first_state_of_a_loop_says_that_only_the_first_repetition_uses_it() -> None:
    builder = GraphBuilder()
    state = builder.leaf("h0", kind="input")
    for _ in range(20):
        state = builder.operation("Tanh", builder.operation("Exp", builder.operation("Sin", state)))
    builder.root(state)
    graph = builder.build()
    assert text_of(graph, "h0").shape == "[2, 3] · first only"
    assert "the first repetition takes h0 instead" in text_of(graph, "previous tanh").tooltip


def test_a_loop_on_one_line_shows_its_source() -> None:
    builder = GraphBuilder()
    site, last = builder.line(7, file="/home/me/train.py"), builder.leaf("w", kind="input")
    for _ in range(20):
        last = builder.operation("Tanh", builder.operation("Exp", last, call_site=site), call_site=site)
    builder.root(last)
    assert "train.py:7 in <module>: h = relu(fc(x))" in text_of(builder.build(), "exp, tanh").tooltip


def test_a_long_row_of_operations_is_cut_between_two_of_them() -> None:
    builder = GraphBuilder()
    last = builder.leaf("w", kind="input")
    for _ in range(20):
        for operation in ("LogSoftmax", "NllLoss", "BinaryCrossEntropy", "Sin"):
            last = builder.operation(operation, last)
    builder.root(last)
    assert text_of(builder.build(), "log_softmax, nll_loss, … 2 more").badge == "×20"


def test_a_call_inside_a_second_call_does_not_say_again_that_it_is_the_second() -> None:
    builder = GraphBuilder()
    last = builder.leaf("x", kind="input")
    for _ in range(2):
        net = builder.scope("net", "Net")
        last = builder.operation("Sin", last, scope=builder.scope("net.act", "Act", net))
    builder.root(last)
    titles = [text.title for text in texts_of(builder.build(), depth=1)]
    assert titles == ["net", "x", "act", "net (call 2)", "act", "loss"]


def test_a_tied_parameter_is_named_from_the_module_that_uses_it() -> None:
    builder = GraphBuilder()
    head = builder.scope("model.head", "Linear", builder.scope("model", "Net"))
    weight = builder.leaf("model.body.wte.weight", names=["model.head.weight"])
    builder.root(builder.operation("Mm", weight, scope=head))
    assert "weight (= body.wte.weight)" in [text.title for text in texts_of(builder.build())]


def test_the_second_call_of_a_module_says_so() -> None:
    builder = GraphBuilder()
    last = builder.leaf("x", kind="input")
    for operation in ("Sin", "Exp"):
        last = builder.operation(operation, last, scope=builder.scope("act", "Act"))
    builder.root(last)
    assert [text.title for text in texts_of(builder.build(), depth=0)] == ["x", "act", "act (call 2)", "loss"]


def test_the_only_call_of_a_module_in_a_graph_has_no_number_though_others_ran_before() -> None:
    builder = GraphBuilder()
    net = builder.scope("net", "Net", earlier_calls=2)
    builder.root(builder.operation("Sin", builder.leaf("x", kind="input"), scope=net))
    assert [text.title for text in texts_of(builder.build(), depth=0)] == ["x", "net", "loss"]


def test_a_folded_box_says_what_is_special_inside() -> None:
    builder = GraphBuilder()
    scope = builder.scope("net", "Net", parameter_count=85_056_000)
    odd = builder.operation("MineBackward", builder.leaf("w"), kind="custom", scope=scope)
    builder.root(builder.operation("Add", odd, kind="inplace", scope=scope))
    text = text_of(builder.build(), "net", fold=("net",))
    assert text.badge == "85.1M params"
    assert text.subtitle == "Net · holds 1 custom function"
    assert "among them 1 custom function, 1 in-place operation" in text.tooltip
    assert "parameters: w" in text.tooltip


def test_the_shape_of_a_folded_box_is_that_of_its_output() -> None:
    builder = GraphBuilder()
    scope = builder.scope("proj", "Conv1D")
    made = builder.operation("Addmm", builder.leaf("w"), scope=scope, shape=(6, 4))
    viewed = builder.operation("View", made, scope=scope, shape=(2, 3, 4), kind="view")
    flat = builder.operation("View", viewed, shape=(24,), kind="view")
    builder.root(builder.operation("Sum", flat, shape=()))
    assert text_of(builder.build(), "proj", depth=0).shape == "[2, 3, 4]"


def test_attributes_hooks_and_held_tensors_are_in_the_tooltip() -> None:
    graph = graph_of("w -> Sum -> loss")
    made = graph.nodes[1]
    held = HeldTensor(names=("h",), retains_grad=True)
    node = structs.replace(made, attributes={"dim": 1}, hooks=("clip",), held=(held,))
    text = text_of(Graph((graph.nodes[0], node), graph.roots), "sum")
    assert "dim = 1" in text.tooltip
    assert "hooks: clip" in text.tooltip
    assert "h: not a leaf, requires grad, retains grad, no .grad" in text.tooltip


def test_a_line_of_operations_that_is_one_box_is_named_by_its_source() -> None:
    builder = GraphBuilder()
    site = builder.line(7, file="/home/me/train.py")
    last, others = builder.leaf("w"), builder.line(8, file="/home/me/train.py")
    numbers = random.Random(2)
    for number in range(40):
        last = builder.operation(
            numbers.choice(["Sin", "Exp", "Cos", "Mul", "Add", "Tanh"]),
            last,
            call_site=site if number < 35 or number > 38 else others,
        )
    builder.root(last)
    texts = texts_of(builder.build(), max_items=20)
    assert replace(texts[0], tooltip=(), source=None, short_line="") == ItemText(
        "h = relu(fc(x))", "35 operations", "", "6 params", "train.py:7"
    )


def test_a_view_that_a_call_makes_of_its_own_result_is_its_result() -> None:
    builder = GraphBuilder()
    product = builder.operation("Mm", builder.leaf("w"), shape=(6, 5), forward_call="torch.matmul", line=3)
    view = builder.operation("UnsafeView", product, shape=(2, 3, 5), forward_call="torch.matmul", line=3)
    builder.nodes[view] = structs.replace(builder.nodes[view], held=(HeldTensor(names=("scores",)),))
    builder.root(builder.operation("Sum", view, shape=()))
    text = text_of(builder.build(), "matmul")
    assert (text.shape, text.name) == ("[2, 3, 5]", "scores")


def test_an_operation_of_several_outputs_names_all_and_counts_them() -> None:
    builder = GraphBuilder()
    halves = builder.operation("Split", builder.leaf("w"))
    names = tuple(HeldTensor(names=(name,), output_nr=number) for number, name in enumerate(("mu", "logvar")))
    builder.nodes[halves] = structs.replace(builder.nodes[halves], outputs=(facts(5, 4), facts(5, 4)), held=names)
    builder.root(builder.operation("Add", (halves, 0), (halves, 1)))
    text = text_of(builder.build(), "split")
    assert (text.name, text.shape) == ("mu, logvar", "2 × [5, 4]")


def test_hooks_and_retained_gradients_are_on_the_label_of_their_operation() -> None:
    builder = GraphBuilder()
    scaled = builder.operation("Mul", builder.leaf("w"))
    held = (HeldTensor(names=("scaled",), retains_grad=True),)
    builder.nodes[scaled] = structs.replace(builder.nodes[scaled], hooks=("watch",), held=held)
    builder.root(builder.operation("Sum", scaled))
    assert text_of(builder.build(), "mul").badge == "retains grad · 1 hook"
    assert text_of(builder.build(), "sum").badge == ""


def test_roots_without_a_name_are_counted() -> None:
    builder = GraphBuilder()
    total = builder.operation("Sum", builder.leaf("w"))
    builder.root(total, None)
    assert texts_of(builder.build())[-1].title == "output"
    builder.root(total, "loss")
    builder.root(total, None)
    assert [text.title for text in texts_of(builder.build())[-3:]] == ["output 1", "loss", "output 2"]


def test_a_line_of_the_script_that_is_named_above_needs_no_file_name() -> None:
    builder = GraphBuilder()
    product = builder.operation("Mul", builder.leaf("w"), line=7)
    builder.root(builder.operation("Sum", product, call_site=builder.line(3, file="/home/me/helpers.py")))
    texts = {text.title: text for text in texts_of(builder.build())}
    assert (texts["mul"].line, texts["mul"].short_line) == ("train.py:7", "line 7")
    assert texts["sum"].short_line == "helpers.py:3"


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (("parameters['w0']", "parameters['w18']"), "parameters['w0 … w18']"),
        (("layers.0.weight", "layers.11.weight"), "layers.0 … 11.weight"),
        (("w", "b.w"), "w"),
        (("a.x", "b.y"), "a.x"),
        (("w",), "w"),
    ],
)
def test_leaves_drawn_once_are_named_from_the_first_to_the_last(names: tuple[str, ...], told: str) -> None:
    assert first_to_last(names) == told
