"""A replay of the backward pass as text and as pictures."""
