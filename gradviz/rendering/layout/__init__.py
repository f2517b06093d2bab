"""Positions of boxes and routes of wires."""
