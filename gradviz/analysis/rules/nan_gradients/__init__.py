"""GV3xx: gradients that are NaN or Inf, or explode."""
