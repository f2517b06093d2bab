"""Names for parts of a graph, and search."""
