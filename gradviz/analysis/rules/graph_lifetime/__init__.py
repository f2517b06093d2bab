"""GV5xx: graphs that were freed too early or kept too long."""
