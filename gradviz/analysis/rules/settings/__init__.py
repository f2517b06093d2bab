"""Rules about numbers that layers, losses and optimizers are set to, and that mean the opposite elsewhere."""
