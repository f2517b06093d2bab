"""What is drawn once, before the training, and used at each of its steps."""
