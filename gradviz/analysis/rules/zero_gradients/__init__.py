"""GV2xx: gradients that are zero or vanish."""
