"""Rules about masks, time steps, and what a position of a sequence may see."""
