"""Rules about what a loss or a step adds to keep weights small: penalties, decay."""
