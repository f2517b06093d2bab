"""What a network returned, when it is trained and scored; which state is kept, what a split shares, decoded paths."""
