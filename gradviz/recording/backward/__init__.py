"""Noticing backward calls, measuring them, and telling how they failed."""
