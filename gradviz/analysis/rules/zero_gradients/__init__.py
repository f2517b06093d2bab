"""GV2xx: gradients that are zero or vanish; also comparisons that always have the same result."""
