"""Rules about what a score is made of: inputs changed at random, items seen before, ratios of batches, decoded paths."""
