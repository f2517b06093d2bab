"""Notices backward calls, measures their gradients, and finds out how they failed."""
