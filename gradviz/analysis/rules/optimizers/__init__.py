"""GV7xx that look at steps and learning rates: which tensors an optimizer holds, when it steps, how far."""
