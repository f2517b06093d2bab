"""What a folded graph shows."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from msgspec import structs

from gradviz.errors import BadInput
from gradviz.graph.model import Graph
from gradviz.public_graph import public_graph
from gradviz.view.folding import FoldOptions, fold
from gradviz.view.invariants import check_view
from gradviz.view.model import Item, View
from tests.builders import GraphBuilder, chain_graph, graph_of, transformer, unrolled_rnn


def folded(graph: Graph, **options: object) -> View:
    view = fold(graph, FoldOptions(**options))  # type: ignore[arg-type]
    check_view(view, graph)
    return view


def name(graph: Graph, view: View, item: Item) -> str:
    """``+model.fc`` for an open box, ``model.fc`` for a folded one, ``[]`` without module, ``<-Tanh`` if carried."""
    mark = "+" if item.is_open else ""
    times = f"*{item.repeat}" if item.repeat > 1 else ""
    if item.kind == "box":
        return mark + ("[]" if item.scope is None else graph.scopes[item.scope].path) + times
    if item.node is not None:
        node = graph.nodes[item.node]
        return node.names[0] if node.is_leaf else node.name.removesuffix("Backward0")
    if item.source is not None:
        made_by = view.items[item.source]
        return ("<-" if item.repetitions_back == 1 else f"<{item.repetitions_back}-") + name(graph, view, made_by)
    if item.constant is not None:
        return "{" + graph.constants[item.constant].names[0] + "}"
    return str(graph.roots[item.root or 0].name)


def names(graph: Graph, view: View) -> list[str]:
    return [name(graph, view, item) for item in view.items]


def links(graph: Graph, view: View) -> set[tuple[str, str]]:
    shown = names(graph, view)
    return {(shown[link.source], shown[link.target]) for link in view.links}


NET = "x -> net.fc1/Addmm -> net/Relu -> net.fc2/Addmm -> Sum -> loss; w1 -> net.fc1/Addmm; w2 -> net.fc2/Addmm"


def test_a_small_graph_is_shown_whole() -> None:
    graph = graph_of(NET)
    assert names(graph, folded(graph)) == [
        *("+net", "+net.fc1", "x", "w1", "Addmm", "Relu", "+net.fc2", "w2", "Addmm", "Sum", "loss"),
    ]


def test_depth_opens_as_many_levels_of_boxes() -> None:
    graph = graph_of(NET)
    assert names(graph, folded(graph, depth=0)) == ["x", "net", "Sum", "loss"]
    assert names(graph, folded(graph, depth=1)) == ["+net", "x", "net.fc1", "Relu", "net.fc2", "Sum", "loss"]
    assert links(graph, folded(graph, depth=1)) == {
        ("x", "net.fc1"), ("net.fc1", "Relu"), ("Relu", "net.fc2"), ("net.fc2", "Sum"), ("Sum", "loss"),
    }  # fmt: skip


def test_a_folded_box_lists_its_parameters_and_keeps_inputs_beside_it() -> None:
    graph = graph_of(NET)
    view = folded(graph, depth=0)
    box = next(item for item in view.items if item.kind == "box")
    assert {graph.nodes[leaf].names[0] for leaf in box.parameters} == {"w1", "w2"}
    assert links(graph, view) == {("x", "net"), ("net", "Sum"), ("Sum", "loss")}


def test_a_leaf_that_a_few_operations_share_is_one_item() -> None:
    graph = graph_of("w -> Mul -> Exp -> Add -> loss; w -> Add")
    assert names(graph, folded(graph)) == ["w", "Mul", "Exp", "Add", "loss"]
    assert {("w", "Mul"), ("w", "Add")} < links(graph, folded(graph))


def test_a_leaf_that_many_operations_use_is_drawn_beside_each() -> None:
    graph = graph_of("x -> " + " -> ".join(f"Mul{number}" for number in range(7)) + " -> loss"
                     + "".join(f"; w -> Mul{number}" for number in range(7)))  # fmt: skip
    assert names(graph, folded(graph, show_all=True)).count("w") == 7


def test_a_leaf_is_drawn_in_each_module_call_that_uses_it() -> None:
    graph = graph_of("x -> net.one/Mul -> net.two/Exp -> loss; w -> net.one/Mul; w -> net.two/Exp")
    view = folded(graph, show_all=True)
    assert names(graph, view).count("w") == 2


def test_a_leaf_used_twice_by_one_operation_is_one_link_of_two_edges() -> None:
    graph = graph_of("w -> Mul -> loss; w -> Mul")
    view = folded(graph)
    assert names(graph, view) == ["w", "Mul", "loss"]
    assert [link.edge_count for link in view.links] == [2, 1]


def test_constants_are_drawn_with_their_users_unless_they_are_hidden() -> None:
    graph = graph_of("w -> Mul -> Add -> loss; {x} -> Mul; {x} -> Add")
    assert names(graph, folded(graph)) == ["w", "{x}", "Mul", "Add", "loss"]
    hidden = folded(graph, show_constants=False)
    assert names(graph, hidden) == ["w", "Mul", "Add", "loss"]
    assert [item.constants for item in hidden.items] == [(), (0,), (0,), ()]


def test_unnamed_data_without_elements_is_not_drawn_and_a_note_says_so() -> None:
    builder = GraphBuilder()
    kept, empty = builder.constant("x"), builder.constant("", (0,))
    builder.constants[empty] = structs.replace(builder.constants[empty], names=())
    builder.root(builder.operation("Cat", builder.leaf("w"), constants=(empty, kept)))
    view = folded(builder.build())
    assert [item.constant for item in view.items if item.kind == "constant"] == [kept]
    assert "1 input without elements is not drawn" in view.notes


def test_a_root_that_is_a_leaf_is_linked_from_that_leaf() -> None:
    graph = graph_of("w -> loss; w -> Mul -> other")
    assert {("w", "loss"), ("w", "Mul"), ("Mul", "other")} == links(graph, folded(graph))


def test_alike_blocks_are_one_box_and_show_the_first() -> None:
    graph = transformer(12)
    view = folded(graph, depth=2)
    shown = names(graph, view)
    assert shown[:3] == ["+model", "{tokens}", "model.embed"], "a call of one operation is not opened"
    assert "+model.h.0*12" in shown
    assert not any("h.1" in word for word in shown)
    (blocks,) = [item for item in view.items if item.repeat == 12]
    assert graph.scopes[blocks.last_scope or 0].path == "model.h.11"
    assert len(blocks.parameters) == 12 * 14
    assert "12 alike model.h.0 … model.h.11 are drawn once" in view.notes


def test_links_of_all_repetitions_lead_to_the_first_and_none_to_the_next() -> None:
    graph = transformer(3)
    view = folded(graph, depth=2)
    assert ("model.embed", "model.h.0.ln_1") in links(graph, view)
    adds = [item.id for item in view.items if name(graph, view, item) == "Add"]
    into_first_block = [link.source for link in view.links if link.target in adds[:1]]
    assert not set(into_first_block) & set(adds), "the loop itself is not drawn"
    assert sum(name(graph, view, view.items[link.target]) == "+model.head" for link in view.links) == 0


def test_modules_of_one_operation_stay_folded_where_not_everything_can_be_open() -> None:
    graph = transformer(12)
    view = folded(graph, max_items=30)
    assert {"model.embed", "model.head"} <= set(names(graph, view))
    assert "+model.embed" in names(graph, folded(graph, depth=4)), "a depth that was asked for is kept"


def test_a_weight_is_drawn_before_its_bias() -> None:
    builder = GraphBuilder()
    bias, weight = builder.leaf("bias", (3,)), builder.leaf("weight", (3, 3))
    builder.root(builder.operation("Addmm", bias, None, weight))
    graph = builder.build()
    assert names(graph, folded(graph)) == ["weight", "bias", "Addmm", "loss"]


def test_several_rows_of_alike_parts_have_one_note() -> None:
    builder = GraphBuilder()
    last = builder.operation("Exp", builder.leaf("w"))
    for number in range(8):
        for _ in range(10 + number):
            last = builder.operation(("Sin", "Cos")[number % 2], last)
    builder.root(last)
    notes = folded(builder.build()).notes
    assert notes[0] == "8 rows of alike parts are drawn once each: ×10, ×11, ×12, ×13, ×14, ×15, …"


def test_a_plain_stack_of_blocks_has_no_carried_items() -> None:
    assert not [item for item in folded(transformer(12), depth=3).items if item.kind == "carried"]


def test_a_loop_shows_what_each_step_takes_from_the_one_before_and_what_the_first_takes_instead() -> None:
    graph = loop(start="h0")
    view = folded(graph)
    assert names(graph, view) == ["+[]*20", "w", "h0", "<-Tanh", "Mul", "Exp", "Tanh", "loss"]
    assert ("<-Tanh", "Mul") in links(graph, view)
    (carried,) = [item for item in view.items if item.kind == "carried"]
    assert names(graph, view)[carried.instead or 0] == "h0"


def test_data_that_every_step_takes_is_not_shown_as_data_of_the_first_step_only() -> None:
    graph = loop(start="w")
    (carried,) = [item for item in folded(graph).items if item.kind == "carried"]
    assert carried.instead is None


def test_a_value_carried_over_two_steps_says_so() -> None:
    builder = GraphBuilder()
    before, last = builder.operation("Sin", builder.leaf("a")), builder.operation("Cos", builder.leaf("b"))
    for _ in range(30):
        made = builder.operation("Add", builder.operation("Exp", before), builder.operation("Tanh", last))
        before, last = last, made
    builder.root(last)
    graph = builder.build()
    view = folded(graph)
    assert {("<2-Add", "Exp"), ("<-Add", "Tanh")} <= links(graph, view)


def test_a_running_total_takes_its_own_result_of_the_step_before() -> None:
    builder = GraphBuilder()
    w, total = builder.leaf("w"), None
    for _ in range(30):
        total = builder.operation("Add", total, builder.operation("Exp", w))
    assert total is not None
    builder.root(total)
    graph = builder.build()
    assert ("<-Add", "Add") in links(graph, folded(graph))


def test_a_sum_over_a_list_carries_its_total_although_the_inputs_of_its_first_step_have_another_order() -> None:
    builder = GraphBuilder()
    w = builder.leaf("w", kind="input")
    total = None
    for _ in range(30):
        term = builder.operation("Exp", w)
        total = builder.operation("Add", total, term) if total else builder.operation("Add", term, None)
    assert total is not None
    builder.root(total)
    graph = builder.build()
    assert {("<-Add", "Add"), ("Exp", "Add")} <= links(graph, folded(graph))


def test_the_state_that_only_the_first_step_takes_is_not_mixed_up_with_the_data_of_all() -> None:
    builder = GraphBuilder()
    h0, state = builder.constant("h0"), None
    w = builder.leaf("w")
    for step in range(30):
        given = [builder.constant(f"x[{step}]")]
        joined = builder.operation("Cat", state, None, constants=given if state else [h0, *given])
        state = builder.operation("Tanh", builder.operation("Mm", joined, w))
    assert state is not None
    builder.root(state)
    graph = builder.build()
    view = folded(graph)
    shown = names(graph, view)
    assert [len(view.items[shown.index(word)].constants) for word in ("{h0}", "{x[0]}")] == [1, 30]
    (carried,) = [item for item in view.items if item.kind == "carried"]
    assert carried.instead == shown.index("{h0}")


def loop(start: str) -> Graph:
    """``state = tanh(exp(mul(state, w)))`` twenty times, starting with the leaf `start`."""
    builder = GraphBuilder()
    w = builder.leaf("w", kind="input")
    state = w if start == "w" else builder.leaf(start, kind="input")
    for _ in range(20):
        state = builder.operation("Tanh", builder.operation("Exp", builder.operation("Mul", w, state)))
    builder.root(state)
    return builder.build()


def test_the_depth_is_chosen_so_that_the_picture_stays_readable() -> None:
    for blocks in (1, 2, 12, 300):
        assert len(folded(transformer(blocks)).items) <= 60


def test_a_loop_without_modules_is_folded_by_its_period() -> None:
    graph = unrolled_rnn(10_000)
    assert names(graph, folded(graph)) == [
        "+[]*10000", "w", "{x[0]}", "Mm", "u", "<-Tanh", "Mm", "Add", "Tanh", "Sum", "loss",
    ]  # fmt: skip
    assert names(graph, folded(graph, depth=0)) == ["{x[0]}", "[]*10000", "Sum", "loss"]


def test_a_long_chain_of_one_operation_is_one_box() -> None:
    graph = chain_graph(200_000)
    view = folded(graph)
    assert names(graph, view) == ["w", "Mul", "[]*200000", "Sum", "loss"]
    assert view.notes == ("200,000 alike operations are drawn once",)


def test_a_loop_within_a_loop_is_folded_twice() -> None:
    builder = GraphBuilder()
    last = builder.operation("Mul", builder.leaf("w"))
    for _ in range(20):
        for _ in range(5):
            last = builder.operation("Sin", last)
        last = builder.operation("Exp", last)
    builder.root(last)
    graph = builder.build()
    assert names(graph, folded(graph)) == ["w", "Mul", "+[]*20", "[]*5", "Exp", "loss"]


def test_query_key_and_value_stay_separate() -> None:
    graph = transformer(2)
    shown = names(graph, folded(graph, depth=3, max_items=1000))
    assert {"model.h.0.attn.q", "model.h.0.attn.k", "model.h.0.attn.v"} <= set(shown)


def test_two_towers_side_by_side_are_not_taken_for_a_chain() -> None:
    builder = GraphBuilder()
    ends = []
    for tower in range(2):
        scope = builder.scope(f"tower{tower}", "Tower")
        last = builder.leaf(f"w{tower}")
        for operation in ("Mul", "Exp", "Sin", "Cos", "Tanh"):
            last = builder.operation(operation, last, scope=scope)
        ends.append(last)
    builder.root(builder.operation("Add", *ends))
    graph = builder.build()
    assert names(graph, folded(graph, depth=0)) == ["tower0", "tower1", "Add", "loss"]


def test_a_graph_that_nothing_groups_is_cut_into_parts_and_says_so() -> None:
    graph = random_graph(3000)
    view = folded(graph)
    assert 3 <= len(view.items) <= 120
    assert any("made one after the other" in note for note in view.notes)


def test_operations_are_grouped_by_their_line_where_that_is_enough() -> None:
    builder = GraphBuilder()
    last, numbers = builder.leaf("w"), random.Random(0)
    for line in range(1, 9):
        for _ in range(numbers.randint(10, 20)):
            last = builder.operation(numbers.choice(["Sin", "Exp", "Mul", "Add"]), last, line=line)
    builder.root(last)
    graph = builder.build()
    view = folded(graph, depth=0, max_items=1)
    assert len(view.items) > 8, "a depth that was asked for is kept"
    assert names(graph, folded(graph)) == [*["[]"] * 8, "loss"]


def test_unfolding_a_path_opens_the_boxes_around_it_and_separates_it_from_alike_ones() -> None:
    graph = transformer(6)
    shown = names(graph, folded(graph, depth=0, unfold=("model.h.3.mlp",)))
    assert {"+model", "model.h.0*3", "+model.h.3", "+model.h.3.mlp", "model.h.4*2"} <= set(shown)


def test_a_star_unfolds_all_alike_modules_together_and_the_variable_may_be_left_out() -> None:
    graph = transformer(6)
    assert "+model.h.0*6" in names(graph, folded(graph, depth=0, unfold=("h.*",)))


def test_a_path_can_be_kept_folded() -> None:
    graph = graph_of(NET)
    shown = names(graph, folded(graph, fold=("net.fc1",)))
    assert "net.fc1" in shown
    assert "+net.fc2" in shown


def test_an_unknown_path_is_refused_with_the_nearest() -> None:
    with pytest.raises(BadInput, match=r"no box is named 'net.fc3'; did you mean 'net.fc2' or 'net.fc1'"):
        fold(graph_of(NET), FoldOptions(unfold=("net.fc3",)))


def test_the_failed_node_is_always_visible() -> None:
    graph = transformer(12)
    failed = next(
        node.id
        for node in graph.nodes
        if node.name == "GeluBackward0" and graph.scopes[node.scope or 0].path == "model.h.7.mlp"
    )
    graph = Graph(
        graph.nodes, graph.roots, graph.scopes, graph.call_sites, graph.constants,
        type(graph.backward)(number=1, failed_node=failed) if graph.backward else None,
    )  # fmt: skip
    view = folded(graph, depth=0)
    assert any(item.node == failed for item in view.items)
    assert {"model.h.0*7", "+model.h.7", "model.h.8*4"} <= set(names(graph, view))


def test_everything_is_shown_when_asked_for() -> None:
    graph = transformer(4)
    view = folded(graph, show_all=True, show_plumbing=True)
    operations = [item for item in view.items if item.node is not None and not graph.nodes[item.node].is_leaf]
    assert len(operations) == sum(not node.is_leaf for node in graph.nodes)
    assert view.notes == ()


@pytest.mark.parametrize(("count", "words"), [(1, "1 in-place operation"), (2, "2 in-place operations")])
def test_what_is_peculiar_inside_of_a_folded_box_is_counted(count: int, words: str) -> None:
    builder = GraphBuilder()
    net, last = builder.scope("net", "Net"), builder.leaf("w")
    for _ in range(count):
        last = builder.operation("Relu", last, scope=net, kind="inplace")
    builder.root(builder.operation("Sum", builder.operation("Mul", last, scope=net)))
    assert f"folded boxes hold {words}" in folded(builder.build(), depth=0).notes


def test_a_note_says_the_depth() -> None:
    assert "depth 1 of 3: --depth N or --unfold PATH shows more" in folded(transformer(12), depth=1).notes


def test_a_depth_above_that_of_all_other_boxes_opens_calls_of_one_operation() -> None:
    graph = transformer(2)
    assert "modules that make one operation are folded: --depth 4 opens them" in folded(graph, depth=3).notes
    assert "model.embed" in names(graph, folded(graph, depth=3))
    assert "+model.embed" in names(graph, folded(graph, depth=4))


def test_calls_of_one_operation_stay_folded_also_where_everything_fits() -> None:
    def layers(count: int) -> Graph:
        builder = GraphBuilder()
        net, last = builder.scope("net", "Net"), builder.leaf("x")
        for number in range(count):
            weight = builder.leaf(f"net.{number}.weight")
            last = builder.operation("Mm", last, weight, scope=builder.scope(f"net.{number}", f"Layer{number}", net))
        builder.root(last)
        return builder.build()

    assert "+net.1" in names(layers(3), folded(layers(3))), "a small picture shows every weight"
    many = folded(layers(12))
    assert "+net" in names(layers(12), many)
    assert "+net.1" not in names(layers(12), many)
    assert "modules that make one operation are folded: --depth 2 opens them" in many.notes


def blocks_with_custom_function(count: int, *, alike: bool) -> Graph:
    builder = GraphBuilder()
    model, last = builder.scope("net", "Net"), builder.leaf("x", kind="input")
    for number in range(count):
        block = builder.scope(f"net.{number}", "Block", model)
        for operation in ("Mm", "Exp"):
            last = builder.operation(operation, last, builder.leaf(f"net.{number}.{operation}"), scope=block)
        last = builder.operation("Mine" if alike else f"Mine{number}", last, kind="custom", scope=block)
        last = builder.operation("Sin", builder.operation("Cos", last, scope=block), scope=block)
    builder.root(last)
    return builder.build()


def test_a_custom_function_is_visible_whatever_the_depth_and_blocks_stay_alike() -> None:
    graph = blocks_with_custom_function(96, alike=True)
    for depth in (0, None):
        shown = names(graph, folded(graph, depth=depth))
        assert shown[:2] == ["+net", "+net.0*96"]
        assert "Mine" in shown


def test_a_box_folded_by_the_user_stays_folded_and_a_note_counts_its_custom_functions() -> None:
    graph = blocks_with_custom_function(5, alike=True)
    view = folded(graph, fold=("net",))
    assert names(graph, view) == ["x", "net", "loss"]
    assert "folded boxes hold 5 custom functions" in view.notes


def test_custom_functions_that_would_make_the_picture_too_large_are_only_counted_in_a_note() -> None:
    graph = blocks_with_custom_function(60, alike=False)
    view = folded(graph)
    assert len(view.items) <= 120
    assert "folded boxes hold 60 custom functions" in view.notes


def test_where_all_custom_functions_are_too_many_the_first_of_each_name_is_visible() -> None:
    builder = GraphBuilder()
    model, last = builder.scope("net", "Net"), builder.leaf("x", kind="input")
    for number in range(12):
        block = builder.scope(f"net.{number}", "Block", model)
        for place in range(10):  # no two blocks are alike
            last = builder.operation(f"Step{number}of{place}", last, scope=block)
        last = builder.operation("Mine", last, kind="custom", scope=block)
    builder.root(last)
    graph = builder.build()
    view = folded(graph)
    assert names(graph, view).count("Mine") == 1
    assert "net.11" in names(graph, view)
    assert "folded boxes hold 11 custom functions" in view.notes


def test_a_level_that_reaches_the_limit_is_open_where_the_picture_would_otherwise_be_a_single_box() -> None:
    builder = GraphBuilder()
    model, last = builder.scope("net", "Net"), builder.leaf("x", kind="input")
    for number in range(3):
        part = builder.scope(f"net.part{number}", "Part", model)
        for name in range(20):
            last = builder.operation(f"Inner{number}of{name}", last, scope=part)
    for number in range(45):
        last = builder.operation(f"Outer{number}", last, scope=model)
    builder.root(last)
    graph = builder.build()
    assert {"net.part0", "Outer0", "Outer44"} <= set(names(graph, folded(graph)))


def test_nodes_that_must_be_shown_open_the_boxes_around_them_and_alike_boxes_stay_together() -> None:
    graph = transformer(12)
    gelus = [node.id for node in public_graph(graph).find("Gelu")]
    view = fold(graph, FoldOptions(depth=0), must_show=gelus)
    check_view(view, graph)
    assert {"+model.h.0*12", "+model.h.0.mlp", "Gelu"} <= set(names(graph, view))
    (weight,) = public_graph(graph).find("model.h.3.mlp.fc.weight")
    shown = names(graph, fold(graph, FoldOptions(depth=0), must_show=[weight.id]))
    assert {"model.h.0*3", "+model.h.3.mlp.fc", "model.h.3.mlp.fc.weight", "model.h.4*8"} <= set(shown)


def test_deeply_nested_modules_need_no_recursion() -> None:
    builder = GraphBuilder()
    scope, last = None, builder.leaf("w")
    for depth in range(3000):
        scope = builder.scope("m" + ".m" * depth, "Wrapper", scope)
        last = builder.operation("Exp" if depth % 3 else "Sin", last, scope=scope)
    builder.root(last)
    graph = builder.build()
    assert len(folded(graph).items) <= 120
    assert len(folded(graph, show_all=True).items) > 6000


def test_a_module_called_again_and_again_is_one_box() -> None:
    builder = GraphBuilder()
    w, last = builder.leaf("cell.w"), builder.leaf("x", kind="input")
    for _ in range(50):
        scope = builder.scope("cell", "Cell")
        last = builder.operation("Tanh", builder.operation("Mm", last, w, scope=scope), scope=scope)
    builder.root(last)
    graph = builder.build()
    view = folded(graph, depth=0)
    assert names(graph, view) == ["x", "cell*50", "loss"]
    assert "50 alike calls of cell are drawn once" in view.notes


def test_inputs_of_later_repetitions_are_inside_a_folded_loop() -> None:
    view = folded(unrolled_rnn(500), depth=0)
    assert sum(item.kind == "constant" for item in view.items) == 1


def test_the_same_graph_gives_the_same_view() -> None:
    assert folded(transformer(5)) == folded(transformer(5))


def random_graph(size: int, seed: int = 1) -> Graph:
    numbers = random.Random(seed)
    builder = GraphBuilder()
    leaves = [builder.leaf(f"w{index}", kind=numbers.choice(["parameter", "input"])) for index in range(5)]
    data = [builder.constant("x"), builder.constant("scale", kind="buffer")]
    made = list(leaves)
    scopes: list[int] = []
    for _ in range(size):
        while scopes and numbers.random() < 0.2:
            scopes.pop()
        if numbers.random() < 0.15 and len(scopes) < 6:
            path = ".".join(["net", *(str(numbers.randint(0, 2)) for _ in scopes)])
            scopes.append(builder.scope(path, "Part", scopes[-1] if scopes else None))
        made.append(
            builder.operation(
                numbers.choice(["Add", "Mul", "View", "T", "Exp"]),
                *numbers.sample(made[-8:], numbers.randint(1, 2)),
                scope=scopes[-1] if scopes else None,
                constants=numbers.sample(data, 1) if numbers.random() < 0.2 else (),
            )
        )
    builder.root(made[-1])
    builder.root(made[len(made) // 2], "middle")
    return builder.build()


def option_sets() -> Iterator[FoldOptions]:
    for depth in (None, 0, 1, 2, 5):
        for show_plumbing in (False, True):
            yield FoldOptions(depth=depth, show_plumbing=show_plumbing)
    yield FoldOptions(show_all=True)
    yield FoldOptions(max_items=8, show_constants=False)


@pytest.mark.parametrize("seed", range(12))
def test_every_view_of_any_graph_is_consistent(seed: int) -> None:
    graph = random_graph(40 * (seed + 1), seed)
    for options in option_sets():
        check_view(fold(graph, options), graph)


def growing_loop(steps: int) -> Graph:
    """``cache = cat([cache, h @ w]); h = tanh(h @ cache)``: no step has the shapes of another."""
    builder = GraphBuilder()
    w = builder.leaf("w", (8, 8))
    h = cache = builder.operation("Mm", None, w, shape=(1, 8))
    for step in range(2, steps + 2):
        cache = builder.operation("Cat", cache, builder.operation("Mm", h, w, shape=(1, 8)), shape=(step, 8))
        h = builder.operation("Tanh", builder.operation("Mm", h, cache, shape=(1, step)), shape=(1, 8))
    builder.root(h)
    return builder.build()


def test_a_loop_whose_tensor_grows_is_folded_and_says_that_shapes_differ() -> None:
    graph = growing_loop(10_000)
    view = folded(graph)
    assert names(graph, view) == [
        "w", "Mm", "+[]*10000", "w", "<-Tanh", "Mm", "<-Cat", "Cat", "<-Tanh", "Mm", "Tanh", "loss",
    ]  # fmt: skip
    assert [item.sizes_differ for item in view.items if item.repeat > 1] == [True]
    assert view.notes == ("10,000 alike groups of operations are drawn once; their shapes differ",)


def test_a_readable_number_of_operations_stays_separate_where_shapes_differ() -> None:
    view = folded(growing_loop(8))
    assert not any(item.repeat > 1 for item in view.items)


def test_no_note_says_that_repetitions_of_one_shape_differ() -> None:
    assert not any(item.sizes_differ for item in folded(unrolled_rnn(100)).items)


def test_dtypes_and_ranks_separate_repetitions_even_where_sizes_do_not() -> None:
    builder = GraphBuilder()
    last = builder.leaf("w", (2, 2), kind="input")
    for number in range(200):
        shape = (2, number + 1) if number < 100 else (2, 2, number)
        last = builder.operation("Exp", builder.operation("Mm", last, shape=shape), shape=shape)
    builder.root(last)
    graph = builder.build()
    assert names(graph, folded(graph, depth=0)) == ["w", "[]*100", "[]*100", "loss"]


def test_layers_of_a_list_fold_although_each_is_wider_than_the_one_before() -> None:
    builder = GraphBuilder()
    model, last = builder.scope("net", "Net"), builder.leaf("x", (2, 8), kind="input")
    for number in range(80):
        layer = builder.scope(f"net.layers.{number}", "Layer", model)
        weight = builder.leaf(f"net.layers.{number}.weight", (8 + number, 9 + number))
        made = builder.operation("Mm", last, weight, scope=layer, shape=(2, 9 + number))
        last = builder.operation("Relu", made, scope=layer, shape=(2, 9 + number))
    builder.root(last)
    graph = builder.build()
    view = folded(graph)
    assert "+net.layers.0*80" in names(graph, view)
    assert "80 alike net.layers.0 … net.layers.79 are drawn once; their shapes differ" in view.notes


def test_runs_of_different_members_of_one_list_stay_separate() -> None:
    builder = GraphBuilder()
    model, last = builder.scope("net", "Net"), builder.leaf("x", kind="input")
    for number in range(24):
        class_name = {8: "Pool", 16: "Norm"}.get(number, "Layer")
        layer = builder.scope(f"net.layers.{number}", class_name, model)
        for operation in ("Mm", "Relu", "Exp"):
            last = builder.operation(operation, last, scope=layer)
    builder.root(last)
    graph = builder.build()
    shown = names(graph, folded(graph, depth=1))
    assert shown == [
        "+net", "x", "net.layers.0*8", "net.layers.8", "net.layers.9*7", "net.layers.16", "net.layers.17*7", "loss",
    ]  # fmt: skip


@pytest.mark.parametrize("outermost", ["step", "layer"])
def test_an_rnn_of_several_layers_folds_over_steps_and_layers(outermost: str) -> None:
    builder = GraphBuilder()
    weights = [(builder.leaf(f"w{layer}", (3, 3)), builder.leaf(f"u{layer}", (3, 3))) for layer in range(4)]
    states: dict[int, int] = {}
    outputs: dict[int, int] = {}
    order = [(step, layer) for step in range(50) for layer in range(4)]
    for step, layer in order if outermost == "step" else sorted(order, key=lambda pair: pair[1]):
        w, u = weights[layer]
        from_input = builder.operation("Mm", outputs.get(step), w)
        total = builder.operation("Add", from_input, builder.operation("Mm", states.get(layer), u))
        states[layer] = outputs[step] = builder.operation("Tanh", total)
    builder.root(outputs[49])
    graph = builder.build()
    shown = names(graph, folded(graph))
    boxes = ["+[]*50", "+[]*4"] if outermost == "step" else ["+[]*4", "+[]*50"]
    assert [word for word in shown if word.startswith("+")] == boxes


def test_a_path_may_be_named_by_its_end() -> None:
    graph = transformer(3)
    assert "+model.h.0.mlp" in names(graph, folded(graph, depth=0, unfold=("mlp",)))


@pytest.mark.parametrize("period", [7, 12])
def test_sizes_that_come_again_with_a_period_fold_as_well_as_random_ones(period: int) -> None:
    builder = GraphBuilder()
    last = builder.leaf("x", (4, 2), kind="input")
    for number in range(100):
        weight = builder.leaf(f"w{number}", (2 + number % period, 2 + (number + 1) % period))
        made = builder.operation("Mm", last, weight, shape=(4, 2 + (number + 1) % period))
        last = builder.operation("Tanh", made, shape=(4, 2 + (number + 1) % period))
    builder.root(last)
    view = folded(builder.build())
    assert [(item.repeat, item.sizes_differ) for item in view.items if item.repeat > 1] == [(100, True)]
