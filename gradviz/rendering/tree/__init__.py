"""The terminal tree."""
