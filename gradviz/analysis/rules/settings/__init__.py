"""Rules about what layers, losses and optimizers are set to: numbers that mean the opposite elsewhere, and defaults."""
