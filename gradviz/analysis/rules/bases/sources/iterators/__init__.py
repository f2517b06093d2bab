"""Variables that hold an iterator, which gives its elements once: what goes over it, and in which order."""
