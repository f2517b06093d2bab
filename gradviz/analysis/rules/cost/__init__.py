"""GV8xx and GV9xx: what costs more than it needs to."""
