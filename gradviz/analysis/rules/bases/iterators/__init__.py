"""What rules read in a program's source of iterators: the variables that hold one, and what goes over it."""
