"""What rules read in the source of a program: where its tensors are kept, what changes them, and which lines ran."""
