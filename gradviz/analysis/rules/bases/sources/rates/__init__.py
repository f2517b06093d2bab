"""What the source says of learning rates and schedules: where they are set, and what they count."""
