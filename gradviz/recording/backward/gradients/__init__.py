"""Measures the gradients on every edge of one backward call."""
