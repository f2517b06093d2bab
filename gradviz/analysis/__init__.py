"""Capture in, findings and figures out. No torch."""
