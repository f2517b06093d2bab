"""Base classes and helpers that several rules share."""
