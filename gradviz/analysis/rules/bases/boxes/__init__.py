"""What rules share about boxes: their overlap, and the bounds of what predicts them."""
