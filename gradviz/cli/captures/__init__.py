"""Where a capture comes from, what is drawn of it, and what is kept when something fails."""
