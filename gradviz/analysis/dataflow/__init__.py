"""What was computed from what: questions to the log of torch calls."""
