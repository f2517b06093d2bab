"""GV7xx that look at schedules of learning rates: what steps them, what their figures count, which rates come out."""
