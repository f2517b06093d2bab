"""Fingerprints of tensors and of random number generators, taken while the program runs."""
