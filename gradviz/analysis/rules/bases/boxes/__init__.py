"""What rules share about boxes and areas: their overlap, and the bounds of what predicts them."""
