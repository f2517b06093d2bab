"""What the names in a program say: two names of one tensor, and values under each other's names."""
