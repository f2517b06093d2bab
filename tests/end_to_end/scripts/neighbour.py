"""Imported by the scripts beside it."""

VALUE = 5
