"""What rules read in a source of a program: the names and places of its tensors, what changes them, and what ran."""
