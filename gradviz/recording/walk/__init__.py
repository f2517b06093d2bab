"""Builds a graph from a `grad_fn`: follows `next_functions`, and reads what nodes saved."""
