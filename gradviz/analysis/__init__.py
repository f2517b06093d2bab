"""Computes findings and figures from a capture. Works without torch."""
