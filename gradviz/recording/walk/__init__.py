"""From `grad_fn` to a graph: walking `next_functions`, and reading what nodes saved."""
