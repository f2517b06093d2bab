"""Options that several commands share, and the settings of a check."""
