"""The explanation of one kind of node, and of one node of a capture, as data."""
