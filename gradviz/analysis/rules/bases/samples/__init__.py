"""What a program computes for single samples of a batch: weights, gradients, mixtures and risk sets."""
