"""GV1xx: gradients that are missing because a line cut their path."""
