"""Selecting: the part of a graph that the reader asked for, as a graph of its own."""
