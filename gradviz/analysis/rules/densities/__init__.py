"""Rules about weights with a distribution, mixtures of distributions, and samples that are squashed."""
