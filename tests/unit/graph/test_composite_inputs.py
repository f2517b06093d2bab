"""Data belongs to the operation that takes it, even where one call of torch made several operations."""

from __future__ import annotations

from gradviz.graph.query.composite_inputs import with_constants_at_users
from tests.builders import GraphBuilder

LINEAR = "torch.nn.functional.linear"
CELL = "torch.lstm_cell"


def taken(builder: GraphBuilder) -> dict[str, list[str]]:
    """The names of the data that each operation takes."""
    graph = with_constants_at_users(builder.build())
    return {
        f"{node.name.removesuffix('Backward0')}#{node.id}": [graph.constants[c].names[0] for c in node.constants]
        for node in graph.nodes
        if node.constants
    }


def test_the_data_of_a_linear_layer_belongs_to_the_product_and_not_to_the_view_after_it() -> None:
    builder = GraphBuilder()
    x, weight = builder.constant("x", (2, 5, 3)), builder.leaf("weight", (4, 3))
    product = builder.operation("Mm", None, weight, forward_call=LINEAR)
    builder.root(builder.operation("View", product, forward_call=LINEAR, constants=[x], kind="view"))
    assert taken(builder) == {"Mm#1": ["x"]}


def test_the_states_of_a_cell_are_distinguished_by_shape_and_order() -> None:
    builder = GraphBuilder()
    x, h, c = (builder.constant(name, shape) for name, shape in (("x", (2, 3)), ("h", (2, 4)), ("c", (2, 4))))
    u, w = builder.leaf("u", (4, 4)), builder.leaf("w", (3, 4))
    from_state = builder.operation("Mm", None, u, forward_call=CELL, shape=(2, 4))
    from_input = builder.operation("Mm", None, w, forward_call=CELL, shape=(2, 4))
    gate = builder.operation("Add", from_state, from_input, forward_call=CELL, shape=(2, 4))
    kept = builder.operation("Mul", gate, None, forward_call=CELL, shape=(2, 4))
    builder.root(builder.operation("Add", kept, gate, forward_call=CELL, constants=[x, h, c]))
    assert taken(builder) == {"Mm#2": ["h"], "Mm#3": ["x"], "Mul#5": ["c"]}


def test_data_stays_where_it_was_recorded_when_its_user_is_not_known() -> None:
    builder = GraphBuilder()
    target = builder.constant("target")
    first = builder.operation("Sub", builder.leaf("w"), None, forward_call=CELL)
    second = builder.operation("Where", None, first, forward_call=CELL)
    builder.root(builder.operation("Mean", second, forward_call=CELL, constants=[target]))
    assert taken(builder) == {"Mean#3": ["target"]}


def test_an_earlier_call_is_unchanged() -> None:
    builder = GraphBuilder()
    x = builder.constant("x")
    scaled = builder.operation("Mul", builder.leaf("w"), None, forward_call="torch.mul")
    builder.root(builder.operation("NllLoss", scaled, forward_call="torch.nn.functional.nll_loss", constants=[x]))
    assert taken(builder) == {"NllLoss#2": ["x"]}
