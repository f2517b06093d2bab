"""What happened to every parameter in a run."""
