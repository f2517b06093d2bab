"""Running the user's program as python would: its files, its stacks, its traceback, its limits."""
