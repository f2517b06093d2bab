"""Terminals: width, colours, pager, progress."""
