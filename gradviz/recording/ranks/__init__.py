"""The processes of one job: how they are recorded, and what they know of each other."""
