"""Derivatives that a program computes: which input they are by, which are the same, and of what there is none."""
