"""GV6xx: gradients that arrive and are wrong."""
