"""The backward pass step by step, as text and as pictures."""
