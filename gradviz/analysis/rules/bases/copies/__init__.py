"""What lays out copies of samples in rows, and what takes these rows in another order."""
