"""The memory that a graph keeps for its backward, and what would reduce it."""
