"""Compares two recordings: what is different, and where it began."""
