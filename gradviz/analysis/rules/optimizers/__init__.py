"""GV7xx that look at steps: which tensors an optimizer holds, when it steps, how far."""
