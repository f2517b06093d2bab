"""GV80x and GV90x: memory and time that could be saved, and reentrant checkpoints."""
