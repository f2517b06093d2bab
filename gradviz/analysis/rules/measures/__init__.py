"""Rules about what is scored: changed inputs, seen items, ratios of batches, decoded paths, neighbours, and links."""
