"""What became of every parameter in a run."""
