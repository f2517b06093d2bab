"""What rules share about the gradients that backward calls add up."""
