"""Rules about what is scored: inputs changed at random, items seen before, ratios of batches, and decoded paths."""
