"""What a network returned, in training and when it is scored."""
