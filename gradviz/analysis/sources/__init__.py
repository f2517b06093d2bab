"""The source of the program, read as Python: its statements, what surrounds them, and what they bind and read."""
