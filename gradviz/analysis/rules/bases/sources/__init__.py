"""What rules read in a program's source of its variables: which hold an iterator, and what their names say."""
