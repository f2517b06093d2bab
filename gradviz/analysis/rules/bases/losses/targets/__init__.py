"""What rules share about targets, and sums of values and log-probabilities, with a gradient or without one."""
