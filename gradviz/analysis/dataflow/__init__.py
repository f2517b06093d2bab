"""What was computed from what, according to the log of torch calls."""
