"""The memory that a graph keeps for its backward, and how to reduce it."""
