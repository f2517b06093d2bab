"""Rules about loops around a training: which batches they reach, and which of their variables do nothing."""
