"""What the source of a loop says that no call shows."""
