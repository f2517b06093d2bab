"""What rules share about checkpoints: which calls run inside them, and the state that changes there."""
