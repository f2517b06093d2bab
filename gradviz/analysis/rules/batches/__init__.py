"""Rules about the samples of a batch: which they are, in which order, and what is paired with what."""
