"""What ``torch.compile`` made of a program: compiled functions, their regions, breaks and recompilations."""
