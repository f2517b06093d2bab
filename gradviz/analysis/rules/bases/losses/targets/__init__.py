"""Targets and log-probabilities in losses, with their signs; classes, and what losses ask of their arguments."""
