"""Grids: what counts along their axes, and how values between their points are split."""
