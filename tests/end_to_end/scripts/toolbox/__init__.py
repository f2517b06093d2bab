"""A package that can be run with -m."""
