"""What is noted while the program computes forward: calls, lines, module calls, names, memory and values."""
