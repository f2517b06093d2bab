"""What rules share about scales in a loss: their powers, their logarithms, and the masks that hide them."""
