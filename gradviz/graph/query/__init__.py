"""Naming things in a graph and finding them."""
