"""Rules about weights with a distribution, and mixtures of distributions."""
