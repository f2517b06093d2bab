"""Selecting: the part of a graph that the user asked for, as a graph itself."""
