"""GV7xx: parameters that do not train."""
