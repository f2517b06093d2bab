"""Runs the user's program as python would: finds it, plans its recording, reads its stacks, shows its tracebacks."""
