"""What a network returned, in training and when it is scored; which state is kept, and what a split shares."""
