"""What rules share about batches: the line that made one, where its samples come from, and their order."""
