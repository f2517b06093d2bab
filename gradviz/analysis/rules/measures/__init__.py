"""Rules about what a score is computed of: inputs changed at random, items seen before, ratios of batches."""
