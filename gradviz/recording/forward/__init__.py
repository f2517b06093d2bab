"""What is noticed while the forward computation runs: lines, modules, names, values."""
