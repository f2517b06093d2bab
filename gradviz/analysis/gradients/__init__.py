"""The life of each `.grad`: filled by backward, changed, read, used by a step, cleared."""
