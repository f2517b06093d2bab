"""What rules share about mixtures of data and noise along a time: the mixture, its speed, and steps of a sampler."""
