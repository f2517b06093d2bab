"""Rules about values on grids of pixels, along rays, and at points of space."""
