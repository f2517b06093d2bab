"""GV8xx and GV9xx: memory and time that could be saved, and reentrant checkpoints."""
