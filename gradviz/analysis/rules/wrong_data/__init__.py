"""GV62x to GV65x: axes, batches, samples, targets and arguments that are not those that are meant."""
