"""Rules about the losses of reinforcement learning: advantages, targets, entropies, squashed actions."""
