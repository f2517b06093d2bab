"""The backward pass step by step, as data."""
