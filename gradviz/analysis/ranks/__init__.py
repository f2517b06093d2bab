"""The ranks of one job compared."""
