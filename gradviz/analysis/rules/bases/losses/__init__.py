"""What losses ask: scales and their logarithms, fits and their signs, rewards, and players with a loss each."""
